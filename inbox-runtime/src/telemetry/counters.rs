//! What a consumer has done so far, in numbers.

use inbox_engine::internal::{BatchOutcome, TransactionFault};

service_kit::counters! {
    /// What a consumer has done so far. Written once per transaction, read at any time.
    struct Counters;

    /// Events whose handler ran and committed.
    applied,
    /// Deliveries that were already settled.
    duplicates,
    /// Events at or below the last version of their aggregate, settled without running.
    stale,
    /// Events parked, followers included.
    parked,
    /// Events that the configuration ignores: of an unknown type, or unreadable.
    ignored,
    /// Events of that kind sent to the dead letter topic.
    dead_lettered,
    /// Parked events released with their effect committed.
    released,
    /// Parked events discarded by an operator.
    discarded,
    /// Failed releases of a parked event; it is rescheduled, or needs manual action.
    release_failures,
    /// Transactions committed.
    batches,
    /// Transactions rolled back because a handler failed.
    rollbacks,
    /// Failures of handlers; each is one attempt.
    failures,
    /// Transactions that conflicted and run again.
    conflicts,
    /// Transactions that found the database unavailable.
    outages,
    /// Transactions rolled back because their lanes moved, and COMMITs of unknown outcome; each acquires the partition again.
    resyncs,
    /// Partitions assigned to this process by the group.
    assigned,
    /// Partitions revoked by the group.
    revoked,
    /// Partitions lost because this process was silent.
    lost,
    /// Offset commits that Kafka acknowledged.
    commits,
    /// Offset commits that Kafka refused.
    commits_refused,
    /// Completed sweeps of the inbox.
    sweeps,
    /// Failed sweeps of the inbox.
    sweeps_failed,
    /// Inbox rows deleted by sweeps.
    pruned,
    /// Times that an aggregate of the sample was seen on another partition than before.
    aggregate_moves,
}

impl Counters {
    /// Counts what a transaction did.
    pub(crate) fn count(&self, outcome: &BatchOutcome) {
        match outcome {
            BatchOutcome::Committed(tally) => {
                self.batches.add(1);
                self.applied.add(tally.applied);
                self.duplicates.add(tally.duplicates);
                self.stale.add(tally.stale);
                self.parked.add(tally.parked);
                self.ignored.add(tally.ignored);
                self.dead_lettered.add(tally.dead_lettered);
            }
            BatchOutcome::Failed(failures) => {
                self.rollbacks.add(1);
                self.failures.add(failures.len() as u64);
            }
            BatchOutcome::Fault(fault) => self.count_fault(fault),
            // The partition stands still for it: the signal tells.
            BatchOutcome::Reused(_) | BatchOutcome::Full(_) => {}
        }
    }

    /// Counts what kept a transaction from being committed.
    pub(crate) fn count_fault(&self, fault: &TransactionFault) {
        match fault {
            TransactionFault::Blocked(_)
            | TransactionFault::Broken(_)
            | TransactionFault::Conflict(_)
            | TransactionFault::Locked { .. } => self.conflicts.add(1),
            TransactionFault::Outage(_) | TransactionFault::Unreached(_) => self.outages.add(1),
            TransactionFault::Unknown(_) | TransactionFault::Fenced => self.resyncs.add(1),
        }
    }
}
