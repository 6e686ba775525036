//! A route to a handler that takes events one by one.

use std::{any::type_name, time::Duration};

use async_trait::async_trait;
use inbox_store::internal::port::Sessions;
use outbox_core::{Decode, Preparation};
use tracing::Instrument as _;

use super::{
    CallFailure, DecodedRun, Route, RunEnd, RunEvent,
    attempt::{self, DecodeFault},
};
use crate::{Handler, Tx, trace};

pub(super) struct Each<H, C> {
    pub(super) handler: H,
    pub(super) codec: C,
}

#[async_trait]
impl<DB, H, C> Route<DB> for Each<H, C>
where
    DB: Sessions,
    H: Handler<DB>,
    C: Decode<H::Event>,
{
    fn name(&self) -> &'static str {
        type_name::<H>()
    }

    fn start(&self) -> Option<Preparation<'_>> {
        Some(self.codec.start())
    }

    fn prepare(&self, event: &RunEvent<'_>) -> Option<Preparation<'_>> {
        self.codec.prepare(&attempt::payload(event).ok()?)
    }

    fn refusal(&self, event: &RunEvent<'_>) -> Option<String> {
        attempt::decode(&self.codec, event).err().map(DecodeFault::into_text)
    }

    async fn run(
        &self,
        run: &[RunEvent<'_>],
        _payloads: DecodedRun<'_>,
        tx: &mut Tx<'_, DB>,
        deadline: Duration,
    ) -> RunEnd {
        for (at, event) in run.iter().enumerate() {
            tx.begin_event(at, event.delivery);
            let span = trace::call(event);
            // Right before its turn: nothing of a later event is looked at when an earlier one fails.
            let event = match attempt::decode(&self.codec, event) {
                Ok(event) => event,
                Err(fault) => return fault.end(at, at),
            };
            // Called inside the future, so that a panic before the first await is caught, too.
            let call = async { self.handler.handle(&event, &mut *tx).await };
            let end = attempt::call(call.instrument(span), deadline).await;
            let judged = attempt::judge(end, tx, deadline);
            if let Some(failed) = attempt::queue_failure(tx) {
                return failed;
            }
            if let Some(failure) = judged {
                return RunEnd::Failed(CallFailure { at: Some(at), ..failure });
            }
            if tx.much_queued()
                && let Some(failed) = attempt::flush_queue(tx).await
            {
                return failed;
            }
        }
        RunEnd::Done
    }
}
