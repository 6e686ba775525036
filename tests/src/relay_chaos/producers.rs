//! Four producers that commit out of order: most transactions are short, some stay open for seconds, some
//! are rolled back. Each event has the next number of its aggregate, taken under the lock of its row.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinHandle;

use super::Dice;
use crate::{Outbox, counted_event};

const PRODUCERS: u64 = 4;

/// What they did.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) rolled_back: u64,
    pub(super) long: u64,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    rolled_back: AtomicU64,
    long: AtomicU64,
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
            let dice = Dice((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (producer + 1));
            tokio::spawn(produce(url, aggregates, dice, shared))
        });
        let tasks = tasks.collect();
        Self { shared, tasks }
    }

    pub(super) async fn stop(self) -> Tally {
        self.shared.stop.store(true, Relaxed);
        for task in self.tasks {
            task.await.expect("a producer goes on to its end");
        }
        Tally {
            rolled_back: self.shared.rolled_back.load(Relaxed),
            long: self.shared.long.load(Relaxed),
        }
    }
}

async fn produce(url: String, aggregates: i64, mut dice: Dice, shared: Arc<Shared>) {
    let mut conn = PgConnection::connect(&url).await.expect("the database");
    while !shared.stop.load(Relaxed) {
        transaction(&mut conn, aggregates, &mut dice, &shared).await.expect("a transaction");
        tokio::time::sleep(Duration::from_millis(dice.below(10))).await;
    }
}

/// One transaction over one to three aggregates, locked in their order.
async fn transaction(
    conn: &mut PgConnection,
    aggregates: i64,
    dice: &mut Dice,
    shared: &Shared,
) -> Result<(), sqlx::Error> {
    let mut chosen: Vec<i64> = (0..=dice.below(3))
        .map(|_| 1 + i64::try_from(dice.below(aggregates.unsigned_abs())).unwrap_or(0))
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    let long = dice.below(60) == 0;
    let mut tx = conn.begin().await?;
    for aggregate in chosen {
        let aggregate = aggregate.to_string();
        for _ in 0..=dice.below(2) {
            let n: i64 =
                sqlx::query_scalar("UPDATE ledger SET n = n + 1 WHERE aggregate = $1 RETURNING n")
                    .bind(&aggregate)
                    .fetch_one(&mut *tx)
                    .await?;
            outbox_core::append(&mut *tx, &counted_event(&aggregate, n))
                .await
                .expect("an event is appended");
        }
    }
    if long {
        shared.long.fetch_add(1, Relaxed);
        tokio::time::sleep(Duration::from_millis(1_000 + dice.below(2_000))).await;
    }
    if dice.below(20) == 0 {
        shared.rolled_back.fetch_add(1, Relaxed);
        return tx.rollback().await;
    }
    tx.commit().await
}
