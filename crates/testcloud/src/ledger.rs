//! The books: an append-only file of JSON lines, on disk before any answer that depends on them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use headstart_cloud::Catalog;
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use tokio::sync::watch;

use crate::record::{FORMAT, Fact, Record, VERSION};

/// Why a ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It cannot be opened, read or written.
    #[error("cannot {action} ledger {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Another process writes to it.
    #[error("ledger {} is in use by another test cloud; give each one a ledger of its own", .0.display())]
    InUse(PathBuf),
    /// It is some other kind of file.
    #[error("{} is not a ledger of a test cloud: {message}", path.display())]
    NotALedger {
        /// The file.
        path: PathBuf,
        /// What is wrong with its first line.
        message: String,
    },
    /// It was written by another version.
    #[error("ledger {} has version {found}, but this program reads version {VERSION}; begin a new one", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A line that is not the last makes no sense.
    #[error("ledger {}, line {line} makes no sense: {message}", path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// Which line, from one.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
}

/// What a ledger says.
#[derive(Debug, Clone, PartialEq)]
pub struct Contents {
    /// All records.
    pub records: Vec<Record>,
    /// How much there was of a last line that a crash cut off; zero if it ended well.
    pub torn_bytes: u64,
}

/// A ledger being written.
///
/// PERF: one thread writes; records queued while the disk was busy share the next sync.
pub(crate) struct Ledger {
    queue: Option<mpsc::Sender<(u64, Vec<u8>)>>,
    thread: Option<JoinHandle<()>>,
    queued: u64,
    written: watch::Receiver<Progress>,
}

/// Up to which entry everything is on disk, or why nothing is written any more.
type Progress = Result<u64, Arc<str>>;

/// Waits until entries are on disk.
#[derive(Clone)]
pub(crate) struct Written(watch::Receiver<Progress>);

/// Reads a ledger without changing it.
pub fn read(path: &Path) -> Result<Contents, LedgerError> {
    let mut text = Vec::new();
    File::open(path).and_then(|mut file| file.read_to_end(&mut text)).map_err(io_error("read", path))?;
    let (contents, _) = parse(path, &text)?;
    if contents.records.is_empty() {
        return Err(LedgerError::NotALedger { path: path.to_owned(), message: "it is empty".to_owned() });
    }
    Ok(contents)
}

/// Opens a ledger for writing, or begins one; drops a last line that a crash cut off.
pub(crate) fn open(path: &Path, catalog: &Catalog) -> Result<(Ledger, Contents), LedgerError> {
    let fail = |action| io_error(action, path);
    let mut file =
        OpenOptions::new().read(true).append(true).create(true).open(path).map_err(fail("open"))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => LedgerError::InUse(path.to_owned()),
        error => fail("lock")(error.into()),
    })?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(fail("read"))?;
    let (mut contents, good_bytes) = parse(path, &text)?;
    let mut more = Vec::new();
    let at = |contents: &Contents| contents.records.last().map_or_else(Timestamp::now, |record| record.at);
    if contents.torn_bytes > 0 {
        file.set_len(good_bytes).and_then(|()| file.seek(SeekFrom::End(0))).map_err(fail("mend"))?;
    }
    if contents.records.is_empty() {
        let fact = Fact::Opened {
            format: FORMAT.to_owned(),
            version: VERSION,
            catalog: catalog.source.clone(),
            modelled: catalog.modelled.clone(),
        };
        more.push(Record { at: at(&contents), fact });
    }
    if contents.torn_bytes > 0 {
        more.push(Record { at: at(&contents), fact: Fact::Torn { bytes: contents.torn_bytes } });
    }
    file.write_all(&lines(&more)).and_then(|()| file.sync_all()).map_err(fail("write"))?;
    contents.records.extend(more);
    Ok((Ledger::start(file), contents))
}

impl Ledger {
    fn start(file: File) -> Self {
        let (queue, entries) = mpsc::channel();
        let (progress, written) = watch::channel(Ok(0));
        let thread = std::thread::spawn(move || write_all(file, &entries, &progress));
        Self { queue: Some(queue), thread: Some(thread), queued: 0, written }
    }

    /// Queues records and returns the entry to wait for.
    pub(crate) fn append(&mut self, records: &[Record]) -> u64 {
        if records.is_empty() {
            return self.queued;
        }
        self.queued += 1;
        if let Some(queue) = &self.queue {
            // If the thread is gone it has said why, and whoever waits will read that.
            let _ = queue.send((self.queued, lines(records)));
        }
        self.queued
    }

    /// A handle to wait with.
    pub(crate) fn written(&self) -> Written {
        Written(self.written.clone())
    }
}

impl Drop for Ledger {
    /// Writes what is queued and lets go of the file.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Written {
    /// Waits until an entry is on disk, or tells why it never will be.
    pub(crate) async fn wait(&mut self, entry: u64) -> Result<(), Arc<str>> {
        let done = |progress: &Progress| progress.as_ref().map_or(true, |written| *written >= entry);
        match self.0.wait_for(done).await {
            Ok(progress) => progress.clone().map(|_| ()),
            Err(_) => Err("the ledger was closed".into()),
        }
    }

    /// Waits until nothing can be written any more, and tells why.
    pub(crate) async fn broken(&mut self) -> Arc<str> {
        match self.0.wait_for(Result::is_err).await.map(|progress| progress.clone()) {
            Ok(Err(why)) => why,
            _ => "the ledger was closed".into(),
        }
    }
}

fn write_all(mut file: File, entries: &mpsc::Receiver<(u64, Vec<u8>)>, progress: &watch::Sender<Progress>) {
    while let Ok((mut last, mut bytes)) = entries.recv() {
        for (entry, more) in entries.try_iter() {
            last = entry;
            bytes.extend(more);
        }
        let result = file.write_all(&bytes).and_then(|()| file.sync_data());
        let failed = result.is_err();
        let _ = progress.send(result.map(|()| last).map_err(|error| error.to_string().into()));
        if failed {
            return;
        }
    }
}

fn lines(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        // Writing plain data to memory cannot fail.
        let _ = serde_json::to_writer(&mut bytes, record);
        bytes.push(b'\n');
    }
    bytes
}

/// The records, and how many bytes of the text are whole lines.
fn parse(path: &Path, text: &[u8]) -> Result<(Contents, u64), LedgerError> {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut records = Vec::new();
    for (index, line) in text[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        if index == 0 {
            check_header(path, line)?;
        }
        let record = serde_json::from_slice(line).map_err(|error| LedgerError::BadLine {
            path: path.to_owned(),
            line: index + 1,
            message: error.to_string(),
        })?;
        records.push(record);
    }
    let torn_bytes = (text.len() - whole) as u64;
    // A first line that never got its end is torn too, but only if it is ours.
    if whole == 0 && torn_bytes > 0 && !looks_like_header(text) {
        return Err(LedgerError::NotALedger {
            path: path.to_owned(),
            message: "it has no line that ends".to_owned(),
        });
    }
    Ok((Contents { records, torn_bytes }, whole as u64))
}

fn looks_like_header(text: &[u8]) -> bool {
    let begin = br#"{"at":""#;
    let n = text.len().min(begin.len());
    text[..n] == begin[..n]
}

fn check_header(path: &Path, line: &[u8]) -> Result<(), LedgerError> {
    let not_a_ledger = |message: String| LedgerError::NotALedger { path: path.to_owned(), message };
    let header: serde_json::Value = serde_json::from_slice(line)
        .map_err(|error| not_a_ledger(format!("its first line is not JSON: {error}")))?;
    if header["format"] != FORMAT {
        return Err(not_a_ledger(format!("its first line does not name the format {FORMAT:?}")));
    }
    match header["version"].as_u64().and_then(|version| u32::try_from(version).ok()) {
        Some(VERSION) => Ok(()),
        Some(found) => Err(LedgerError::Version { path: path.to_owned(), found }),
        None => Err(not_a_ledger("its first line has no version".to_owned())),
    }
}

fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> LedgerError {
    let path = path.to_owned();
    move |source| LedgerError::Io { action, path: path.clone(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_cannot_be_written_is_never_confirmed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        std::fs::write(&path, "").unwrap();
        // A file opened for reading stands for a disk that takes nothing any more.
        let mut ledger = Ledger::start(File::open(&path).unwrap());
        let record = Record { at: Timestamp::UNIX_EPOCH, fact: Fact::Left { id: "i-1".into() } };
        let entry = ledger.append(std::slice::from_ref(&record));
        let mut written = ledger.written();
        assert!(written.wait(entry).await.unwrap_err().contains("Bad file descriptor"));
        let later = ledger.append(&[record]);
        assert!(written.wait(later).await.is_err());
        assert!(written.broken().await.contains("Bad file descriptor"));
    }
}
