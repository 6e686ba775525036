//! Events that wait for versions before their own: out of a queue, and back into it.
//!
//! One that waits has a queue of its own, which holds nobody. It is released when its time is over, or when a person
//! asks for it; where its predecessor is applied before, that transaction puts it into the queue of its aggregate.
//! Nothing is run out of a queue of its own: the queue of the aggregate alone knows what to do with failures.

use std::time::Duration;

use inbox_engine::internal::ParkReason;
use inbox_handler::GapEnd;
use inbox_store::internal::port::{
    AsideEvent, Intent, Transactions,
    release::{Queued, Requeued},
};

use super::{
    execute::check_count,
    plan::ReleasePlan,
    report::{FailedRelease, Report},
    turns::Turn,
};
use crate::pipeline::{
    parked,
    transaction::{EarlyEnd, Transaction},
    versions::{Verdict, Wait},
};

/// What the error of an event says whose time is over.
const TIME_OVER: &str = "the earlier version has not arrived";

/// An event whose time is over is not looked at more often, however short its time is.
const AGAIN_MIN: Duration = Duration::from_secs(1);

/// What becomes of an event that has waited.
enum End {
    /// Its version was passed.
    Stale,
    /// It joins the queue of its aggregate, for this reason.
    Joins(ParkReason),
    /// What has waited with the lowest version above this one does, and the others behind it.
    FirstJoins(i64, Duration),
    /// It waits on, so long.
    Waits(Duration, String),
    /// So does one whose predecessor has not come: another partition may have applied it meanwhile.
    Stays(Duration, String),
}

/// A person asked for it to be run.
fn asked(row: &Queued) -> bool {
    matches!(row.intent, Some((Intent::Release, _)))
}

/// It was run as it is before, and failed: it holds its aggregate until it succeeds. A follower may have been tried
/// before something else held it, so its versions still count.
fn was_run(row: &Queued) -> bool {
    row.attempts > 0 && row.reason != ParkReason::Follower.as_str()
}

impl<DB: Transactions> Transaction<'_, DB> {
    /// What the version of a parked event says before it is run. Whoever has waited long enough, is asked for, or
    /// was run already, waits no more.
    pub(super) fn turn_by_version(&mut self, row: &Queued, at: usize) -> Option<Turn> {
        let over = || row.reason == ParkReason::GapOver.as_str() || asked(row) || was_run(row);
        match *self.versions.judge(&[at]) {
            [Verdict::Stale(_)] => {
                self.stale += 1;
                Some(Turn::Done)
            }
            [Verdict::Wait(_)] if !over() => Some(Turn::Waits),
            _ => None,
        }
    }

    /// Takes events that wait out of the queue of their aggregate.
    pub(super) async fn set_aside(
        &mut self,
        plan: &ReleasePlan,
        aside: &[usize],
    ) -> Result<(), EarlyEnd> {
        let event = |&at: &usize| {
            let Wait { queue, version, time: wait, .. } = self.versions.how_to_wait(at)?;
            Some(AsideEvent { seq: plan.run[at].seq, queue, version, wait })
        };
        let events: Vec<AsideEvent> = aside.iter().filter_map(event).collect();
        if events.is_empty() {
            return Ok(());
        }
        let set = DB::set_aside(self.conn, &self.scope, &events).await;
        let set = set.map_err(|error| self.statement_failed("parking events", &error))?;
        check_count(set, events.len())
    }

    /// Ends the wait of the head of a queue, if that is what it does; then the transaction is over.
    pub(super) async fn end_wait(
        &mut self,
        plan: &ReleasePlan,
    ) -> Result<Option<Report>, EarlyEnd> {
        let waits = |row: &&Queued| row.reason == ParkReason::Gap.as_str();
        let Some(row) = plan.run.first().filter(waits) else { return Ok(None) };
        let others = DB::joins_others(self.conn, &self.scope, row.seq).await;
        let others =
            others.map_err(|error| self.statement_failed("the lookup of its queue", &error))?;
        // Without one it is where it belongs: by hand, or by an older build.
        let Some(others) = others else { return Ok(None) };
        self.read_versions().await?;
        let mut report = Report { discarded: plan.discard.len() as u64, ..Report::default() };
        match self.judge_wait(row, others) {
            End::Stale => {
                self.remove_rows(std::iter::once(row)).await?;
                report.stale = 1;
            }
            End::Joins(reason) => self.join(row.seq, reason).await?,
            End::FirstJoins(last, time) => {
                let first = DB::first_waiting(self.conn, &self.scope, row.seq, last).await;
                let first = first.map_err(|error| {
                    self.statement_failed("the lookup of the first waiting event", &error)
                })?;
                self.join(first, ParkReason::GapOver).await?;
                if first != row.seq {
                    self.wait_on(row, time, "", row.errors.clone()).await?;
                }
            }
            // That it waits behind others is no news.
            End::Waits(delay, error) => {
                self.wait_on(row, delay, &error, row.errors.clone()).await?;
            }
            // Nor is it after the first time that nothing has come.
            End::Stays(delay, error) if row.errors.contains(TIME_OVER) => {
                self.wait_on(row, delay, &error, row.errors.clone()).await?;
            }
            End::Stays(delay, error) => {
                let errors = parked::with_error(&row.errors, row.attempts, &error);
                self.wait_on(row, delay, &error, errors).await?;
                let (offset, attempt, reason) = (row.offset, row.attempts, ParkReason::Gap);
                let delay = Some(delay);
                report.failed.push(FailedRelease { offset, attempt, reason, error, delay });
            }
        }
        self.commit_fenced().await?;
        Ok(Some(report))
    }

    /// The queue of its aggregate is another's turn while anything is in it, whatever the versions are.
    fn judge_wait(&self, row: &Queued, others: bool) -> End {
        let wait = self.versions.how_to_wait(0);
        match (&*self.versions.judge(&[0]), wait) {
            ([Verdict::Stale(_)], _) => End::Stale,
            (_, Some(Wait { time, .. })) if others => {
                End::Waits(time, "an event of its aggregate is parked".into())
            }
            ([Verdict::Wait(_)], Some(Wait { end: GapEnd::Park, time, text, .. }))
                if !asked(row) =>
            {
                End::Stays(time.max(AGAIN_MIN), format!("{TIME_OVER}: {text}"))
            }
            ([Verdict::Wait(last)], Some(Wait { time, .. })) if !asked(row) => {
                End::FirstJoins(*last, time)
            }
            ([Verdict::Wait(_)], _) => End::Joins(ParkReason::GapOver),
            _ => End::Joins(ParkReason::Follower),
        }
    }

    async fn join(&mut self, seq: i64, reason: ParkReason) -> Result<(), EarlyEnd> {
        let joined = DB::join(self.conn, &self.scope, seq, reason).await;
        let joined = joined.map_err(|error| self.statement_failed("joining a queue", &error))?;
        check_count(joined, 1)
    }

    async fn wait_on(
        &mut self,
        row: &Queued,
        delay: Duration,
        error: &str,
        errors: String,
    ) -> Result<(), EarlyEnd> {
        let Queued { seq, attempts, releases, .. } = *row;
        let (reason, delay) = (ParkReason::Gap, Some(delay));
        let requeued = Requeued { seq, reason, attempts, releases, delay, errors };
        let wrote = DB::requeue(self.conn, &self.scope, &[requeued]).await;
        wrote.map_err(|error| self.statement_failed("parking a waiting event", &error))?;
        if asked(row) {
            self.audit(std::iter::once((row, "release_failed", error))).await?;
        }
        Ok(())
    }
}
