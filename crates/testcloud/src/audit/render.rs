//! An audit for people: the answer first, then the reasons.

use std::fmt::Write;

use headstart_core::price::Price;

use super::{Audit, Bill, Finding};

/// The audit as text.
pub fn table(audit: &Audit) -> String {
    let mut text = headline(audit);
    for finding in &audit.findings {
        let _ = writeln!(text, "  ✗ {:<13}  {}", finding.kind(), line(audit, finding));
    }
    if !audit.owners_checked {
        text.push_str(
            "  Owners were not checked: give --kubeconfig or --claims to find leaks and zombies.\n",
        );
    }
    if audit.torn_bytes > 0 {
        let _ = writeln!(
            text,
            "  The ledger's last line was cut off by a crash ({} bytes ignored).",
            audit.torn_bytes
        );
    }
    if !audit.instances.is_empty() {
        text.push('\n');
        text.push_str(&bills(audit));
        audit.modelled.iter().for_each(|note| {
            let _ = writeln!(text, "Note: {note}.");
        });
    }
    text
}

fn headline(audit: &Audit) -> String {
    let count = |kind: &str| audit.findings.iter().filter(|finding| finding.kind() == kind).count();
    let verdict = if audit.findings.is_empty() {
        let scope = if audit.owners_checked { "" } else { " as far as the books tell" };
        format!("Nothing wrong{scope}")
    } else {
        let kinds = [("leak", "leaks"), ("double launch", "double launches"), ("zombie", "zombies")];
        let counted = kinds.iter().map(|(one, many)| (count(one), if count(one) == 1 { one } else { many }));
        let named: Vec<String> =
            counted.filter(|(n, _)| *n > 0).map(|(n, name)| format!("{n} {name}")).collect();
        named.join(", ")
    };
    let running = audit.instances.iter().filter(|bill| bill.ended.is_none()).count();
    let hours = audit.instances.iter().map(|bill| bill.running_ms).sum::<u64>() as f64 / 3_600_000.0;
    let (n, total) = (audit.instances.len(), dollars(audit.total_nanos()));
    let s = if n == 1 { "" } else { "s" };
    format!("{verdict}. {n} instance{s} ({running} not ended), {hours:.2} instance-hours, ${total}.\n")
}

fn line(audit: &Audit, finding: &Finding) -> String {
    match finding {
        Finding::Leak { instance, message } => {
            let bill = audit.instances.iter().find(|bill| bill.id == *instance);
            let what = bill.map_or_else(String::new, |bill| {
                format!(" ({}, {})", bill.offering, duration(bill.running_ms))
            });
            format!("{instance}{what}: {message}")
        }
        Finding::DoubleLaunch { owner, instances, running } => {
            format!("{} ran at the same time for {owner}; {running} not ended", instances.join(" and "))
        }
        Finding::Zombie { object, message } => format!("{object}: {message}"),
    }
}

fn bills(audit: &Audit) -> String {
    let header =
        ["INSTANCE", "TYPE", "ZONE", "CAPACITY", "CLAIM", "RAN", "$/H", "COST", "END"].map(str::to_owned);
    let rows: Vec<[String; 9]> = std::iter::once(header).chain(audit.instances.iter().map(row)).collect();
    let widths: [usize; 9] =
        std::array::from_fn(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or_default());
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn row(bill: &Bill) -> [String; 9] {
    let end = match (bill.cause, bill.ending) {
        (Some(cause), _) => format!("{cause:?}").to_lowercase(),
        (None, true) => "ending".to_owned(),
        (None, false) => "running".to_owned(),
    };
    [
        bill.id.clone(),
        bill.offering.instance_type.clone(),
        bill.offering.zone.clone(),
        bill.offering.capacity_type.clone(),
        bill.claim.clone().unwrap_or_else(|| "-".to_owned()),
        duration(bill.running_ms),
        Price::from_nanos(bill.price_nanos).to_string(),
        dollars(bill.cost_nanos),
        end,
    ]
}

fn dollars(nanos: i64) -> String {
    format!("{:.6}", Price::from_nanos(nanos).dollars())
}

fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s}s"),
        (h, m, _) => format!("{h}h{m}m"),
    }
}
