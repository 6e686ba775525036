//! Retention: sweeps the inbox by age, in bounded steps, for as long as the consumer runs.

use std::{sync::Arc, time::Duration};

use super::{
    port::{PruneCursor, Store},
    sessions::Sessions,
};
use crate::telemetry::{Signal, meters::Meters};

/// Between two steps of a sweep, so that pruning never takes a server for itself.
const STEP_PAUSE: Duration = Duration::from_millis(20);

/// What is kept, and how often it is looked at.
#[derive(Clone, Debug)]
pub(crate) struct Retention {
    pub(crate) consumer: String,
    /// Rows older than this are removed, by the database's clock.
    pub(crate) age: Duration,
    pub(crate) interval: Duration,
}

/// Sweeps for ever; dropped with the consumer.
pub(crate) async fn prune_for_ever<DB: Store>(
    sessions: Arc<Sessions<DB>>,
    retention: Retention,
    meters: Arc<Meters>,
) {
    loop {
        // In a task of its own: a sweep that is under way when the consumer ends is never cut in two.
        let (sessions, of) = (Arc::clone(&sessions), retention.clone());
        match tokio::spawn(async move { sweep(&sessions, &of).await }).await {
            Ok(Ok(removed)) => {
                meters.counters.sweeps.add(1);
                meters.counters.pruned.add(removed);
                Signal::Pruned { removed }.emit();
            }
            Ok(Err(error)) => {
                meters.counters.sweeps_failed.add(1);
                Signal::PruneFailed { error }.emit();
            }
            Err(_) => return,
        }
        tokio::time::sleep(retention.interval).await;
    }
}

/// One sweep over the table; answers how many rows it removed.
pub(crate) async fn sweep<DB: Store>(
    sessions: &Sessions<DB>,
    retention: &Retention,
) -> Result<u64, String> {
    let mut conn = sessions.take().await.map_err(|error| error.to_string())?;
    let mut cursor = PruneCursor::default();
    let mut removed = 0;
    loop {
        match DB::prune_step(&mut conn, &retention.consumer, retention.age, cursor).await {
            Ok(step) => {
                removed += step.removed;
                let Some(next) = step.next else { break };
                cursor = next;
            }
            Err(error) => {
                conn.close_hard().await;
                return Err(error.to_string());
            }
        }
        tokio::time::sleep(STEP_PAUSE).await;
    }
    sessions.give_back(conn).await;
    Ok(removed)
}
