//! Destinations other than Kafka are served while the relay waits for anything else.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;

use super::{
    Pump,
    dispatch::{EndedCall, News},
    round::Round,
    work::Work,
};
use crate::{port::Rounds, telemetry::Signal};

/// How soon to look again whether the lease is ours.
const LEASE_LOOK: Duration = Duration::from_millis(100);
/// While Kafka is waited for, rows are looked for so often at most.
const REFILL_EVERY: Duration = Duration::from_millis(50);
/// Between two looks at what is to be marked while the last calls are waited for.
const LEAST: Duration = Duration::from_millis(5);

/// Who reads more rows when few are left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refill {
    /// Whoever waits: it is asked to.
    Caller,
    /// It is done meanwhile, and what is for Kafka is passed over.
    Meanwhile,
}

impl<F: Rounds> Pump<F> {
    /// Serves the destinations until something has come; `None`: the caller shall read more rows first.
    pub(super) async fn serve<T>(
        &self,
        work: &mut Work<'_, F>,
        refill: Refill,
        until: impl Future<Output = T>,
    ) -> Result<Option<T>, Round> {
        if !work.dispatch.is_used() {
            return Ok(Some(until.await));
        }
        let mut until = pin!(until);
        loop {
            // What is free is used before anything is written.
            self.launch(work);
            self.catch_up(work).await?;
            if work.wants_rows() {
                match refill {
                    Refill::Caller => return Ok(None),
                    Refill::Meanwhile => match self.refill(work).await {
                        Ok(()) => {}
                        // What is waited for goes on; whoever waits looks again afterwards.
                        Err(Round::DatabaseOut(error)) => {
                            self.database_out(error);
                            work.more = false;
                        }
                        Err(round) => return Err(round),
                    },
                }
            }
            let next = self.launch(work);
            let meanwhile = refill == Refill::Meanwhile;
            let look = self.next_look(work, refill);
            tokio::select! {
                answer = &mut until => return Ok(Some(answer)),
                ended = work.calls.next() => self.settle(work, ended),
                () = self.signals.rows.notified(), if meanwhile && !work.new_rows.pending => {
                    work.new_rows.pending = true;
                }
                () = sleep_until(look) => {
                    work.new_rows.passed |= std::mem::take(&mut work.new_rows.pending);
                    work.more = true;
                }
                () = sleep_until(next) => {}
            }
        }
    }

    /// Serves the destinations without waiting for anything.
    pub(super) async fn serve_now(&self, work: &mut Work<'_, F>) -> Result<(), Round> {
        if !work.dispatch.is_used() {
            return Ok(());
        }
        while let Some(ended) = work.calls.try_next() {
            self.settle(work, ended);
        }
        self.launch(work);
        self.catch_up(work).await
    }

    /// When to look for rows, though the last look has left none. Who waits for new rows knows of these and of the poll.
    fn next_look(&self, work: &Work<'_, F>, refill: Refill) -> Option<Instant> {
        if !work.dispatch.is_low() {
            return None;
        }
        let soon = work.looked + REFILL_EVERY;
        let due = work.progress.due_rows.next.map(|due| due.max(soon));
        if refill == Refill::Caller {
            return due;
        }
        let poll = self.poll_interval(&work.progress).map(|interval| work.looked + interval);
        let told = (work.new_rows.pending || work.wants_rows()).then_some(soon);
        [poll, due, told].into_iter().flatten().min()
    }

    /// What was under way when the relay was asked to end is waited for, and marked; nothing new is begun.
    pub(super) async fn finish_calls(&self, work: &mut Work<'_, F>) -> Result<(), Round> {
        while !work.calls.is_empty() {
            let next = work.dispatch.next_time(Instant::now());
            tokio::select! {
                ended = work.calls.next() => self.settle(work, ended),
                () = sleep_until(next.map(|next| next.max(Instant::now() + LEAST))) => {}
            }
            // Not at the end alone: one call may be cut off.
            if work.dispatch.wants_marks(Instant::now()) {
                self.mark_concluded(work).await?;
            }
        }
        self.mark_concluded(work).await
    }

    /// What a call came to.
    fn settle(&self, work: &mut Work<'_, F>, ended: EndedCall) {
        let EndedCall { call, outcomes, took } = ended;
        let Some(outcomes) = outcomes else { return work.dispatch.give_back(call) };
        if let Some(meters) = self.meters.destinations.get(call.sink()) {
            meters.note_answer(took);
        }
        work.dispatch.conclude(call, outcomes, Instant::now());
    }

    /// What has become of events is told and marked, when it is time.
    async fn catch_up(&self, work: &mut Work<'_, F>) -> Result<(), Round> {
        let now = Instant::now();
        work.dispatch.tick(now);
        for news in work.dispatch.take_news() {
            self.measure(work, &news);
            match news {
                News::Out { destination, why, after, .. } => {
                    self.counters.outages.add(1);
                    self.troubles().errors.destination_outage.add(1);
                    work.progress.keep_destination(&destination);
                    let seconds = after.as_secs();
                    Signal::DestinationOutage { destination, seconds, error: why }.emit();
                }
                News::Works { destination, after, .. } => {
                    work.more = true;
                    Signal::DestinationWorks {
                        destination: destination.clone(),
                        seconds: after.as_secs(),
                    }
                    .emit();
                    work.progress.let_destination_go(destination);
                }
                News::Delivered { .. } => self.counters.delivered.add(1),
            }
        }
        if work.dispatch.wants_marks(now) {
            self.mark_concluded(work).await?;
        }
        Ok(())
    }

    fn measure(&self, work: &Work<'_, F>, news: &News) {
        let sink = news.sink();
        let Some(meters) = self.meters.destinations.get(sink) else { return };
        match news {
            News::Out { .. } | News::Works { .. } => {
                meters.set_outages(work.dispatch.outages(sink));
            }
            News::Delivered { age, .. } => meters.note_delivery(1, Some(*age)),
        }
    }

    /// Marks what has become of events. Before a look it has to be done: a look that finds a row whose failure is not
    /// written would send what comes behind it.
    pub(super) async fn mark_concluded(&self, work: &mut Work<'_, F>) -> Result<(), Round> {
        let mut concluded = work.dispatch.take_marks();
        if concluded.is_empty() {
            return Ok(());
        }
        self.mark(work, &mut concluded).await?;
        work.dispatch.marked(&concluded);
        Ok(())
    }

    /// Begins the calls that may be made. Answers when there is something to do though nothing happens.
    fn launch(&self, work: &mut Work<'_, F>) -> Option<Instant> {
        let now = Instant::now();
        if work.lease.until.passed() && Rule::CallsNeedTurn.on() {
            return Some(now + LEASE_LOOK);
        }
        while let Some(call) = work.dispatch.next_call(now) {
            if let Some(destination) = self.options.destinations.get(call.sink()) {
                work.calls.start(destination, call, &work.lease.until);
            }
        }
        work.dispatch.next_time(now)
    }
}

/// Resolves then; never, if there is no such time.
pub(super) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
