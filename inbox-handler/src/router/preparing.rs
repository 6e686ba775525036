//! What codecs wait for: at the start, and before a transaction. Inside of one they wait for nothing.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures::{FutureExt as _, future::join_all};
use inbox_store::internal::port::Sessions;
use outbox_core::{CodecError, Preparation};

use super::{RouteTable, RunEvent};

/// So long a consumer that starts waits for its codecs.
const START_MAX: Duration = Duration::from_secs(30);

/// What codecs said when they got ready.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CodecsStarted {
    /// What keeps the consumer from starting.
    pub refused: Vec<String>,
    /// What is not there yet: events will wait for it.
    pub missing: Vec<String>,
}

impl<DB: Sessions> RouteTable<DB> {
    /// Has all codecs get ready, beside each other. Codecs that are shared say what they say once. One that is not ready
    /// in time is waited for no longer: what it lacks it fetches when an event wants it.
    pub async fn start_codecs(&self) -> CodecsStarted {
        let mut started = CodecsStarted::default();
        let all = self.all().filter_map(|route| route.start());
        let all = all.map(|preparation| tokio::time::timeout(START_MAX, finish(preparation)));
        for ended in join_all(all).await {
            let ended = ended.unwrap_or_else(|_| {
                let s = START_MAX.as_secs();
                Err(CodecError::Unavailable(format!("a codec was not ready within {s} s")))
            });
            let Err(error) = ended else { continue };
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
        let asked = catch_unwind(AssertUnwindSafe(|| self.route(number).prepare(event)));
        Some(Box::pin(finish(asked.unwrap_or(None)?)))
    }
}

impl<DB: Sessions> RouteTable<DB> {
    /// Why an event would be parked before its handler is called, by what its codec and columns say to it.
    pub async fn refusal(&self, number: u32, event: &RunEvent<'_>) -> Option<String> {
        if let Some(preparation) = self.prepare(number, event)
            && let Err(error) = preparation.await
        {
            return Some(error.to_string());
        }
        self.route(number).refusal(event)
    }
}

/// A panic is the codec's, and its `decode` will meet it again, where it counts as the event's.
async fn finish(preparation: Preparation<'_>) -> Result<(), CodecError> {
    let ended = AssertUnwindSafe(preparation).catch_unwind().await;
    ended.unwrap_or_else(|_| Err(CodecError::other("the codec panicked while preparing")))
}
