//! Looking at what the database knows, for `status` and `check`.

use std::{future::Future, time::Duration};

use outbox_core::IdScope;
use sqlx::Database;

/// What is written down for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// Why the partition stands still.
    Standstill,
    /// Which of its lanes are held, as the consumer reads and writes them.
    HeldLanes,
}

/// One row of `status`, as the database knows it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PartitionRow {
    /// Topic.
    pub topic: String,
    /// Its id; all zero when Kafka did not tell it.
    pub topic_id: [u8; 16],
    /// Partition.
    pub partition: i32,
    /// Next offset to settle.
    pub watermark: i64,
    /// The offset after the furthest one that a lane has settled, at least the watermark. What lies
    /// between the two is in flight: settled ahead of it, or still open.
    pub reached: i64,
    /// Epoch.
    pub epoch: i64,
    /// Lanes.
    pub lane_count: i32,
    /// What assigns events to them.
    pub lane_rule: String,
    /// The lanes that are wanted instead, and by which rule, while the change waits.
    pub next_lanes: Option<(i32, String)>,
    /// Where its event ids are one event's.
    pub id_scope: IdScope,
    /// The owner's name, if owned.
    pub owner: Option<String>,
    /// Seconds since the owner was last seen, by the database's clock.
    pub owner_seen_seconds: Option<f64>,
    /// Parked aggregates.
    pub parked_aggregates: i64,
    /// Parked events.
    pub parked_events: i64,
    /// Those among them that wait for versions before their own.
    pub gaps: i64,
    /// Why the partition stands still, as its owner last said.
    pub standstill: Option<String>,
    /// Which of its lanes are held, as its owner last said.
    pub held_lanes: Option<String>,
    /// Whether the partition was retired.
    pub retired: bool,
}

/// What a role of the database is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoleKind {
    /// Runs a consumer and its commands.
    Consumer,
    /// The same, with handlers that append to the outbox.
    AppendingConsumer,
    /// Ships the outbox.
    Relay,
    /// Appends events, and nothing else.
    Appender,
    /// Reads, and changes nothing.
    Reader,
    /// Runs `forget`, the only command that changes the audit.
    Eraser,
}

/// Looking, for `status` and `check`.
pub trait Inspections: Database {
    /// Every partition of a consumer.
    fn partitions(
        conn: &mut Self::Connection,
        consumer: &str,
    ) -> impl Future<Output = Result<Vec<PartitionRow>, sqlx::Error>> + Send;
    /// What `check` finds wrong or doubtful: schema, privileges, isolation, durability.
    fn findings(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Vec<Finding>, sqlx::Error>> + Send;
    /// What the session's role may not do, all of it, with the statements that give it; tables that are not
    /// there count for nothing.
    fn rights(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Option<Finding>, sqlx::Error>> + Send;
    /// The statements that give a role what it needs; `None` where there are no roles.
    fn grants(schema: Option<&str>, role: &str, kind: RoleKind, audit_ends: bool)
    -> Option<String>;
    /// Whether the session's role may append to the outbox: one whose handlers do not need not.
    fn appends(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;
}

/// What a consumer needs of its database, for `check`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Needs {
    /// The most connections that it opens.
    pub connections: usize,
    /// How many of them are not for transactions.
    pub connections_beside: usize,
    /// The longest attempt of a handler.
    pub attempt_deadline: Duration,
    /// This machine's clock, in seconds since 1970.
    pub now: f64,
}

/// What `check` finds doubtful beyond [`Inspections::findings`], which a consumer itself looks at.
pub trait Advices: Database {
    /// Connections, defaults, clock.
    fn advice(
        conn: &mut Self::Connection,
        needs: &Needs,
    ) -> impl Future<Output = Result<Vec<Finding>, sqlx::Error>> + Send;
    /// The number of the server's process behind a session, if there is one: two sessions with one process have
    /// a pooler between.
    fn backend(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Option<i64>, sqlx::Error>> + Send;
}

/// A finding of `check`.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Finding {
    /// Whether the consumer refuses to start with it.
    pub fatal: bool,
    /// What is wrong, where, and what to change: one sentence.
    pub text: String,
}
