//! Which nodes go: a fleet in, moves and obstacles out as text.
//!
//! Beside the lines of [`fixture`](crate::fixture):
//! ```text
//! policy   POOL when=Empty|Balanced never in-vain static=REPLICAS/KEPT/LIMIT budget=REASON:NODES budget=NODES budget=NODES@SCHEDULE@SECONDS
//!          nodes=10 going=1 unready=1 sick=1 (nodes are counted unless they are given)
//! member   NAME of=POOL type=T zone=Z capacity=C reservation=ID drifted=SINCE sick=SCORE reboots do-not-repair bounded nominated starting
//!          do-not-disrupt grace fresh (not consolidatable) restless rests=UNTIL
//! resident NAME on=MEMBER x3 cost=C budget=NAME budgets=A,B do-not-disrupt daemon … (as a pod)
//! search   compat | spot | ends-first
//! now      SECONDS
//! ```

mod consolidation;
mod replacement;
mod speed;
mod swapping;

use std::fmt::Write;
use std::sync::Arc;

use headstart_core::cron::Cron;
use headstart_core::disrupt::budget::{Budget, Limit, Window};
use headstart_core::disrupt::{
    BlockedBy, Consolidation, Decision, Fixed, Fleet, Member, Options, PodBlock, Policy, Reason, Resident,
    Search, Sickness, Size, cost, decide,
};
use headstart_core::fixed::Count;
use headstart_core::labels;
use headstart_core::plan::PlannedClaim;
use headstart_core::resources::Resources;
use headstart_core::snapshot::{BoundPod, Demand, Node, Pod, Snapshot};

use crate::fixture::{parse, shape};

/// Decides about the fleet and compares what is shown, line by line.
pub(crate) fn check(scenario: &str, expected: &str) {
    let fleet = fleet(scenario);
    let shown = shown(&fleet, &decide(&fleet));
    let lines = |text: &str| {
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(lines(&shown), lines(expected), "{scenario}");
}

/// The fleet that a text describes.
pub(crate) fn fleet(text: &str) -> Fleet {
    let own = ["policy", "member", "resident", "search", "now"];
    let kind = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let (ours, others): (Vec<&str>, Vec<&str>) =
        text.lines().map(str::trim).partition(|line| own.contains(&kind(line).as_str()));
    let mut fleet = Fleet {
        snapshot: parse(&others.join("\n")),
        waiting: 0,
        members: Vec::new(),
        pools: Vec::new(),
        now: 0,
        options: Options::default(),
        ideas: Vec::new(),
    };
    fleet.waiting = fleet.snapshot.pods.len();
    for line in ours {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "policy" => fleet.pools.push(policy(&words, &fleet.snapshot)),
            "member" => member(&mut fleet, &words),
            "resident" => resident(&mut fleet, &words),
            "now" => fleet.now = words[1].parse().unwrap(),
            _ if words[1] == "spot" => fleet.options.spot_to_spot = true,
            _ if words[1] == "ends-first" => {
                fleet.options.terminate_first_drift = true;
                fleet.options.terminate_first_repair = true;
            }
            _ => fleet.options.search = Search::Compat,
        }
    }
    for policy in fleet.pools.iter_mut().filter(|policy| policy.nodes == 0) {
        policy.nodes = fleet.members.iter().filter(|member| member.pool == policy.pool).count() as u32;
    }
    for policy in &mut fleet.pools {
        policy.known = policy.nodes;
    }
    fleet
}

fn policy(words: &[&str], snapshot: &Snapshot) -> Policy {
    let mut policy = Policy {
        pool: words[1].into(),
        consolidation: Consolidation::WhenEmptyOrUnderutilized,
        consolidates: true,
        is_in_vain: false,
        size: Size::ByNeed,
        budgets: Vec::new(),
        nodes: 0,
        going: 0,
        unready: 0,
        known: 0,
        sick: 0,
    };
    for word in &words[2..] {
        match word.split_once('=').unwrap_or((word, "")) {
            ("never", _) => policy.consolidates = false,
            ("in-vain", _) => policy.is_in_vain = true,
            ("static", text) => policy.size = size(words[1], text, snapshot),
            ("when", "Empty") => policy.consolidation = Consolidation::WhenEmpty,
            ("when", _) => policy.consolidation = Consolidation::Balanced,
            ("nodes", n) => policy.nodes = n.parse().unwrap(),
            ("going", n) => policy.going = n.parse().unwrap(),
            ("unready", n) => policy.unready = n.parse().unwrap(),
            ("sick", n) => policy.sick = n.parse().unwrap(),
            ("budget", text) => policy.budgets.push(budget(text)),
            other => panic!("unknown policy word {other:?}"),
        }
    }
    policy
}

/// `REPLICAS/KEPT` or `REPLICAS/KEPT/LIMIT`, and `/unready` for a pool that is not refilled; nothing if nobody keeps it.
fn size(pool: &str, text: &str, snapshot: &Snapshot) -> Size {
    let mut parts = text.split('/');
    let mut number = || parts.next().and_then(|part| part.parse().ok());
    let Some(replicas) = number() else { return Size::Unkept };
    let (kept, limit) = (number().unwrap(), number());
    let pool = snapshot.pools.iter().find(|known| &*known.name == pool).unwrap();
    Size::Fixed(Box::new(Fixed {
        count: Count { replicas, limit, kept, going: 0 },
        is_refilled: !text.ends_with("unready"),
        replacement: PlannedClaim {
            pool: pool.name.clone(),
            pods: Vec::new(),
            requirements: pool.requirements.clone(),
            instance_types: Vec::new(),
            zones: Vec::new(),
            capacity_types: Vec::new(),
            launch: None,
            requests: Resources::default(),
            min_values_relaxed: false,
        },
        types: pool.types.clone(),
    }))
}

fn budget(text: &str) -> Budget {
    let (text, window) = match text.split_once('@') {
        Some((text, window)) => {
            let (schedule, seconds) = window.split_once('@').unwrap();
            let opens = Cron::parse(&schedule.replace('_', " ")).ok();
            (text, Some(Window { opens, seconds: seconds.parse().unwrap() }))
        }
        None => (text, None),
    };
    let (reasons, nodes) = match text.split_once(':') {
        Some((reason, nodes)) => {
            let reason = Reason::ALL.into_iter().find(|known| known.as_str() == reason).unwrap();
            (Some(vec![reason]), nodes)
        }
        None => (None, text),
    };
    let nodes = match nodes.strip_suffix('%') {
        Some(percent) => percent.parse().map_or(Limit::Unreadable, Limit::Percent),
        None => nodes.parse().map_or(Limit::Unreadable, Limit::Count),
    };
    Budget { reasons, nodes, window }
}

fn member(fleet: &mut Fleet, words: &[&str]) {
    let name: Arc<str> = words[1].into();
    let word = |wanted: &str| {
        words[2..]
            .iter()
            .filter_map(|word| word.split_once('='))
            .find(|(key, _)| *key == wanted)
            .map(|(_, v)| v)
    };
    let flag = |wanted: &str| words.contains(&wanted);
    let pool_name = word("of").unwrap_or("default");
    let pool = fleet.snapshot.pools.iter().find(|pool| &*pool.name == pool_name).unwrap();
    let (zone, capacity_type) = (word("zone").unwrap_or("zone-1"), word("capacity").unwrap_or("on-demand"));
    let of_type = word("type").unwrap_or("default");
    let known = pool.types.named(of_type).unwrap().clone();
    let given = [
        (labels::NODE_POOL, pool_name),
        (labels::INSTANCE_TYPE, of_type),
        (labels::ZONE, zone),
        (labels::CAPACITY_TYPE, capacity_type),
        (labels::HOSTNAME, words[1]),
        (labels::ARCH, "amd64"),
        (labels::OS, "linux"),
    ];
    let reservation = word("reservation").map(|id| ("karpenter.sh/reservation-id", id));
    let given = given.into_iter().chain(reservation).map(|(key, value)| (key.into(), value.into()));
    fleet.snapshot.nodes.push(Node {
        name,
        labels: Arc::new(given.collect()),
        taints: pool.taints.clone(),
        allocatable: Arc::new(known.allocatable()),
        initialized: !flag("starting"),
        ..Node::default()
    });
    let number = |wanted: &str| word(wanted).map(|text| text.parse().unwrap());
    fleet.members.push(Member {
        node: fleet.snapshot.nodes.len() as u32 - 1,
        pool: pool_name.into(),
        capacity: Arc::new(known.capacity.clone()),
        is_initialized: !flag("starting"),
        is_nominated: flag("nominated"),
        do_not_disrupt: flag("do-not-disrupt"),
        has_grace_period: flag("grace"),
        is_consolidatable: !flag("fresh"),
        is_restless: flag("restless"),
        rests_until: number("rests"),
        drifted: number("drifted"),
        sick: word("sick").map(|score| Sickness {
            score: score.parse().unwrap(),
            is_bounded: flag("bounded"),
            do_not_repair: flag("do-not-repair"),
            reboots: flag("reboots"),
        }),
        residents: Vec::new(),
    });
}

fn resident(fleet: &mut Fleet, words: &[&str]) {
    let own = |word: &str| ["cost=", "budget=", "budgets="].iter().any(|own| word.starts_with(own));
    let flags = ["do-not-disrupt", "daemon"];
    let plain: Vec<&str> =
        words[2..].iter().copied().filter(|word| !own(word) && !flags.contains(word)).collect();
    let word = |prefix: &str| words.iter().find_map(|word| word.strip_prefix(prefix));
    let (shape, extra) = shape(&plain);
    let shape = Arc::new(shape);
    let member = fleet
        .members
        .iter_mut()
        .find(|member| *fleet.snapshot.nodes[member.node as usize].name == *extra.on)
        .unwrap();
    for i in 1..=extra.count {
        let name = if extra.count == 1 { words[1].to_owned() } else { format!("{}-{i}", words[1]) };
        let by = match (word("budget="), word("budgets=")) {
            (Some(name), _) => Some(BlockedBy::Budget(name.into())),
            (_, Some(names)) => Some(BlockedBy::Budgets(names.split(',').map(Into::into).collect())),
            _ => words.contains(&"do-not-disrupt").then_some(BlockedBy::DoNotDisrupt),
        };
        let pod: Arc<str> = format!("{}/{name}", extra.namespace).into();
        let snapshot = &mut fleet.snapshot;
        let is_daemon = words.contains(&"daemon");
        member.residents.push(Resident {
            pod: (!is_daemon).then_some(snapshot.pods.len() as u32),
            cost: word("cost=").map_or_else(|| cost::eviction(None, shape.priority), |c| c.parse().unwrap()),
            block: by.map(|by| PodBlock { pod, by }),
        });
        let node = &mut snapshot.nodes[member.node as usize];
        node.requested.add(&shape.requests);
        snapshot.bound.push(BoundPod {
            namespace: extra.namespace.clone(),
            shape: shape.clone(),
            node: member.node,
        });
        if is_daemon {
            continue;
        }
        snapshot.pods.push(Pod {
            namespace: extra.namespace.clone(),
            uid: format!("{:06}", snapshot.pods.len()).into(),
            name: name.into(),
            created: 0,
            demand: Demand::Real,
            shape: shape.clone(),
            volumes: extra.volumes.clone().into(),
        });
    }
}

/// One line for each move and for each node that stays.
fn shown(fleet: &Fleet, decision: &Decision) -> String {
    let name = |member: &u32| &*fleet.snapshot.nodes[fleet.members[*member as usize].node as usize].name;
    let mut lines = Vec::new();
    for chosen in &decision.moves {
        let members: Vec<&str> = chosen.members.iter().map(name).collect();
        let mut line = format!("{}: {}", chosen.reason.as_str(), members.join(" "));
        for claim in &chosen.replacements {
            let cheapest = claim.instance_types.first().map_or("nothing", |name| name);
            let kinds = claim.capacity_types.join("/");
            write!(line, " -> {cheapest} of {} {kinds}", claim.instance_types.len()).unwrap();
        }
        if let Some(why) = chosen.terminates_first {
            write!(line, " first ({})", why.as_str()).unwrap();
        }
        write!(line, ", {} pods, saves {:.2}", chosen.evictions, chosen.saving.dollars()).unwrap();
        lines.push(line);
    }
    for member in &decision.reboots {
        lines.push(format!("restart: {}", name(member)));
    }
    for (member, why) in &decision.blocked {
        lines.push(format!("{} stays: {why}", name(member)));
    }
    lines.join("\n")
}
