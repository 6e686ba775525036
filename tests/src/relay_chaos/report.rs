//! What a run is to do, and what it measured.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Kind;

/// How many faults of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// `kill -9`s of the active relay.
    pub kills: u32,
    /// Freezes of the active relay past its lease.
    pub freezes: u32,
    /// Deaths of the primary, with a replica that lags promoted.
    pub failovers: u32,
    /// Databases put back to an older copy.
    pub restores: u32,
    /// Clocks of the database that jump.
    pub clock_steps: u32,
    /// Rounds of rows whose topics are created later.
    pub missing_topics: u32,
}

impl Plan {
    pub(super) fn kinds(self) -> Vec<Kind> {
        let counts = [
            (Kind::Kill, self.kills),
            (Kind::Freeze, self.freezes),
            (Kind::Failover, self.failovers),
            (Kind::Restore, self.restores),
            (Kind::ClockStep, self.clock_steps),
            (Kind::MissingTopics, self.missing_topics),
        ];
        counts.iter().flat_map(|(kind, count)| (0..*count).map(|_| *kind)).collect()
    }
}

/// What the run measured.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Events that the database has in the end.
    pub events: usize,
    /// Transactions of producers that were rolled back.
    pub rolled_back: u64,
    /// Transactions of producers that failed with their database.
    pub broken_transactions: u64,
    /// Transactions that stayed open for a second or longer.
    pub long_transactions: u64,
    /// `kill -9`s of the active relay.
    pub kills: u32,
    /// Freezes of the active relay past its lease.
    pub freezes: u32,
    /// Deaths of the primary, with a replica that lagged promoted.
    pub failovers: u32,
    /// Databases put back to an older copy.
    pub restores: u32,
    /// Clocks of the database that jumped.
    pub clock_steps: u32,
    /// Rounds of rows whose topics were created later.
    pub missing_topics: u32,
    /// Events that were committed and that the database does not have in the end.
    pub committed_then_lost: usize,
    /// Events in the topics that the database does not have in the end.
    pub sent_then_lost: usize,
    /// Numbers of an aggregate that are in a topic under more than one id.
    pub numbers_sent_twice: usize,
    /// Faults after which some events were in the topic twice.
    pub faults_with_copies: usize,
    /// Records in the topics that are copies of earlier ones.
    pub copies: usize,
    /// The number of the last turn; a database that goes back takes turns back.
    pub turns: i64,
    /// Relays that ended by themselves, and were started again as a service manager does.
    pub relays_started_again: u32,
    /// Topics that were missing for a while.
    pub topics_created_late: usize,
    /// Rows that named them.
    pub rows_of_missing_topics: u64,
    /// The longest time without a row of the other topic while some were missing, in seconds.
    pub longest_pause_of_others_seconds: f64,
    /// The longest time from the creation of missing topics until their rows were sent, in seconds.
    pub longest_wait_for_created_topic_seconds: f64,
    /// The longest time from a fault, or from the return of the database, until the outbox moved again, in seconds;
    /// missing topics are not among these faults.
    pub longest_pause_seconds: f64,
    /// The same for each kind of fault.
    pub longest_pause_by_fault: BTreeMap<Kind, f64>,
    /// The longest time from the death or stop of a database until it, or its replica, took writes, in seconds.
    pub longest_time_without_database_seconds: f64,
    /// All of it, in seconds.
    pub seconds: f64,
    /// What is wrong.
    pub violations: Vec<String>,
}
