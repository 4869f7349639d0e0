//! Spread constraints that a cluster gives to pods that have none of their own.
//!
//! Such constraints name no pods. Which ones are meant is deduced for each pod, as kube-scheduler does it, from the services
//! that select the pod and from the controller that made it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::requirement::Operator;
use crate::snapshot::{Labels, Selector, Spread};

/// What the controller of a pod selects.
#[derive(Clone, Copy, Debug)]
pub enum Controller<'a> {
    /// A replication controller: its labels replace those of services.
    Labels(&'a Labels),
    /// A replica set or stateful set: its conditions come on top of those of services.
    Selector(&'a Selector),
}

/// Which pods a pod is spread among, or `None` when nothing says so and the pod is left alone.
///
/// COMPAT: where services disagree about a label, the last one wins; upstream leaves the order to chance.
pub fn selector<'a>(
    pod: &Labels,
    services: impl IntoIterator<Item = &'a Labels>,
    controller: Option<Controller<'_>>,
) -> Option<Selector> {
    let selects = |service: &&Labels| service.iter().all(|(key, value)| pod.get(key) == Some(value));
    let mut equal: BTreeMap<&Arc<str>, &Arc<str>> = services.into_iter().filter(selects).flatten().collect();
    if let Some(Controller::Labels(labels)) = controller {
        equal.extend(labels);
    }
    let mut all = Selector::everything();
    for (key, value) in equal {
        all = all.with(key, Operator::In, std::slice::from_ref(value))?;
    }
    if let Some(Controller::Selector(selector)) = controller {
        all = all.and(selector);
    }
    (!all.is_everything()).then_some(all)
}

/// The constraints, spreading the selected pods.
pub fn spread(constraints: &[Spread], selector: &Selector) -> Vec<Spread> {
    constraints.iter().map(|one| Spread { selector: Some(selector.clone()), ..one.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Labels {
        text.split_whitespace()
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(key, value)| (key.into(), value.into()))
            .collect()
    }

    fn selecting(text: &str) -> Selector {
        let with = |all: Selector, (key, value): (&Arc<str>, &Arc<str>)| {
            all.with(key, Operator::In, std::slice::from_ref(value))
        };
        labels(text).iter().try_fold(Selector::everything(), with).unwrap()
    }

    #[test]
    fn services_that_select_the_pod_add_up() {
        let pod = labels("app=web tier=front");
        let services = ["app=web", "tier=front", "app=db", "app=web other=x"].map(labels);
        assert_eq!(selector(&pod, &services, None), Some(selecting("app=web tier=front")));
        assert_eq!(selector(&pod, &services[2..], None), None);
        // A service without labels selects every pod but says nothing about it.
        assert_eq!(selector(&pod, &[labels("")], None), None);
    }

    #[test]
    fn controllers_replace_or_add() {
        let pod = labels("app=web");
        let service = [labels("app=web")];
        let edited = labels("app=old");
        assert_eq!(selector(&pod, &service, Some(Controller::Labels(&edited))), Some(selecting("app=old")));
        let set = selecting("app=web hash=1");
        assert_eq!(selector(&pod, &service, Some(Controller::Selector(&set))), Some(set.clone()));
        assert_eq!(selector(&pod, &[], Some(Controller::Selector(&set))), Some(set));
        let contrary = selecting("app=old");
        let both = selector(&pod, &service, Some(Controller::Selector(&contrary))).unwrap();
        assert!(!both.matches(&pod) && !both.matches(&edited));
    }
}
