//! Who may be near whom: spread constraints, affinity and anti-affinity.
//!
//! All three are a *group*: a selector of pods and a node label whose values are domains, with a count of selected pods for
//! each domain. Equal constraints of many pods share one group. The label `kubernetes.io/hostname` is special: every node is
//! its own domain, so its counts are an array over hosts, and a new node is always an empty domain.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::labels::HOSTNAME;
use crate::requirement::Requirement;
use crate::snapshot::{Labels, Selector, Taint, Toleration, untolerated};
use crate::solve::reqs::{ReqId, ReqSets};

/// The number of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId(pub(crate) u32);

/// What a group demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// Domains differ by at most the skew.
    Spread { max_skew: u32, min_domains: Option<u32> },
    /// Only domains with selected pods.
    Near,
    /// Only domains without selected pods.
    Apart,
}

/// A constraint that pods share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    pub(crate) rule: Rule,
    pub(crate) key: Arc<str>,
    pub(crate) namespaces: BTreeSet<Arc<str>>,
    pub(crate) selector: Option<Selector>,
    pub(crate) counted: Counted,
}

/// Which nodes a group counts pods on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Counted {
    /// Alternatives of which one must be met; none means every node.
    pub(crate) nodes: Vec<ReqId>,
    /// Tolerations that must cover the node's taints, if taints matter.
    pub(crate) tolerations: Option<Vec<Toleration>>,
}

impl Counted {
    /// Whether pods on a node with these labels and taints count.
    pub(crate) fn includes(&self, labels: ReqId, taints: &[Taint], reqs: &mut ReqSets) -> bool {
        (self.nodes.is_empty() || self.nodes.iter().any(|asked| reqs.labels_meet(labels, *asked)))
            && self.tolerations.as_ref().is_none_or(|tolerations| untolerated(taints, tolerations).is_none())
    }
}

impl Group {
    pub(crate) fn is_by_host(&self) -> bool {
        &*self.key == HOSTNAME
    }

    /// Whether a pod is one of those counted.
    pub(crate) fn selects(&self, namespace: &Arc<str>, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
            && self.namespaces.contains(namespace)
    }
}

/// All groups, each once.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    all: Vec<Rc<Group>>,
    ids: FxHashMap<Rc<Group>, GroupId>,
}

impl Groups {
    pub(crate) fn add(&mut self, group: Group) -> GroupId {
        if let Some(id) = self.ids.get(&group) {
            return *id;
        }
        let group = Rc::new(group);
        let id = GroupId(self.all.len() as u32);
        self.all.push(group.clone());
        self.ids.insert(group, id);
        id
    }

    pub(crate) fn get(&self, id: GroupId) -> &Rc<Group> {
        &self.all[id.0 as usize]
    }

    pub(crate) fn list(&self) -> Vec<Rc<Group>> {
        self.all.clone()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..self.all.len() as u32).map(GroupId)
    }
}

/// How many selected pods each domain of a group has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Sorted by domain; for groups by host only `hosts` is used.
    domains: Vec<(Arc<str>, u32)>,
    hosts: Vec<u32>,
    occupied_hosts: u32,
    /// Changes whenever a count does.
    pub(crate) version: u32,
}

/// Where a group lets a pod go.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Nowhere.
    Nowhere,
    /// To any of these domains, which one stays open.
    Within(Vec<Arc<str>>),
    /// To one of these domains, each with its count, the least-counted first.
    OneOf(Vec<(Arc<str>, u32)>),
}

impl Counts {
    /// Makes a domain known.
    pub(crate) fn register(&mut self, domain: &str) {
        if let Err(at) = self.find(domain) {
            self.domains.insert(at, (domain.into(), 0));
        }
    }

    /// Counts one more pod in a domain.
    pub(crate) fn record(&mut self, domain: &str) {
        match self.find(domain) {
            Ok(at) => self.domains[at].1 += 1,
            Err(at) => self.domains.insert(at, (domain.into(), 1)),
        }
        self.version += 1;
    }

    /// Counts one more pod on a host.
    pub(crate) fn record_host(&mut self, host: usize) {
        if self.hosts.len() <= host {
            self.hosts.resize(host + 1, 0);
        }
        self.occupied_hosts += u32::from(self.hosts[host] == 0);
        self.hosts[host] += 1;
        self.version += 1;
    }

    /// Takes back that a pod is in a domain, which stays known.
    pub(crate) fn take_back(&mut self, domain: &str) {
        if let Ok(at) = self.find(domain) {
            self.domains[at].1 = self.domains[at].1.saturating_sub(1);
            self.version += 1;
        }
    }

    /// Takes back that a pod is on a host.
    pub(crate) fn take_back_host(&mut self, host: usize) {
        if let Some(count) = self.hosts.get_mut(host).filter(|count| **count > 0) {
            *count -= 1;
            self.occupied_hosts -= u32::from(*count == 0);
            self.version += 1;
        }
    }

    /// Forgets all hosts from this one on.
    pub(crate) fn forget_hosts(&mut self, from: usize) {
        for host in from..self.hosts.len() {
            self.occupied_hosts -= u32::from(self.hosts[host] > 0);
        }
        self.hosts.truncate(from);
    }

    fn find(&self, domain: &str) -> Result<usize, usize> {
        self.domains.binary_search_by(|(known, _)| (**known).cmp(domain))
    }

    fn on_host(&self, host: usize) -> u32 {
        self.hosts.get(host).copied().unwrap_or(0)
    }

    /// Domains and their counts, in order.
    pub(crate) fn domains(&self) -> &[(Arc<str>, u32)] {
        &self.domains
    }

    /// The domains that the group allows a pod, given what pod and node allow for the group's label.
    ///
    /// COMPAT: the least-counted domain is chosen like upstream's `nextDomainTopologySpread`, ties by price and then by name
    /// instead of at random; when it turns out to be unusable, the next within the skew is tried, where upstream gives up.
    pub(crate) fn choose(
        &self,
        rule: Rule,
        selects_itself: bool,
        pod: Option<&Requirement>,
        node: Option<&Requirement>,
    ) -> Choice {
        let pod_may = |domain: &str| pod.is_none_or(|requirement| requirement.has(domain));
        let node_may = |domain: &str| node.is_none_or(|requirement| requirement.has(domain));
        match rule {
            Rule::Spread { max_skew, min_domains } => {
                let own = i64::from(selects_itself);
                let eligible = || self.domains.iter().filter(|(domain, _)| pod_may(domain));
                let few = min_domains.is_some_and(|least| eligible().count() < least as usize);
                let least =
                    if few { 0 } else { eligible().map(|(_, count)| i64::from(*count)).min().unwrap_or(0) };
                let mut valid: Vec<_> = self
                    .domains
                    .iter()
                    .filter(|(domain, _)| node_may(domain))
                    .filter(|(_, count)| i64::from(*count) + own - least <= i64::from(max_skew))
                    .collect();
                valid.sort_by_key(|(_, count)| *count);
                Choice::one_of(valid.into_iter().cloned().collect())
            }
            Rule::Near => {
                let shared = |occupied: bool| {
                    let may = |domain: &str| pod_may(domain) && node_may(domain);
                    let fits =
                        move |(domain, count): &&(Arc<str>, u32)| (*count > 0) == occupied && may(domain);
                    self.domains.iter().filter(fits).map(|(domain, _)| domain.clone()).collect::<Vec<_>>()
                };
                let occupied = shared(true);
                if !occupied.is_empty() {
                    return Choice::Within(occupied);
                }
                let reachable = self.domains.iter().any(|(domain, count)| *count > 0 && pod_may(domain));
                if selects_itself && !reachable {
                    Choice::one_of(shared(false).into_iter().map(|domain| (domain, 0)).collect())
                } else {
                    Choice::Nowhere
                }
            }
            Rule::Apart => {
                let free = self
                    .domains
                    .iter()
                    .filter(|(domain, count)| *count == 0 && node_may(domain) && pod_may(domain));
                let free: Vec<_> = free.map(|(domain, _)| domain.clone()).collect();
                if free.is_empty() { Choice::Nowhere } else { Choice::Within(free) }
            }
        }
    }

    /// Whether the group allows a pod on a host.
    ///
    /// A spread over hosts compares with zero, because an empty host can always be bought.
    pub(crate) fn host_allowed(&self, rule: Rule, selects_itself: bool, host: usize) -> bool {
        let count = self.on_host(host);
        match rule {
            Rule::Spread { max_skew, .. } => count + u32::from(selects_itself) <= max_skew,
            Rule::Near => count > 0 || (selects_itself && self.occupied_hosts == 0),
            Rule::Apart => count == 0,
        }
    }
}

impl Choice {
    fn one_of(domains: Vec<(Arc<str>, u32)>) -> Self {
        if domains.is_empty() { Self::Nowhere } else { Self::OneOf(domains) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(domains: &[(&str, u32)]) -> Counts {
        let mut counts = Counts::default();
        for (domain, count) in domains {
            counts.register(domain);
            (0..*count).for_each(|_| counts.record(domain));
        }
        counts
    }

    fn shown(choice: &Choice) -> String {
        match choice {
            Choice::Nowhere => "nowhere".to_owned(),
            Choice::Within(domains) => format!("within {}", domains.join(" ")),
            Choice::OneOf(domains) => {
                let names: Vec<&str> = domains.iter().map(|(domain, _)| &**domain).collect();
                format!("one of {}", names.join(" "))
            }
        }
    }

    #[test]
    fn spread_prefers_the_emptiest_domain_within_the_skew() {
        let spread = |skew, least| Rule::Spread { max_skew: skew, min_domains: least };
        let check = |domains: &[(&str, u32)], rule, pod: Option<&Requirement>, node: Option<&Requirement>| {
            shown(&counts(domains).choose(rule, true, pod, node))
        };
        let abc = [("a", 1), ("b", 0), ("c", 1)];
        assert_eq!(check(&abc, spread(1, None), None, None), "one of b");
        assert_eq!(check(&abc, spread(2, None), None, None), "one of b a c");
        assert_eq!(check(&abc, spread(1, None), None, Some(&Requirement::any_of("k", &["a"]))), "nowhere");
        // The pod itself cannot go to b, so b does not hold the others back.
        let not_b = Requirement::any_of("k", &["a", "c"]);
        assert_eq!(check(&abc, spread(1, None), Some(&not_b), Some(&not_b)), "one of a c");
        assert_eq!(check(&[("a", 1), ("b", 1)], spread(1, Some(3)), None, None), "nowhere");
        assert_eq!(check(&[("a", 1), ("b", 1)], spread(1, Some(2)), None, None), "one of a b");
    }

    #[test]
    fn near_goes_where_others_are_or_starts_by_itself() {
        let some = counts(&[("a", 0), ("b", 2)]);
        assert_eq!(shown(&some.choose(Rule::Near, false, None, None)), "within b");
        let in_a = Requirement::any_of("k", &["a"]);
        assert_eq!(shown(&some.choose(Rule::Near, true, None, Some(&in_a))), "nowhere");
        assert_eq!(shown(&some.choose(Rule::Near, true, Some(&in_a), Some(&in_a))), "one of a");
        let none = counts(&[("a", 0), ("b", 0)]);
        assert_eq!(shown(&none.choose(Rule::Near, true, None, None)), "one of a b");
        assert_eq!(shown(&none.choose(Rule::Near, false, None, None)), "nowhere");
    }

    #[test]
    fn apart_keeps_to_empty_domains() {
        let some = counts(&[("a", 0), ("b", 2), ("c", 0)]);
        assert_eq!(shown(&some.choose(Rule::Apart, true, None, None)), "within a c");
        assert_eq!(shown(&counts(&[("a", 1)]).choose(Rule::Apart, true, None, None)), "nowhere");
    }

    #[test]
    fn hosts_are_domains_of_their_own() {
        let mut counts = Counts::default();
        assert!(counts.host_allowed(Rule::Near, true, 3) && !counts.host_allowed(Rule::Near, false, 3));
        counts.record_host(3);
        assert!(counts.host_allowed(Rule::Near, false, 3) && !counts.host_allowed(Rule::Near, true, 4));
        assert!(!counts.host_allowed(Rule::Apart, false, 3) && counts.host_allowed(Rule::Apart, false, 4));
        let spread = Rule::Spread { max_skew: 1, min_domains: None };
        assert!(!counts.host_allowed(spread, true, 3) && counts.host_allowed(spread, false, 3));
    }
}
