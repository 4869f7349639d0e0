//! Tells pods the node that was made for them, so that kube-scheduler tries it first.

use std::time::Duration;

use serde_json::json;

use crate::action::{Effect, Part};
use crate::errands::Errand;
use crate::out::Out;
use crate::provision::Provision;
use crate::store::{Pod, PodKey, PodLife as _, Store};

/// How often a pod is told about the same node: kube-scheduler forgets it each time that it tries in vain.
const MOST_TRIES: u8 = 5;
/// How long to wait before looking whether kube-scheduler has dropped a nomination.
const AGAIN: Duration = Duration::from_secs(2);

impl Provision {
    pub(super) fn poll_nominations(&mut self, store: &Store, out: &mut Out<'_>) {
        let keys = self.nominate.take(out.now.time);
        if self.is_observing() {
            return;
        }
        for key in keys {
            self.nominate_one(&key, store, out);
        }
    }

    fn nominate_one(&mut self, key: &PodKey, store: &Store, out: &mut Out<'_>) {
        let Some(pod) = store.pod(key).filter(|pod| pod.is_waiting()) else { return };
        let claim = self.promises.of(pod.uid()).and_then(|claim| store.claims.get(claim));
        let node = claim.and_then(|claim| store.node_with(&claim.provider_id()?).ok().flatten());
        let wanted = match (claim, node) {
            // Nothing is promised any more; a nomination that leads nowhere keeps others from helping the pod.
            (None, _) if pod.nominated().is_some() => {
                let is_ours = self.nominations.contains_key(pod.uid());
                if !is_ours && self.eyes(store, out.now.time).nomination(pod).is_some() {
                    return;
                }
                None
            }
            (Some(_), Some(node)) if self.settings.nominate && stands_alone(store, key) => Some(node.name()),
            _ => return,
        };
        if pod.nominated().map(|node| &**node) == wanted {
            return;
        }
        if wanted.is_some() {
            let tries = self.nominations.entry(pod.uid().clone()).or_default();
            // Somebody else has other plans for the pod, or kube-scheduler will not have it there.
            if pod.nominated().is_some() || *tries >= MOST_TRIES {
                return;
            }
            *tries += 1;
        }
        if out.ask(Errand::Nominate(key.clone()), patch(pod, wanted)) {
            self.nominate.at(out.now.time + AGAIN, key.clone());
        } else if let Some(until) = out.errands.until(&Errand::Nominate(key.clone())) {
            self.nominate.at(until, key.clone());
        }
    }
}

/// Whether other pods play no part in where this one may go; those that keep each other out must come one by one.
fn stands_alone(store: &Store, key: &PodKey) -> bool {
    store.pod(key).and_then(Pod::shape).is_some_and(|shape| {
        shape.spread.is_empty()
            && [&shape.affinity, &shape.anti_affinity].iter().all(|terms| terms.required.is_empty())
    })
}

fn patch(pod: &Pod, node: Option<&str>) -> Effect {
    let patch = json!({ "metadata": { "uid": &**pod.uid() }, "status": { "nominatedNodeName": node } });
    Effect::Patch { object: pod.object(), part: Part::Status, patch }
}
