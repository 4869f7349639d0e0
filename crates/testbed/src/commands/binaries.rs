//! `headstart-testbed binaries`: builds what is missing and says where everything is.

use std::process::ExitCode;

use anyhow::Result;
use headstart_testbed::binaries::{Binary, ensure_all};

/// Build the programs that are missing and print where they are.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Also Karpenter, its end-to-end suites and the programs that ask its code for answers.
    #[arg(long)]
    peers: bool,
}

#[expect(clippy::print_stdout, reason = "the paths are the answer")]
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let wanted = if arguments.peers { &Binary::ALL[..] } else { Binary::CONTROL_PLANE };
    for path in ensure_all(wanted)? {
        println!("{}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}
