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

/// The oldest snapshot that is open: nothing that died after it began can be removed.
#[derive(Clone, PartialEq, Debug)]
pub struct OldSnapshot {
    /// Who has it, for people.
    pub holder: String,
    /// Since when, in seconds; `None` where the role may not see that, and of a replication slot.
    pub seconds: Option<f64>,
    /// Transactions since then.
    pub transactions: i64,
}

/// Backups of small databases and reports take minutes: a snapshot is reported once it is older than that.
const SNAPSHOT_SECONDS: f64 = 300.0;
/// The same where nobody knows since when it is open.
const SNAPSHOT_TRANSACTIONS: i64 = 1_000_000;

impl OldSnapshot {
    /// What it means, once it has been open for long.
    pub fn warning(&self) -> Option<String> {
        let Self { holder, seconds, transactions } = self;
        let since = match seconds {
            Some(seconds) if *seconds >= SNAPSHOT_SECONDS => {
                format!("for {:.0} minutes, ", seconds / 60.0)
            }
            None if *transactions >= SNAPSHOT_TRANSACTIONS => String::new(),
            _ => return None,
        };
        Some(format!(
            "{holder} has had a snapshot open {since}for {transactions} transactions: rows \
             updated or deleted since then cannot be removed, and tables grow; end it, unless it \
             is a short backup or report"
        ))
    }
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
    /// The oldest snapshot of other sessions; `None` where a database keeps no dead rows for it.
    fn oldest_snapshot(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Option<OldSnapshot>, sqlx::Error>> + Send;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of a minute are everywhere, and of one whose age nobody may see only what happened since is known.
    #[test]
    fn a_snapshot_is_told_once_it_is_old() {
        let told = |seconds, transactions| {
            OldSnapshot { holder: "process 7 of report (psql)".into(), seconds, transactions }
                .warning()
        };
        assert_eq!(told(Some(299.0), 5_000_000), None);
        assert_eq!(told(None, 999_999), None);
        let old = told(Some(3_600.0), 12).expect("an hour is long");
        assert!(
            old.starts_with("process 7 of report (psql) has had a snapshot open for 60 minutes"),
            "{old}"
        );
        let unknown = told(None, 1_000_000).expect("a million is long");
        assert!(unknown.contains("open for 1000000 transactions"), "{unknown}");
    }
}
