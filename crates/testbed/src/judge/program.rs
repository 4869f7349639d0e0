//! A solver in a process of its own: Karpenter's scheduler, unmodified, or ours.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{Answer, Case};
use crate::binaries::{self, Binary};

/// A running program that answers one case after the other; it ends with its owner.
pub struct Program {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Program {
    /// Karpenter's scheduler; without a file of instance types it uses the KWOK provider's own.
    pub fn karpenter(instance_types: Option<&Path>) -> Result<Self> {
        let mut command = Command::new(binaries::ensure(Binary::KarpenterSolve)?);
        if let Some(file) = instance_types {
            command.arg("-instance-types").arg(file);
        }
        Self::spawn(&mut command)
    }

    /// Our solver, which this very program is when it is asked to `solve`.
    pub fn ours(instance_types: &Path) -> Result<Self> {
        let this = std::env::current_exe().context("cannot find this program")?;
        Self::spawn(Command::new(this).arg("solve").arg("--instance-types").arg(instance_types))
    }

    fn spawn(command: &mut Command) -> Result<Self> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let questions = process.stdin.take();
        let answers = process.stdout.take().context("the program has no output")?;
        Ok(Self { process, questions, answers: BufReader::new(answers) })
    }

    /// Asks one question and waits for the answer.
    pub fn ask(&mut self, case: &Case) -> Result<Answer> {
        let questions = self.questions.as_mut().context("the program takes no questions")?;
        let mut line = serde_json::to_vec(case)?;
        line.push(b'\n');
        questions.write_all(&line)?;
        questions.flush()?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("the program ended with {} instead of answering", self.process.wait()?);
        }
        let answer: Answer = serde_json::from_str(&line)?;
        if !answer.error.is_empty() {
            bail!("the case was refused: {}", answer.error);
        }
        Ok(answer)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.questions = None;
        // It ends by itself once its input does, unless it is in the middle of an answer that nobody waits for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
