//! A route to a declared handler: a relation of events, and the statement that reads it.

use std::{
    marker::PhantomData,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use inbox_store::internal::port::{DeclaredSql, Relation, Transactions};
use outbox_core::Preparation;
use tracing::{Instrument as _, Span};

use super::{
    super::{
        CallFailure, DecodedRun, Route, RunEnd, RunEvent,
        attempt::{self, DecodeFault},
    },
    DeclaredMode, PayloadCodec,
    payloads::Payloads,
    relation::Columns,
};
use crate::{HandlerError, Tx, trace};

/// A declared handler of one event type.
pub(in crate::router) struct DeclaredRoute<DB> {
    pub(super) event_type: String,
    pub(super) mode: DeclaredMode,
    pub(super) columns: Columns,
    /// What makes JSON of payloads, where they are none and columns point into them.
    pub(super) codec: Option<PayloadCodec>,
    pub(super) sql: DeclaredSql,
    /// The user's own text, for places in it.
    pub(super) text: String,
    /// Every session has the function that runs events one by one.
    pub(super) looped: AtomicBool,
    pub(super) chunk_size: ChunkSize,
    pub(super) database: PhantomData<fn() -> DB>,
}

#[async_trait]
impl<DB: Transactions> Route<DB> for DeclaredRoute<DB> {
    fn name(&self) -> &'static str {
        "[[handlers]] of the configuration"
    }

    fn start(&self) -> Option<Preparation<'_>> {
        Some(self.codec.as_ref()?.start())
    }

    fn prepare(&self, event: &RunEvent<'_>) -> Option<Preparation<'_>> {
        self.codec.as_ref()?.prepare(&attempt::payload(event).ok()?)
    }

    fn refusal(&self, event: &RunEvent<'_>) -> Option<String> {
        let run = std::slice::from_ref(event);
        let payloads = self.payloads(run);
        let (_, wrong) = self.columns.gather(payloads.of(run), &payloads);
        wrong.or_else(|| payloads.fault.map(DecodeFault::into_text))
    }

    async fn run(
        &self,
        run: &[RunEvent<'_>],
        _payloads: DecodedRun<'_>,
        tx: &mut Tx<'_, DB>,
        deadline: Duration,
    ) -> RunEnd {
        match self.mode {
            DeclaredMode::Run => self.at_once(run, tx, deadline).await,
            DeclaredMode::Each => self.one_by_one(run, tx, deadline).await,
        }
    }
}

impl<DB: Transactions> DeclaredRoute<DB> {
    fn payloads(&self, run: &[RunEvent<'_>]) -> Payloads {
        match &self.codec {
            Some(codec) => Payloads::decode(codec, run),
            None => Payloads::AS_THEY_ARE,
        }
    }

    /// The whole run by one statement.
    async fn at_once(
        &self,
        run: &[RunEvent<'_>],
        tx: &mut Tx<'_, DB>,
        deadline: Duration,
    ) -> RunEnd {
        let payloads = self.payloads(run);
        let (relation, wrong) = self.columns.gather(payloads.of(run), &payloads);
        if let Some(error) = wrong {
            return RunEnd::Undecodable { at: relation.ids.len(), ran: 0, error };
        }
        let events = relation.ids.len();
        if let Some(fault) = payloads.fault {
            return fault.end(events, 0);
        }
        match apply(&self.sql, false, &relation, trace::run(run), tx, deadline).await {
            None => RunEnd::Done,
            Some(failure) => {
                let at = (run.len() == 1).then_some(0);
                RunEnd::Failed(CallFailure { at, ..failure })
            }
        }
    }

    /// A statement for each event. Where the session has the function for it, a round trip is for many
    /// of them; it cannot tell which one failed, but the careful run can.
    async fn one_by_one(
        &self,
        run: &[RunEvent<'_>],
        tx: &mut Tx<'_, DB>,
        deadline: Duration,
    ) -> RunEnd {
        let looped = self.sql.each.is_some() && self.looped.load(Relaxed);
        let mut most = if looped { self.chunk_size.events() } else { 1 };
        let mut done = 0;
        while done < run.len() {
            let chunk = &run[done..run.len().min(done + most)];
            let payloads = self.payloads(chunk);
            let (relation, wrong) = self.columns.gather(payloads.of(chunk), &payloads);
            let events = relation.ids.len();
            if events > 0 {
                let began = Instant::now();
                let span = trace::run(&chunk[..events]);
                if let Some(failure) = apply(&self.sql, looped, &relation, span, tx, deadline).await
                {
                    let at = (events == 1).then_some(done);
                    return RunEnd::Failed(CallFailure { at, ..failure });
                }
                if looped {
                    most = self.chunk_size.adapt(events, began.elapsed());
                }
            }
            done += events;
            if let Some(error) = wrong {
                return RunEnd::Undecodable { at: done, ran: done, error };
            }
            if let Some(fault) = payloads.fault {
                return fault.end(done, done);
            }
        }
        RunEnd::Done
    }
}

async fn apply<DB: Transactions>(
    sql: &DeclaredSql,
    looped: bool,
    relation: &Relation<'_>,
    span: Span,
    tx: &mut Tx<'_, DB>,
    deadline: Duration,
) -> Option<CallFailure> {
    let call = async { tx.apply(sql, looped, relation).await.map_err(HandlerError::from) };
    let end = attempt::call(call.instrument(span), deadline).await;
    attempt::judge(end, tx, deadline)
}

/// How many events go into one call of a loop: as many as take half a second, so that neither
/// `statement_timeout` nor the deadline of an attempt is met by their number alone.
#[derive(Debug)]
pub(super) struct ChunkSize(AtomicUsize);

impl ChunkSize {
    const FIRST: usize = 32;
    const MOST: usize = 2048;
    const CALL: Duration = Duration::from_millis(500);

    fn events(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// So many events took so long; answers how many the next call may have. It never more than doubles.
    fn adapt(&self, events: usize, time: Duration) -> usize {
        let each = time.as_micros() / events.max(1) as u128;
        let fit = Self::CALL.as_micros() / each.max(1);
        let fit = usize::try_from(fit).unwrap_or(Self::MOST).min(self.events() * 2);
        let next = fit.clamp(1, Self::MOST);
        self.0.store(next, Relaxed);
        next
    }
}

impl Default for ChunkSize {
    fn default() -> Self {
        Self(AtomicUsize::new(Self::FIRST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_as_many_events_as_take_half_a_second() {
        let chunk_size = ChunkSize::default();
        assert_eq!(chunk_size.events(), 32);
        assert_eq!(chunk_size.adapt(32, Duration::from_millis(1)), 64, "it doubles at most");
        assert_eq!(chunk_size.adapt(64, Duration::from_millis(6_400)), 5);
        assert_eq!(chunk_size.adapt(1, Duration::from_secs(9)), 1);
        for _ in 0..20 {
            chunk_size.adapt(1, Duration::ZERO);
        }
        assert_eq!(chunk_size.events(), ChunkSize::MOST);
    }
}
