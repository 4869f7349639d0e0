//! Remembers what was observed, for `/observations`, and in a file so that it outlives the process.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headstart_engine::observation::History;
use headstart_engine::{Mode, Observation};

use crate::clock;
use crate::error::OperatorError;

/// What was observed.
pub(crate) struct Memory {
    history: Mutex<History>,
    file: Mutex<Option<File>>,
}

impl Memory {
    /// A memory that begins with what a file holds, if there is one; what is new is added to it.
    pub(crate) fn begin(
        mode: Mode,
        catalog: &str,
        modelled: &[String],
        path: Option<&Path>,
    ) -> Result<Arc<Self>, OperatorError> {
        let mut history = History::default();
        let mut file = None;
        if let Some(path) = path {
            let failed = |source| OperatorError::Observations { path: path.to_owned(), source };
            read(path, &mut history).map_err(failed)?;
            file = Some(write(path, &history).map_err(failed)?);
        }
        let first = history.samples.first().map(|sample| sample.at);
        history.mode = mode;
        catalog.clone_into(&mut history.catalog);
        history.modelled = modelled.to_vec();
        history.from = first.unwrap_or_else(|| clock::now().wall);
        Ok(Arc::new(Self { history: Mutex::new(history), file: Mutex::new(file) }))
    }

    /// Takes in one more.
    pub(crate) fn take(&self, observation: Observation) {
        let observation = lock(&self.history).take(observation);
        let mut file = lock(&self.file);
        if let Some(open) = file.as_mut()
            && let Err(error) = write_line(open, &observation)
        {
            tracing::error!(%error, "observations cannot be written any more; they are kept in memory only");
            *file = None;
        }
    }

    /// All of it as JSON.
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        let mut history = lock(&self.history);
        history.to = clock::now().wall;
        serde_json::to_string(&*history)
    }
}

/// Reads what another process wrote; what cannot be read is left out, with a word.
fn read(path: &Path, history: &mut History) -> io::Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut unread = 0;
    for line in BufReader::new(file).lines() {
        match serde_json::from_str(&line?) {
            Ok(observation) => drop(history.take(observation)),
            Err(_) => unread += 1,
        }
    }
    if unread > 0 {
        tracing::warn!(path = %path.display(), lines = unread, "some observations cannot be read; going on without");
    }
    history.inherit();
    Ok(())
}

/// Writes everything anew, so that the file does not grow with every restart, and opens it for more.
fn write(path: &Path, history: &History) -> io::Result<File> {
    let mut aside = PathBuf::from(path).into_os_string();
    aside.push(".new");
    let mut file = BufWriter::new(File::create(&aside)?);
    for observation in history.told() {
        write_line(&mut file, &observation)?;
    }
    file.flush()?;
    fs::rename(&aside, path)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)
}

fn write_line(file: &mut impl Write, observation: &Observation) -> io::Result<()> {
    let mut line = serde_json::to_vec(observation)?;
    line.push(b'\n');
    file.write_all(&line)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use headstart_engine::observation::{Belief, Decision};

    use super::*;

    fn begin(path: &Path) -> Arc<Memory> {
        Memory::begin(Mode::Observe, "kwok", &[], Some(path)).unwrap()
    }

    fn history(memory: &Memory) -> History {
        serde_json::from_str(&memory.json().unwrap()).unwrap()
    }

    #[test]
    fn what_was_observed_outlives_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("observations");
        let memory = begin(&path);
        let decision = Decision { id: 7, pods: 3, ..Decision::default() };
        memory.take(Observation::Decision(Box::new(decision)));
        let belief = Belief { source: "gap".into(), expected: 3, ..Belief::default() };
        memory.take(Observation::Beliefs(vec![belief.clone()]));
        // A process that is killed may leave half a line.
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"sample\":{\"at\"").unwrap();

        let again = begin(&path);
        again.take(Observation::Beliefs(vec![belief]));
        let known = history(&again);
        assert_eq!((known.mode, known.catalog.as_str()), (Mode::Observe, "kwok"));
        assert_eq!((known.decisions[0].id, known.decisions[0].pods), (7, 3));
        assert_eq!(known.beliefs[0].expected, 6);
        drop(again);
        assert_eq!(history(&begin(&path)).beliefs[0].expected, 6);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told_at_once() {
        let error = Memory::begin(Mode::Observe, "kwok", &[], Some(Path::new("/nowhere/at/all"))).err();
        assert!(error.unwrap().to_string().contains("/nowhere/at/all"));
    }
}
