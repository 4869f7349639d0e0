//! Writes the journal: a line for everything the engine is told or asked.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use headstart_engine::Time;
use headstart_engine::journal::{Entry, Header};

use crate::error::OperatorError;

/// How long a line may wait in memory.
const FLUSH: Duration = Duration::from_secs(1);

/// A journal being written.
pub(crate) struct Journal {
    file: BufWriter<File>,
    /// When what was written must be flushed.
    due: Option<Time>,
    failed: bool,
}

impl Journal {
    /// Begins a journal in a new file; one that exists is written over.
    pub(crate) fn begin(path: &Path, header: Header) -> Result<Self, OperatorError> {
        let failed = |source| OperatorError::Journal { path: path.to_owned(), source };
        let file = File::create(path).map_err(failed)?;
        let mut journal = Self { file: BufWriter::new(file), due: None, failed: false };
        journal.try_write(&Entry::Began(header)).and_then(|()| journal.file.flush()).map_err(failed)?;
        Ok(journal)
    }

    /// Adds an entry. A journal that cannot be written is given up, with a word, and nothing else stops.
    pub(crate) fn write(&mut self, now: Time, entry: &Entry) {
        if self.failed {
            return;
        }
        let written = self.try_write(entry);
        self.note(written);
        self.due.get_or_insert(now + FLUSH);
    }

    /// When to flush.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Flushes if it is time.
    pub(crate) fn flush_if_due(&mut self, now: Time) {
        if self.due.is_some_and(|due| due <= now) {
            self.flush();
        }
    }

    /// Flushes.
    pub(crate) fn flush(&mut self) {
        self.due = None;
        let flushed = self.file.flush();
        self.note(flushed);
    }

    fn try_write(&mut self, entry: &Entry) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, entry)?;
        self.file.write_all(b"\n")
    }

    fn note(&mut self, result: io::Result<()>) {
        if let Err(error) = result
            && !self.failed
        {
            self.failed = true;
            tracing::error!(%error, "cannot write the journal any more; going on without");
        }
    }
}
