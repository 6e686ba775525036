//! One event as handlers are called with it: what router, transaction and traces all speak of.

use std::sync::Arc;

use crate::Delivery;

/// One event of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunEvent<'a> {
    /// The event was read from it: `delivery.event` is `Ok`.
    pub delivery: &'a Arc<Delivery>,
    /// 1 for the first.
    pub attempt: u32,
}
