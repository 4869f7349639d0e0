//! Leads another autoscaler: pods that are expected are shown to it as objects of ours.

use crate::capacity::Capacity;
use crate::out::Out;
use crate::provision::Provision;
use crate::store::Store;
use crate::time::Time;

/// Leads another autoscaler: pods that are expected are shown to it as objects of ours.
#[derive(Debug, Default)]
pub(crate) struct Companion {}

impl Companion {
    pub(crate) fn poll(
        &mut self,
        _store: &mut Store,
        _capacity: &mut Capacity,
        _provision: &mut Provision,
        _out: &mut Out<'_>,
    ) {
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        None
    }

    /// Forgets everything that only a leader may rely on.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}
