//! Four producers that commit out of order: most transactions are short, some stay open for seconds, some
//! are rolled back. Each event has the next number of its aggregate, taken under the lock of its row. When the
//! database fails, they go on with it as soon as it is back.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use service_kit::Random;
use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinHandle;

use super::Dice;
use crate::{Outbox, counted_event};

const PRODUCERS: u64 = 4;
/// After a failure.
const PAUSE: Duration = Duration::from_millis(100);
/// A database that is gone does not answer, not even in this time.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// What they did. Events in neither set failed with their database: they may have been committed or not.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Ids of events whose commit was acknowledged.
    pub(super) committed: HashSet<String>,
    /// Ids of events for which a commit was never asked.
    pub(super) never_committed: HashSet<String>,
    /// Transactions that were rolled back.
    pub(super) rolled_back: u64,
    /// Transactions that failed.
    pub(super) broken: u64,
    /// Transactions that were open for long.
    pub(super) long: u64,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    written: Mutex<Written>,
}

impl Shared {
    fn note(&self, note: impl FnOnce(&mut Written)) {
        note(&mut self.written.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The producers, at work.
pub(super) struct Producers {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

impl Producers {
    pub(super) async fn start(outbox: &Outbox, aggregates: i64, seed: u64) -> Self {
        outbox
            .schema
            .run(&format!(
                "CREATE TABLE ledger (aggregate text PRIMARY KEY, n bigint NOT NULL);
                 INSERT INTO ledger SELECT a::text, 0 FROM generate_series(1, {aggregates}) a"
            ))
            .await;
        let shared = Arc::<Shared>::default();
        let tasks = (0..PRODUCERS).map(|producer| {
            let (shared, url) = (Arc::clone(&shared), outbox.schema.url());
            let dice =
                Dice(Random::new((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (producer + 1)));
            tokio::spawn(produce(url, aggregates, dice, shared))
        });
        let tasks = tasks.collect();
        Self { shared, tasks }
    }

    pub(super) async fn stop(self) -> Written {
        self.shared.stop.store(true, Relaxed);
        for task in self.tasks {
            task.await.expect("a producer goes on to its end");
        }
        let mut written = self.shared.written.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *written)
    }
}

async fn produce(url: String, aggregates: i64, mut dice: Dice, shared: Arc<Shared>) {
    let mut held = None;
    while !shared.stop.load(Relaxed) {
        let mut conn = match held.take() {
            Some(conn) => conn,
            None => match tokio::time::timeout(CONNECT_MAX, PgConnection::connect(&url)).await {
                Ok(Ok(conn)) => conn,
                _ => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            },
        };
        if transaction(&mut conn, aggregates, &mut dice, &shared).await.is_ok() {
            held = Some(conn);
            tokio::time::sleep(Duration::from_millis(dice.below(10))).await;
        } else {
            shared.note(|written| written.broken += 1);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// One transaction over one to three aggregates, locked in their order.
async fn transaction(
    conn: &mut PgConnection,
    aggregates: i64,
    dice: &mut Dice,
    shared: &Shared,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut chosen: Vec<i64> = (0..=dice.below(3))
        .map(|_| 1 + i64::try_from(dice.below(aggregates.unsigned_abs())).unwrap_or(0))
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    let long = dice.below(60) == 0;
    let mut ids = Vec::new();
    let mut tx = conn.begin().await?;
    for aggregate in chosen {
        let aggregate = aggregate.to_string();
        for _ in 0..=dice.below(2) {
            let n: i64 =
                sqlx::query_scalar("UPDATE ledger SET n = n + 1 WHERE aggregate = $1 RETURNING n")
                    .bind(&aggregate)
                    .fetch_one(&mut *tx)
                    .await?;
            let event = counted_event(&aggregate, n);
            ids.push(event.id().to_string());
            outbox_core::append(&mut *tx, &event).await?;
        }
    }
    if long {
        shared.note(|written| written.long += 1);
        tokio::time::sleep(Duration::from_millis(1_000 + dice.below(2_000))).await;
    }
    if dice.below(20) == 0 {
        shared.note(|written| {
            written.rolled_back += 1;
            written.never_committed.extend(ids);
        });
        return Ok(tx.rollback().await?);
    }
    tx.commit().await?;
    shared.note(|written| written.committed.extend(ids));
    Ok(())
}
