//! Ends what a control plane started, however its owner ends.
//!
//! A small shell waits at the other end of a pipe. When the pipe closes, because the owner dropped it, panicked or was
//! killed, the shell kills the process group that every component joins and removes the directory. Joining a group
//! happens before `exec`, so there is no instant at which a component exists and the keeper does not know it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Kills the group `$1` and removes the directory `$2` at the end of the input.
const SCRIPT: &str = r#"
cat >/dev/null
kill -s KILL -- "-$1" 2>/dev/null
tries=0
while kill -s 0 -- "-$1" 2>/dev/null && [ "$tries" -lt 100 ]; do sleep 0.05; tries=$((tries + 1)); done
rm -rf -- "$2"
"#;

/// Owns a process group and a directory; both are gone once it is dropped or its process has died.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// Leads the group, so that it exists before the first component; it waits for the same end as the shell.
    leader: Child,
    shell: Child,
    dir: PathBuf,
}

impl Keeper {
    /// Starts a keeper that will remove `dir`.
    pub(crate) fn new(dir: PathBuf) -> Result<Self> {
        let mut leader = Command::new("cat");
        let leader = waiting(&mut leader)?;
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "testbed-keeper", &leader.id().to_string()]).arg(&dir);
        Ok(Self { shell: waiting(&mut shell)?, leader, dir })
    }

    /// The directory that goes when the keeper goes.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes `command` die with this keeper.
    pub(crate) fn adopt(&self, command: &mut Command) {
        command.process_group(self.leader.id().cast_signed());
    }

    /// Kills the group and removes the directory, and returns when both are gone.
    ///
    /// `reap` is called in between, to collect the children of this process that have just been killed.
    pub(crate) fn end(&mut self, reap: impl FnOnce()) {
        drop(self.shell.stdin.take());
        drop(self.leader.stdin.take());
        let _ = self.leader.wait();
        reap();
        let _ = self.shell.wait();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end(|| {});
    }
}

/// Starts `command` in a group of its own, where a terminal's Ctrl-C does not reach it, with a pipe as its input.
fn waiting(command: &mut Command) -> Result<Child> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| {
            format!("cannot start {}, which cleans up after the testbed", command.get_program().display())
        })
}
