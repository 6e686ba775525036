//! Waiting until there may be something to do.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use super::{
    Pump,
    progress::Progress,
    round::Round,
    serve::{Refill, sleep_until},
    work::Work,
};
use crate::port::Rounds;

/// After so long without a row, and while every append is told, what nobody tells of is looked for more seldom.
const IDLE_AFTER: Duration = Duration::from_mins(1);
/// So many times as seldom.
const IDLE_TIMES: u32 = 5;

impl<F: Rounds> Pump<F> {
    /// Waits until there may be something to do.
    pub(super) async fn rest(&self, work: &mut Work<'_, F>) -> Result<(), Round> {
        let kafka = self.options.routes.reach_kafka();
        let topic = work.progress.missing_topics.next().filter(|_| kafka);
        // What is due has no room before there is some.
        let due = work.progress.due_rows.next.filter(|_| work.dispatch.is_low());
        let poll = self.poll_interval(&work.progress).map(|interval| Instant::now() + interval);
        // Topics that are missing are asked for by a schedule, and rows have a time of theirs.
        let time = [topic, due, poll].into_iter().flatten().min();
        let waited = async {
            tokio::select! {
                () = sleep_until(time) => false,
                () = self.signals.rows.notified() => true,
                () = self.wait_for_shutdown() => false,
            }
        };
        let told = self.serve(work, Refill::Caller, waited).await? == Some(true);
        let now = Instant::now();
        if told || !self.is_idle(&work.progress, now) {
            work.progress.due = now;
        }
        Ok(())
    }

    /// How long to wait for news before looking all the same; `None`: for ever.
    pub(super) fn poll_interval(&self, progress: &Progress) -> Option<Duration> {
        let interval = self.options.poll_interval;
        let times = if self.is_idle(progress, Instant::now()) { IDLE_TIMES } else { 1 };
        (!interval.is_zero()).then_some(interval * times)
    }

    /// Whether there were no rows for a while, though every append is told.
    pub(super) fn is_idle(&self, progress: &Progress, now: Instant) -> bool {
        self.meters.listens.load(Relaxed) && now >= progress.rows_at + IDLE_AFTER
    }

    /// Waits, and serves the destinations meanwhile.
    pub(super) async fn pause_serving(
        &self,
        work: &mut Work<'_, F>,
        time: Duration,
    ) -> Result<(), Round> {
        self.serve(work, Refill::Meanwhile, self.pause(time)).await.map(drop)
    }
}
