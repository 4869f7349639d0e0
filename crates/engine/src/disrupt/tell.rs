//! What people are told about disruption.

use std::time::Duration;

use headstart_core::disrupt::{Decision, Fleet, Move, Reason, Why};
use headstart_core::repair::Remedy;

use crate::claims;
use crate::disrupt::command::node_of;
use crate::kind::Kind;
use crate::out::Out;
use crate::report::Level;
use crate::store::{Claim, Node, Store};

/// How often it is told why a node is not consolidated.
const UNCONSOLIDATABLE_EVERY: Duration = Duration::from_mins(15);
/// How often it is told that too much is broken to be repaired.
const REPAIR_BLOCKED_EVERY: Duration = Duration::from_mins(15);
/// Most nodes that one decision tells about.
const MOST_EVENTS: usize = 20;

/// Tells why nodes stay.
pub(super) fn decision(
    fleet: &Fleet,
    names: &[String],
    decision: &Decision,
    store: &Store,
    out: &mut Out<'_>,
) {
    for (member, why) in decision.blocked.iter().take(MOST_EVENTS) {
        let Some(claim) = store.claims.get(&names[*member as usize]) else { continue };
        if *why == Why::Epidemic {
            epidemic(claim, store, out);
            continue;
        }
        let (reason, every) = if why.is_about_consolidation() {
            ("Unconsolidatable", UNCONSOLIDATABLE_EVERY)
        } else {
            ("DisruptionBlocked", Duration::from_mins(2))
        };
        out.event(claim.metadata.object(Kind::NodeClaim), false, reason, why.to_string(), every);
        if let Some(node) = node_of(claim, store) {
            out.event(node.metadata.object(Kind::Node), false, reason, why.to_string(), every);
        }
    }
    for policy in
        fleet.pools.iter().filter(|policy| policy.budgets.iter().any(|budget| !budget.is_readable()))
    {
        if let Some(pool) = store.pools.get(&*policy.pool) {
            let message = "A disruption budget cannot be read, so that no node of the NodePool is disrupted";
            let about = crate::pools::object(pool);
            out.event(about, true, "DisruptionBlocked", message.to_owned(), UNCONSOLIDATABLE_EVERY);
        }
    }
}

/// Tells that too many nodes of a pool are unhealthy for any of them to be repaired.
fn epidemic(claim: &Claim, store: &Store, out: &mut Out<'_>) {
    let node = node_of(claim, store).map(|node| node.metadata.object(Kind::Node));
    let pool = store.pools.get(claim.pool()).map(crate::pools::object);
    let message = format!("more than 20% of nodes in nodepool {:?} are unhealthy", claim.pool());
    for about in [node, Some(claim.metadata.object(Kind::NodeClaim)), pool].into_iter().flatten() {
        out.event(about, true, "NodeRepairBlocked", message.clone(), REPAIR_BLOCKED_EVERY);
    }
}

/// Tells that a node is about to be restarted.
pub(super) fn restart(claim: &Claim, remedy: &Remedy, out: &mut Out<'_>) {
    let reason = Reason::Unhealthy.as_str().to_lowercase();
    let labels = [("decision", "reboot"), ("reason", reason.as_str()), ("consolidation_type", "")];
    out.count("voluntary_disruption_decisions_total", &labels);
    let labels = [("decision", "reboot"), ("reason", reason.as_str()), ("nodepool", claim.pool())];
    out.count("voluntary_disruption_decisions_by_nodepool_total", &labels);
    claims::count_disrupted(claim, &reason, out);
    unhealthy(claim, Some(&remedy.condition), remedy.grace, out);
    let fields = [("NodeClaim", claim.name()), ("condition", &remedy.condition), ("reason", &remedy.reason)];
    out.line(Level::Info, "rebooting node", &fields);
}

/// Counts a node that is repaired.
pub(super) fn unhealthy(claim: &Claim, condition: Option<&str>, bound: Option<Duration>, out: &mut Out<'_>) {
    let Some(condition) = condition else { return };
    let mode = match bound {
        None => claims::termination_mode(claim),
        Some(Duration::ZERO) => "forceful",
        Some(_) => "eventual",
    };
    let labels = [
        ("condition", snake(condition)),
        ("nodepool", claim.pool().to_owned()),
        ("capacity_type", claim.capacity_type().to_owned()),
        ("image_id", claim.status.image_id().to_owned()),
        ("termination_mode", mode.to_owned()),
    ];
    let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
    out.count("nodeclaims_unhealthy_disrupted_total", &labels);
}

/// A name in camel case with its words apart.
fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::with_capacity(name.len() + 4);
    for (at, letter) in letters.iter().enumerate() {
        let follows_small = at > 0 && !letters[at - 1].is_uppercase();
        let ends_capitals = at > 0 && letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        if letter.is_uppercase() && (follows_small || ends_capitals) {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// Tells that nodes are about to go.
pub(super) fn start(fleet: &Fleet, chosen: &Move, members: &[String], out: &mut Out<'_>) {
    let reason = chosen.reason.as_str().to_lowercase();
    let decision = match chosen.terminates_first {
        Some(_) => "terminate-first",
        None if chosen.replacements.is_empty() => "delete",
        None => "replace",
    };
    let kind = match chosen.reason {
        Reason::Empty => "empty",
        Reason::Underutilized if members.len() > 1 => "multi",
        Reason::Underutilized => "single",
        Reason::Drifted | Reason::Unhealthy => "",
    };
    let labels = [("decision", decision), ("reason", reason.as_str()), ("consolidation_type", kind)];
    out.count("voluntary_disruption_decisions_total", &labels);
    for member in &chosen.members {
        let pool = &fleet.members[*member as usize].pool;
        let labels = [("decision", decision), ("reason", reason.as_str()), ("nodepool", pool)];
        out.count("voluntary_disruption_decisions_by_nodepool_total", &labels);
        if let Some(why) = chosen.terminates_first {
            let labels =
                [("nodepool", &**pool), ("reason", &reason), ("terminate_first_reason", why.as_str())];
            out.count("voluntary_disruption_terminate_first_decisions_total", &labels);
        }
    }
    let (removed, bought) = (members.len().to_string(), chosen.replacements.len().to_string());
    let (pods, saving) = (chosen.evictions.to_string(), format!("${:.3}/h", chosen.saving.dollars()));
    let all = members.join(" ");
    out.line(
        Level::Info,
        "disrupting node(s)",
        &[
            ("reason", &reason),
            ("NodeClaims", &all),
            ("remove", &removed),
            ("buy", &bought),
            ("pods", &pods),
            ("saves", &saving),
        ],
    );
}

/// Tells that a replacement is waited for.
pub(super) fn waiting(claim: &Claim, reason: Reason, out: &mut Out<'_>) {
    if claim.is_assumed {
        return;
    }
    let about = claim.metadata.object(Kind::NodeClaim);
    let quarter = Duration::from_mins(15);
    let message = format!("Launching NodeClaim: {}", reason.as_str());
    out.event(about.clone(), false, "DisruptionLaunching", message, quarter);
    let message = "Waiting on readiness to continue disruption".to_owned();
    out.event(about, false, "DisruptionWaitingReadiness", message, quarter);
}

/// Tells that a node goes now.
pub(super) fn terminating(claim: &Claim, node: Option<&Node>, reason: Reason, out: &mut Out<'_>) {
    let message = format!("Disrupting NodeClaim: {}", reason.as_str());
    out.note(claim.metadata.object(Kind::NodeClaim), "DisruptionTerminating", message);
    if let Some(node) = node {
        let message = format!("Disrupting Node: {}", reason.as_str());
        out.note(node.metadata.object(Kind::Node), "DisruptionTerminating", message);
    }
}

/// Tells that nodes stay after all.
pub(super) fn given_up(reason: Reason, members: &[String], why: &str, out: &mut Out<'_>) {
    let reason = reason.as_str().to_lowercase();
    out.count("voluntary_disruption_queue_failures_total", &[("reason", &reason)]);
    let message = format!("not disrupting node(s) after all: {why}");
    out.line(Level::Warning, message, &[("reason", &reason), ("NodeClaims", &members.join(" "))]);
}

#[cfg(test)]
mod tests {
    use super::snake;

    #[test]
    fn words_of_conditions_are_told_apart() {
        assert_eq!(
            ["Ready", "KWOKUnhealthy", "DiskPressure"].map(snake),
            ["ready", "kwok_unhealthy", "disk_pressure"]
        );
    }
}
