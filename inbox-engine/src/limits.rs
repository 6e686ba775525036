//! Every limit has a name here; nothing in the engine is unbounded.

/// The engine's limits. Times are milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Faults in a row that an event meets alone, while other transactions commit, before they count.
    pub alone_max: u32,
    /// Attempts of a handler on one event before it is parked.
    pub attempts_max: u32,
    /// Bytes of one transaction's events.
    pub batch_bytes_max: u64,
    /// Events of one transaction.
    pub batch_events_max: usize,
    /// A lane whose transaction took longer goes on with half the events, down to a few dozen: so long
    /// are locks held.
    pub batch_time_max: u64,
    /// The same while less than a quarter of `partition_bytes_max` is left undone: then what counts is how
    /// long events wait behind a transaction, not how many are settled a second.
    pub batch_time_calm_max: u64,
    /// Longest wait before a conflict is tried again; the shortest is 1 ms.
    pub conflict_delay_max: u64,
    /// How long a revoked partition may finish its open transactions.
    pub drain_deadline: u64,
    /// How often the database is asked which parked queues are due; zero: never.
    pub due_interval: u64,
    /// Parked queues that one such look brings, and that are remembered per partition. Not fewer than a
    /// partition has lanes, so that each lane's can be among them.
    pub due_max: usize,
    /// Events of a transaction while this process has committed none: nobody knows how long its handlers
    /// take. Afterwards a transaction has no more than half of `drain_deadline` is enough for.
    pub events_at_first: usize,
    /// How often the lanes of an idle partition are validated.
    pub idle_check_interval: u64,
    /// A transaction takes the oldest events of its partition, over all lanes that are ready, instead of
    /// all that the lanes which have waited longest hold, and is the only one of its partition. For a store
    /// with one writer: nothing could write beside it anyway, and events that arrived together are neighbours
    /// in the inbox.
    pub oldest_first: bool,
    /// Longest wait before an outage is probed again.
    pub outage_delay_max: u64,
    /// First wait after an outage; doubles.
    pub outage_delay_min: u64,
    /// Bytes of undone events of one partition before Kafka is paused; resumed below half.
    pub partition_bytes_max: u64,
    /// Deliveries of one partition above its watermark, settled ones included, before Kafka is paused;
    /// resumed below half. What one blocked lane can make the engine remember (C3).
    pub partition_events_max: usize,
    /// Events of one release. While a lane has parked queues that are due, its live transactions take
    /// no more events of it either, or a queue might grow faster than it is released.
    pub release_events_max: usize,
    /// Releases per live transaction in a lane that has both; two or more empty a queue under load
    /// (finding 19).
    pub releases_per_live: u32,
    /// Longest wait before a handler is tried again.
    pub retry_delay_max: u64,
    /// First wait before a handler is tried again; doubles.
    pub retry_delay_min: u64,
    /// Transactions open at once, over all partitions.
    pub transactions_max: usize,
    /// How often watermarks are written and Kafka is committed to.
    pub watermark_interval: u64,
}

impl Limits {
    /// First and longest wait for a database that is away.
    pub(crate) fn outage_delay(&self) -> (u64, u64) {
        (self.outage_delay_min, self.outage_delay_max)
    }

    /// First and longest wait after a conflict.
    pub(crate) fn conflict_delay(&self) -> (u64, u64) {
        (1, self.conflict_delay_max)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            alone_max: 5,
            attempts_max: 4,
            batch_bytes_max: 4 << 20,
            batch_events_max: 1_000,
            batch_time_max: 200,
            batch_time_calm_max: 50,
            conflict_delay_max: 250,
            drain_deadline: 5_000,
            due_interval: 0,
            due_max: 128,
            events_at_first: 1,
            idle_check_interval: 5_000,
            oldest_first: false,
            outage_delay_max: 10_000,
            outage_delay_min: 200,
            partition_bytes_max: 4 << 20,
            partition_events_max: 200_000,
            release_events_max: 32,
            releases_per_live: 2,
            retry_delay_max: 2_000,
            retry_delay_min: 100,
            transactions_max: 8,
            watermark_interval: 1_000,
        }
    }
}
