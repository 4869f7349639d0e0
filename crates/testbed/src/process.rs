//! One child process of a control plane: started, paused, resumed, killed and started again.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::keeper::Keeper;

/// What to run; kept so that a process can be started again as it was.
#[derive(Debug, Clone)]
pub struct Program {
    pub name: String,
    pub path: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub dir: Option<PathBuf>,
}

impl Program {
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), path: path.into(), args: Vec::new(), env: Vec::new(), dir: None }
    }

    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Runs in this directory instead of the caller's.
    #[must_use]
    pub fn in_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }
}

/// A running program whose output goes to a log file.
#[derive(Debug)]
pub struct Process {
    program: Program,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts `program` as a member of the keeper's group, appending its output to `log`.
    pub(crate) fn start(program: Program, log: &Path, keeper: &Keeper) -> Result<Self> {
        let child = spawn(&program, log, keeper)?;
        Ok(Self { program, log: log.to_owned(), child })
    }

    pub fn name(&self) -> &str {
        &self.program.name
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if the process has ended.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Stops the process from running, as a machine that hangs would, until [`Process::resume`].
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks the process to end.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Kills the process without warning and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.reap();
    }

    pub fn reap(&mut self) -> Option<ExitStatus> {
        self.child.wait().ok()
    }

    /// Kills the process if it runs and starts it again as it was first started.
    pub(crate) fn restart(&mut self, keeper: &Keeper) -> Result<()> {
        self.kill();
        self.child = spawn(&self.program, &self.log, keeper)?;
        Ok(())
    }

    /// The last lines the process wrote, for error messages.
    pub fn log_tail(&self) -> String {
        tail(&self.log, 12)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).context("a process has no id")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.program.name))
    }
}

fn spawn(program: &Program, log: &Path, keeper: &Keeper) -> Result<Child> {
    let out = OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot open {}", log.display()))?;
    let mut command = Command::new(&program.path);
    command
        .args(&program.args)
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out);
    if let Some(dir) = &program.dir {
        command.current_dir(dir);
    }
    keeper.adopt(&mut command);
    command.spawn().with_context(|| format!("cannot start {}", program.path.display()))
}

/// The last `lines` lines of a text file, or nothing if it cannot be read.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
