//! Retention: sweeps the inbox by age, in bounded steps, for as long as the consumer runs.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use inbox_store::internal::port::{ACTS_PER_STEP, Owners, PruneCursor, PruneStep, Retentions};
use service_kit::throttle::{Cause, Occurrences, Throttle};
use tokio::time::Instant;

use super::sessions::Sessions;
use crate::telemetry::{Signal, meters::Meters};

/// Between two steps of a sweep, so that pruning never takes a server for itself.
const STEP_PAUSE: Duration = Duration::from_millis(20);
/// A step that found nothing to remove is followed by so many times its time: in a large inbox with a long
/// retention that is nearly every one, and each reads its pages.
const IDLE_PAUSE: u32 = 20;
/// A sweep does not rest beyond this part of the retention: else a table could grow faster than it is swept.
const SWEEP_PART: u32 = 10;

/// What is kept, and how often it is looked at.
#[derive(Clone, Debug)]
pub struct Retention {
    /// The consumer's name.
    pub consumer: String,
    /// Rows older than this are removed, by the database's clock.
    pub age: Duration,
    /// Acts of the audit older than this, too, if there is an end to it.
    pub audit: Option<Duration>,
    /// How often it sweeps.
    pub interval: Duration,
}

/// Sweeps for ever; dropped with the consumer.
pub async fn prune_for_ever<DB: Owners>(
    sessions: Arc<Sessions<DB>>,
    retention: Retention,
    meters: Arc<Meters>,
) {
    let running = Arc::new(());
    let mut throttle = Throttle::outage(Duration::ZERO);
    loop {
        // In a task of its own: a step that is under way when the consumer ends is never cut in two.
        let (sessions, of) = (Arc::clone(&sessions), retention.clone());
        let alive = Arc::downgrade(&running);
        match tokio::spawn(async move { sweep(&sessions, &of, &alive).await }).await {
            Ok(Ok(removed)) => {
                meters.counters.sweeps.add(1);
                meters.counters.pruned.add(removed);
                Signal::Pruned { removed }.emit();
                if let Some(Occurrences { times, seconds }) =
                    throttle.resolve(Instant::now().into())
                {
                    Signal::OutageOver { of: "prune_failed", partitions: None, times, seconds }
                        .emit();
                }
            }
            Ok(Err(error)) => {
                meters.counters.sweeps_failed.add(1);
                let cause = Cause::of("prune_failed", &error);
                if let Some(Occurrences { times, seconds }) =
                    throttle.record(cause, Instant::now().into())
                {
                    Signal::PruneFailed { times, seconds, error }.emit();
                }
            }
            Err(_) => return,
        }
        tokio::time::sleep(retention.interval).await;
    }
}

/// One sweep over the table, for as long as somebody waits for it; answers how many rows it removed.
async fn sweep<DB: Owners>(
    sessions: &Sessions<DB>,
    retention: &Retention,
    waiting: &Weak<()>,
) -> Result<u64, String> {
    let mut conn = sessions.take().await.map_err(|error| error.to_string())?;
    let rests_until = Instant::now() + retention.age / SWEEP_PART;
    let mut cursor = PruneCursor::default();
    let mut removed = 0;
    while waiting.strong_count() > 0 {
        let began = Instant::now();
        match DB::prune_step(&mut conn, &retention.consumer, retention.age, cursor).await {
            Ok(step) => {
                removed += step.removed;
                let Some(next) = step.next else { break };
                cursor = next;
                let now = Instant::now();
                tokio::time::sleep(pause(&step, now - began, rests_until - now)).await;
            }
            Err(error) => {
                sessions.give_up(conn).await;
                return Err(sessions.explain(&error));
            }
        }
    }
    if let Err(error) = prune_audit::<DB>(&mut conn, &retention.consumer, retention.audit).await {
        sessions.give_up(conn).await;
        return Err(sessions.explain(&error));
    }
    sessions.give_back(conn).await;
    Ok(removed)
}

/// Removes acts that are older than they are kept; how many.
pub async fn prune_audit<DB: Retentions>(
    conn: &mut DB::Connection,
    consumer: &str,
    age: Option<Duration>,
) -> Result<u64, sqlx::Error> {
    let Some(age) = age else { return Ok(0) };
    let mut removed = 0;
    loop {
        let step = DB::prune_audit(conn, consumer, age).await?;
        removed += step;
        if step < ACTS_PER_STEP {
            return Ok(removed);
        }
        tokio::time::sleep(STEP_PAUSE).await;
    }
}

/// How long to rest after a step, with so much time for the sweep.
fn pause(step: &PruneStep, took: Duration, time_left: Duration) -> Duration {
    if step.removed > 0 {
        return STEP_PAUSE;
    }
    let share = time_left / step.steps_left.max(1);
    (took * IDLE_PAUSE).min(share).max(STEP_PAUSE)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[cfg(feature = "sqlite")]
    use super::{Arc, Retention, Sessions, sweep};
    use super::{PruneCursor, PruneStep, STEP_PAUSE, pause};
    #[cfg(feature = "sqlite")]
    use inbox_store::internal::port::{self, Address};

    const HOUR: Duration = Duration::from_hours(1);
    const TOOK: Duration = Duration::from_millis(3);

    fn step(removed: u64, steps_left: u32) -> PruneStep {
        PruneStep { removed, next: Some(PruneCursor(64)), steps_left, busy: false }
    }

    #[test]
    fn a_step_that_finds_nothing_is_a_twentieth_of_the_time() {
        assert_eq!(pause(&step(0, 4_000), TOOK, HOUR), Duration::from_millis(60));
        assert_eq!(pause(&step(0, 4_000), Duration::from_micros(10), HOUR), STEP_PAUSE);
    }

    /// The removing keeps up with the inserting, however busy the server is.
    #[test]
    fn a_step_that_removes_is_followed_by_the_next_one_soon() {
        assert_eq!(pause(&step(1, 4_000), Duration::from_secs(1), HOUR), STEP_PAUSE);
    }

    #[test]
    fn a_sweep_rests_no_longer_than_it_has_time() {
        assert_eq!(pause(&step(0, 100_000), TOOK, HOUR), Duration::from_millis(36));
        assert_eq!(pause(&step(0, 4_000), TOOK, Duration::ZERO), STEP_PAUSE);
        assert_eq!(pause(&step(0, 0), TOOK, HOUR), Duration::from_millis(60));
    }

    /// Where the tables are missing, a step is an error.
    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_sweep_that_nobody_waits_for_does_no_further_step() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("empty.db").display());
        let address = Address {
            url: &url,
            tls: None,
            schema: None,
            application: "inbox",
            statement_cache: 10,
        };
        let settings = <sqlx::Sqlite as port::Sessions>::settings(&address).unwrap();
        let sessions = Sessions::<sqlx::Sqlite>::new(settings);
        let retention =
            Retention { consumer: "one".into(), age: HOUR, audit: None, interval: HOUR };
        let running = Arc::new(());
        let alive = Arc::downgrade(&running);
        let error = sweep(&sessions, &retention, &alive).await.unwrap_err();
        assert!(error.contains("no such table"), "{error}");
        drop(running);
        assert_eq!(sweep(&sessions, &retention, &alive).await, Ok(0));
    }
}
