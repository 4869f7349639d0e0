//! Decides without acting, and compares that with what another autoscaler does.

use crate::capacity::Capacity;
use crate::out::Out;
use crate::provision::Provision;
use crate::store::Store;
use crate::time::Time;

/// Decides without acting, and compares that with what another autoscaler does.
#[derive(Debug, Default)]
pub(crate) struct Shadow {}

impl Shadow {
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
