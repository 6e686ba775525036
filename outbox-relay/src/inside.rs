//! What reads strangers' bytes inside, for the targets in `fuzz/`: no part of what is promised to users.

use outbox_core::{OutboxEvent, Record};

use crate::{config::Debezium, debezium::Router};

/// The topic and the record of each event as Debezium's outbox event router writes them, or why there is none.
pub type Routed = Vec<Result<(String, Record), String>>;

/// Routes events one after the other, by one router.
///
/// # Errors
/// A sentence for each setting that cannot be followed.
pub fn routed(settings: &Debezium, events: &[OutboxEvent]) -> Result<Routed, Vec<String>> {
    let router = Router::read(settings)?;
    let route = |event| Ok((router.topic(event)?, router.record(event)?.0));
    Ok(events.iter().map(route).collect())
}
