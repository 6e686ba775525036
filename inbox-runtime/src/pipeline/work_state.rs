//! What transactions of a consumer change for each other.

use std::sync::Arc;

use inbox_engine::internal::Rule;
use tokio::sync::{Notify, RwLock};

use super::{
    aggregate_keys::AggregateKeys, concurrency::ConcurrencyLimiter,
    handler_failures::HandlerFailures, known_versions::KnownVersions, lanes_seen::LanesSeen,
    recent_copies::RecentCopies,
};

/// What transactions change for each other.
#[derive(Debug, Default)]
pub struct WorkState {
    /// How long BEGIN takes, and what follows from that.
    pub(super) concurrency: ConcurrencyLimiter,
    /// Held by each transaction, and by itself by one of an event that a process has ended with. One for all that ends
    /// with the process, whichever way its events come.
    pub(super) aside: Arc<RwLock<()>>,
    /// A transaction has made parked events due.
    pub(super) woken: Notify,
    /// Versions that they have written.
    pub(super) known_versions: KnownVersions,
    pub(super) aggregate_keys: AggregateKeys,
    pub(super) recent_copies: RecentCopies,
    pub(super) failures: HandlerFailures,
    /// Where an intake's transactions have seen their lanes.
    pub(super) lanes_seen: LanesSeen,
    /// The crash that a test asked for.
    #[cfg(feature = "testing")]
    pub crash: super::crash::Crash,
}

impl WorkState {
    /// The same beside transactions of another kind, in the same process.
    pub fn beside(aside: &Arc<RwLock<()>>) -> Self {
        let aside = if Rule::OneAside.on() { Arc::clone(aside) } else { Arc::default() };
        Self { aside, ..Self::default() }
    }
}
