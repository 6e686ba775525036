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
            let time = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                answer = &mut until => return Ok(Some(answer)),
                ended = work.calls.next() => self.settle(work, ended),
                () = time => {}
            }
        }
    }

    /// What was under way when the relay was asked to end is waited for, and marked; nothing new is begun.
    pub(super) async fn finish_calls(&self, work: &mut Work<'_, F>) -> Result<(), Round> {
        while !work.calls.is_empty() {
            let ended = work.calls.next().await;
            self.settle(work, ended);
        }
        self.mark_concluded(work).await
    }

    /// What a call came to.
    fn settle(&self, work: &mut Work<'_, F>, ended: EndedCall) {
        let EndedCall { call, outcomes, took } = ended;
        let Some(outcomes) = outcomes else { return work.dispatch.give_back(call) };
        if let Some(meters) = self.meters.destinations.get(call.sink()) {
            meters.answered(took);
        }
        work.dispatch.conclude(call, outcomes, Instant::now());
    }

    /// What has become of events is told and marked, when it is time.
    async fn catch_up(&self, work: &mut Work<'_, F>) -> Result<(), Round> {
        let now = Instant::now();
        work.dispatch.tick(now);
        for news in work.dispatch.take_news() {
            let sink = news.sink();
            let Some(meters) = self.meters.destinations.get(sink) else { continue };
            match news {
                News::Out { destination, why, .. } => {
                    self.counters.outages.add(1);
                    self.troubles().errors.destination_outage.add(1);
                    meters.is_out(work.dispatch.outage(sink));
                    Signal::DestinationOutage { destination, error: why }.emit();
                }
                News::Works { destination, after, .. } => {
                    meters.is_out(work.dispatch.outage(sink));
                    Signal::DestinationWorks {
                        destination: destination.clone(),
                        seconds: after.as_secs(),
                    }
                    .emit();
                    work.progress.let_destination_go(destination);
                }
                News::Delivered { age, .. } => {
                    self.counters.delivered.add(1);
                    meters.delivered(1, Some(age));
                }
            }
        }
        if work.dispatch.wants_marks(now) {
            self.mark_concluded(work).await?;
        }
        Ok(())
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
                work.calls.start(&destination.sink, call, &work.lease.until);
            }
        }
        work.dispatch.next_time()
    }
}
