//! Rows that name topics which are not there yet. They wait, rows of other topics do not, and nobody has to
//! do anything but create the topics.

use std::time::{Duration, Instant};

use super::{BY_THE_BROKER, Kind, MARGIN, Run, STILL_MAX, database, fault::Begun, now_ms};
use crate::{Outbox, Topic, counted_event};

/// Aggregates that a missing topic has of its own.
const AGGREGATES: i64 = 4;
/// The longest time without a row of other topics, while some wait for theirs.
const OTHERS_MAX: Duration = MARGIN;
/// The longest time that rows wait for a topic which is there: whoever looks for it does so by a schedule.
const CREATED_MAX: Duration = Duration::from_secs(30);

/// How it went in all rounds.
#[derive(Default)]
pub(super) struct Tally {
    /// All of them are there by now.
    pub(super) topics: Vec<Topic>,
    pub(super) rows: u64,
    /// The longest pause of other topics' rows.
    pub(super) others: Duration,
    /// The longest time from creating a round's topics to the last of their rows.
    pub(super) created: Duration,
}

impl Run {
    /// A round: rows for one to three topics, a wait, the topics, and more rows.
    pub(super) async fn miss_topics(&mut self) {
        let begun = Begun::now(Kind::MissingTopics);
        let kafka = self.outbox.topic.bootstrap().to_owned();
        let topics: Vec<Topic> = (0..=self.dice.below(3))
            .map(|at| {
                let stem = format!("chaos-late-{}-{at}", self.missing.topics.len());
                let partitions = i32::try_from(1 + self.dice.below(3)).unwrap_or(1);
                Topic::planned(&kafka, &stem, partitions, &BY_THE_BROKER)
            })
            .collect();
        let mut from_ms = now_ms();
        self.rows(&topics, 3).await;
        let there = Instant::now() + self.dice.time(1_000, 5_000);
        if self.dice.below(3) == 0 && self.take(Kind::Kill) {
            // Whoever has begun to wait for the topics is gone; the next one knows nothing of them.
            tokio::time::sleep(self.dice.time(50, 1_000)).await;
            self.kill().await;
            from_ms = now_ms();
        }
        while Instant::now() < there {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if self.dice.below(5) == 0 {
                self.rows(&topics, 1).await;
            }
        }
        let since = Instant::now();
        for topic in &topics {
            topic.create_again().await;
            if self.dice.below(2) == 0 {
                self.rows(&topics, 1).await;
            }
        }
        self.rows(&topics, 2).await;
        let names: Vec<String> = topics.iter().map(|topic| format!("'{}'", topic.name())).collect();
        let unsent = format!("{} AND topic IN ({})", database::UNSENT, names.join(", "));
        while database::number(&self.outbox, &unsent).await > 0 && since.elapsed() < STILL_MAX {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let created = since.elapsed();
        let pause = database::pause_of_others(&self.outbox, from_ms, now_ms()).await;
        self.missing.created = self.missing.created.max(created);
        self.missing.others = self.missing.others.max(pause);
        if created > CREATED_MAX {
            self.violations
                .push(format!("rows wait {created:.1?} for topics that are there: {names:?}"));
        }
        if pause > OTHERS_MAX {
            self.violations.push(format!("other topics stood for {pause:.1?} besides {names:?}"));
        }
        self.missing.topics.extend(topics);
        self.faults.push(begun.ended());
    }

    /// So many rows of each aggregate, in transactions that mix the topics.
    async fn rows(&mut self, topics: &[Topic], rows: u32) {
        for _ in 0..rows {
            for aggregate in 0..AGGREGATES {
                self.missing.rows += topics.len() as u64;
                append(&self.outbox, topics, aggregate).await.expect("rows are appended");
            }
        }
    }
}

/// The next row of an aggregate for each topic, numbered in the ledger as the producers' rows are.
async fn append(outbox: &Outbox, topics: &[Topic], aggregate: i64) -> Result<(), sqlx::Error> {
    let mut tx = outbox.schema.pool().begin().await?;
    for topic in topics {
        let aggregate = format!("{}/{aggregate}", topic.name());
        let n: i64 = sqlx::query_scalar(
            "INSERT INTO ledger VALUES ($1, 1) ON CONFLICT (aggregate) DO UPDATE SET n = ledger.n + 1
             RETURNING n",
        )
        .bind(&aggregate)
        .fetch_one(&mut *tx)
        .await?;
        let event = counted_event(&aggregate, n).with_topic(topic.name().to_owned());
        let event = event.expect("a name of a topic");
        outbox_core::append(&mut *tx, &event).await.expect("an event is appended");
    }
    tx.commit().await
}
