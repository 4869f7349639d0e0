//! One file per subcommand.

pub(crate) mod bench;
pub(crate) mod binaries;
pub(crate) mod solve;
pub(crate) mod suites;
pub(crate) mod tour;
pub(crate) mod up;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

/// Returns when somebody wants this program to end: Ctrl-C, `kill`, or a closed terminal.
pub(crate) async fn interrupted() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result?,
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    Ok(())
}
