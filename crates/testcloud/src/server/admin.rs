//! The endpoint that makes the cloud misbehave, and tells how it does.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use headstart_cloud::error::Reason;
use headstart_cloud::testcloud::wire::WireError;
use jiff::Timestamp;
use serde::Serialize;

use super::api::{Answer, Shared, empty, lost, parse, success};
use crate::fault::Order;
use crate::settings::{Armed, Settings};
use crate::world::Census;

/// How the cloud is doing.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The cloud's time.
    now: Timestamp,
    /// How many instances there are.
    instances: Census,
    /// How many things should have happened by now and have not yet.
    due: usize,
    /// Lasting faults.
    settings: Settings,
    /// Faults that will fire.
    armed: Vec<Armed>,
    /// How often each fault fired since the start.
    fired: BTreeMap<&'static str, u64>,
}

pub(super) async fn status(State(shared): State<Shared>) -> Response {
    let status = shared.cloud.look(|world, now| Status {
        now,
        instances: world.census(),
        due: world.due(now).len() + world.node_tasks(now).len(),
        settings: world.settings.clone(),
        armed: world.armed().to_vec(),
        fired: world.fired().clone(),
    });
    status.await.map_or_else(|_| lost(), |status| success(&status))
}

pub(super) async fn order(State(shared): State<Shared>, body: Bytes) -> Answer {
    let order: Order = parse(&body)?;
    if let Order::Advance { by } = &order
        && let Err(error) = shared.cloud.clock.advance(*by)
    {
        let (reason, message) = (Reason::InvalidRequest, error.to_string());
        return Err(WireError::Refused { reason, message }.into());
    }
    match shared.cloud.change(|world, now| world.obey(now, order)).await.map(empty) {
        Ok(done) => Ok(success(&done?)),
        Err(_) => Ok(lost()),
    }
}
