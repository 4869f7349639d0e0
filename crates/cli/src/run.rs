//! `headstart run`: the operator.

use anyhow::Context;
use headstart_operator::Options;

/// Run the operator: watch a cluster, buy the nodes that its pods need, and take them away again
///
/// One of several replicas acts: the one that holds Karpenter's own Lease, so that Headstart and Karpenter never act at once.
/// Every option is also an environment variable, with Karpenter's names and defaults where the meaning is the same, so that
/// the environment of a Karpenter deployment can be kept.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  headstart run --kubeconfig ~/.kube/config        on a cluster with kwok, from outside
  FEATURE_GATES=NodeOverlay=true headstart run     as a chart would start it
  headstart run --journal j.jsonl                  and later: headstart replay j.jsonl

Signals: SIGTERM and SIGINT let what has begun end, give the lease up and exit with 0; a second one exits at once.
Exit status: 1 after an error, and if the lease was lost, so that whoever supervises the process starts it anew.")]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    let result = runtime.block_on(headstart_operator::run(args.options));
    // What is still going on then, such as a name being looked up, must not delay the end.
    runtime.shutdown_background();
    Ok(result?)
}
