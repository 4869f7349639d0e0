//! What happens by itself: instances end, Nodes appear and vanish.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Client;

use crate::cloud::Cloud;
use crate::nodes;
use crate::record::Fact;
use crate::world::{Decision, NodeTask};

/// How many Nodes are worked on at once.
const AT_ONCE: usize = 16;
/// How long to wait before something that failed in the cluster is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// Makes things happen when they are due, for as long as the books can be written.
pub(crate) async fn run(cloud: Arc<Cloud>, cluster: Option<Client>) {
    let mut changes = cloud.changes();
    loop {
        changes.mark_unchanged();
        let due = |world: &mut crate::world::World, now| {
            let facts = world.due(now);
            Decision { answer: (), facts }
        };
        if cloud.change(due).await.is_err() {
            return;
        }
        let Ok((tasks, next)) = cloud.look(|world, now| (world.node_tasks(now), world.next_due())).await
        else {
            return;
        };
        let n_tasks = tasks.len();
        let done: Vec<Fact> = futures::stream::iter(tasks)
            .map(|task| perform(cluster.as_ref(), task))
            .buffer_unordered(AT_ONCE)
            .filter_map(std::future::ready)
            .collect()
            .await;
        let (failed, progress) = (n_tasks > done.len(), !done.is_empty());
        if progress && cloud.change(|_, _| Decision { answer: (), facts: done }).await.is_err() {
            return;
        }
        let next_due = async {
            match next {
                Some(at) => cloud.clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let retry =
            async { if failed { tokio::time::sleep(RETRY).await } else { std::future::pending().await } };
        if n_tasks == 0 || failed {
            tokio::select! {
                _ = changes.changed() => {}
                () = next_due => {}
                () = retry => {}
            }
        }
    }
}

/// Does something to a Node and tells what is to be written down, or nothing if it must be tried again.
async fn perform(cluster: Option<&Client>, task: NodeTask) -> Option<Fact> {
    let fact = match &task {
        NodeTask::Join(launched) => Fact::Joined { id: launched.id.clone() },
        NodeTask::Boot { id, .. } => Fact::Booted { id: id.clone() },
        NodeTask::Leave { id, .. } => Fact::Left { id: id.clone() },
    };
    let Some(cluster) = cluster else { return Some(fact) };
    match nodes::perform(cluster, &task).await {
        Ok(()) => Some(fact),
        Err(error) => {
            eprintln!("testcloud: {}: {error}; trying again", nodes::describe(&task));
            None
        }
    }
}
