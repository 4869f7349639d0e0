//! Where nothing goes wrong and nobody takes anything away, what is bought is used.

use std::collections::BTreeSet;

use headstart_engine::Kind;

use super::{Broken, Check};
use crate::api::{label, text};
use crate::ground::{Fact, Ground};
use crate::plan::{Plan, Profile, WorkloadKind};

#[derive(Default)]
pub(super) struct NoDoubleBuy {
    /// Nodes that ever ran a pod which was not a daemon.
    used: BTreeSet<String>,
}

/// Whether everything that is bought must be used in this run.
pub(super) fn applies(plan: &Plan) -> bool {
    plan.profile == Profile::Calm && plan.faults.is_empty()
}

impl Check for NoDoubleBuy {
    fn name(&self) -> &'static str {
        "no_double_buy"
    }

    fn see(&mut self, ground: &Ground, fact: &Fact) -> Result<(), Broken> {
        let Fact::Changed(Kind::Pod, index) = fact else { return Ok(()) };
        let pod = &ground.api.log(Kind::Pod)[*index].object;
        let node = text(pod, "/spec/nodeName");
        let daemons = ground.plan.workloads.iter().filter(|w| w.kind == WorkloadKind::Daemon);
        let daemon = daemons.map(|w| w.name.as_str()).any(|name| label(pod, "app") == Some(name));
        if !node.is_empty() && !daemon && !self.used.contains(node) {
            self.used.insert(node.to_owned());
        }
        Ok(())
    }

    fn end(&mut self, ground: &Ground) -> Result<(), Broken> {
        let unused: Vec<_> =
            ground.cloud.books().iter().filter(|m| !self.used.contains(m.node_name())).collect();
        // A pod may find room on another node while its own is still starting.
        let Some(first) = unused.first().filter(|_| unused.len() * 4 > ground.cloud.books().len() + 3) else {
            return Ok(());
        };
        let message = format!(
            "{} of {} instances never ran a pod, the first is {} of claim {}",
            unused.len(),
            ground.cloud.books().len(),
            first.instance.id,
            first.request.claim
        );
        Err(Broken::new(message).about(Kind::NodeClaim, format!("/{}", first.request.claim)))
    }
}
