//! `headstart explain node/NAME`: what keeps a node, or how it would go.
//!
//! The engine that decides in a cluster is handed all objects as if a watch had told of them, and asked.

use std::{
    io::Write,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context;
use headstart_core::price::Price;
use headstart_engine::{
    Change, Engine, Event, Going, Kind, Now, Outlook, Settings, Time, Wall, settings::ClassKind,
};
use serde_json::{Value, json};

use crate::{
    manifests::{self, Objects},
    output,
    plan::{Format, dollars},
};

/// Says what becomes of a node.
pub(crate) fn run(
    name: &str,
    from: &manifests::From,
    output: Format,
    settings: Settings,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let objects = manifests::objects(from)?;
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is wrong")?.as_millis();
    let now = Now { time: Time(0), wall: Wall(wall as i64) };
    let outlook = outlook(name, &objects, settings, now)?;
    match output {
        Format::Json => write!(out, "{}", output::json(&document(name, &outlook))?)?,
        Format::Table => table(name, &outlook, out)?,
    }
    Ok(())
}

fn outlook(name: &str, objects: &Objects, settings: Settings, now: Now) -> anyhow::Result<Outlook> {
    let settings = Settings { class: class(&objects.values).unwrap_or(settings.class), ..settings };
    let class = settings.class.kind.clone();
    let catalog = &objects.catalog;
    let mut engine = Engine::new(settings, catalog.types().clone(), catalog.well_known.clone());
    for kind in Kind::ALL {
        let called = if kind == Kind::NodeClass { class.clone() } else { kind.to_string() };
        let of_kind = objects.values.iter().filter(|value| value["kind"] == called.as_str());
        engine.apply(now, Event::Watched { kind, change: Change::Relisting });
        for object in of_kind {
            engine.apply(now, Event::Watched { kind, change: Change::Seen(Arc::new(object.clone())) });
        }
        engine.apply(now, Event::Watched { kind, change: Change::Listed });
    }
    engine.outlook(now, name).with_context(|| format!("nothing can be said about node {name}"))
}

/// The kind of node class that the cluster's pools have; the first one's, if they differ.
fn class(objects: &[Value]) -> Option<ClassKind> {
    let pool = objects.iter().find(|value| value["kind"] == "NodePool")?;
    let class = pool.pointer("/spec/template/spec/nodeClassRef")?;
    let text = |field: &str| class[field].as_str().map(str::to_owned);
    Some(ClassKind { group: text("group")?, kind: text("kind")? })
}

fn document(name: &str, outlook: &Outlook) -> Value {
    let goes = outlook.goes.as_ref().map(|going| {
        json!({
            "reason": going.reason.as_str(),
            "with": going.with,
            "replacements": going.replacements,
            "podsMoveTo": going.takers,
            "evictions": going.evictions,
            "savesPerHour": going.saving.dollars(),
        })
    });
    json!({
        "node": name,
        "nodeClaim": outlook.claim,
        "nodePool": outlook.pool,
        "pricePerHour": (outlook.price > Price::ZERO).then(|| outlook.price.dollars()),
        "podsToMove": outlook.pods,
        "goes": goes,
        "stays": outlook.stays,
    })
}

fn table(name: &str, outlook: &Outlook, out: &mut impl Write) -> anyhow::Result<()> {
    let Outlook { claim, pool, price, pods, goes, stays } = outlook;
    let price = if *price > Price::ZERO { dollars(*price) } else { "price not known".to_owned() };
    writeln!(
        out,
        "node {name}: NodeClaim {claim} of NodePool {pool}, {price}, {} to move",
        count(*pods, "pod")
    )?;
    match goes {
        Some(going) => writeln!(out, "  It may go now, as {}: {}.", going.reason.as_str(), told(going))?,
        None if stays.is_empty() => {
            writeln!(out, "  It stays: nothing is wrong with it, and it is worth its price.")?;
        }
        None => writeln!(out, "  It stays:")?,
    }
    for why in stays {
        let sign = if goes.is_some() { "  but for other reasons it would stay: " } else { "    " };
        writeln!(out, "{sign}{why}")?;
    }
    Ok(())
}

/// What would be done, in words.
fn told(going: &Going) -> String {
    let mut told = vec![if going.evictions == 0 {
        "no pod has to move".to_owned()
    } else {
        format!("{} to move", count(going.evictions, "pod"))
    }];
    if !going.takers.is_empty() {
        told.push(format!("to {}", going.takers.join(", ")));
    }
    if !going.replacements.is_empty() {
        told.push(format!("to new nodes ({})", going.replacements.join(", ")));
    }
    if !going.with.is_empty() {
        told.push(format!("together with {}", going.with.join(", ")));
    }
    let saves = going.saving >= Price::ZERO;
    let amount = if saves { going.saving } else { Price::ZERO - going.saving };
    told.push(format!("that {} {}", if saves { "saves" } else { "costs" }, dollars(amount)));
    told.join(", ")
}

fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
