//! What codecs wait for: at the start, and before a transaction. Inside of one they wait for nothing.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use inbox_store::internal::port::Sessions;
use outbox_core::{CodecError, Preparation};

use super::{RouteTable, RunEvent};

/// What codecs said when they got ready.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CodecsStarted {
    /// What keeps the consumer from starting.
    pub refused: Vec<String>,
    /// What is not there yet: events will wait for it.
    pub missing: Vec<String>,
}

impl<DB: Sessions> RouteTable<DB> {
    /// Has all codecs get ready. Codecs that are shared say what they say once.
    pub async fn start_codecs(&self) -> CodecsStarted {
        let mut started = CodecsStarted::default();
        for route in self.all() {
            let Some(preparation) = route.start() else { continue };
            let Err(error) = finish(preparation).await else { continue };
            let said = error.to_string();
            let told = if error.is_outage() { &mut started.missing } else { &mut started.refused };
            if !told.contains(&said) {
                told.push(said);
            }
        }
        started
    }

    /// What the codec of a route fetches before this event can be decoded; `None`: nothing is missing.
    pub fn prepare(&self, number: u32, event: &RunEvent<'_>) -> Option<Preparation<'_>> {
        let preparation = self.route(number).prepare(event)?;
        Some(Box::pin(finish(preparation)))
    }
}

/// A panic is the codec's, and its `decode` will meet it again, where it counts as the event's.
async fn finish(preparation: Preparation<'_>) -> Result<(), CodecError> {
    let ended = AssertUnwindSafe(preparation).catch_unwind().await;
    ended.unwrap_or_else(|_| Err(CodecError::other("the codec panicked when it got ready")))
}
