//! What bounds a consumer: lanes, transactions, attempts, memory, waiting, rows.

use std::time::Duration;

use service_kit::section;

section! {
    /// `[lanes]`: ordered queues per partition.
    #[derive(Copy)]
    pub struct Lanes as "lanes" {
        /// Ordered queues per partition, which bound its parallelism. The database keeps the number
        /// that a partition was first read with.
        count: u16 = "16", in 1..=256;
    }
}

section! {
    /// `[batch]`: how much goes into one transaction.
    #[derive(Copy)]
    pub struct Batch as "batch" {
        /// Maximum number of events per transaction. Fewer while those of a lane take longer than
        /// 200 ms, or 50 ms with a small backlog.
        events_max: usize = "1000", in 1..=10_000;
        /// Maximum size of one transaction's events; a single larger event gets its own
        /// transaction.
        bytes_max: usize = "4MiB", in 1KiB..=64MiB;
    }
}

section! {
    /// `[retry]`: quick attempts before an event is parked.
    #[derive(Copy)]
    pub struct Retry as "retry" {
        /// Immediate attempts, the first included; then the event is parked. Outages and conflicts do not count.
        attempts_max: u32 = "4", in 1..=100;
        /// The delay before the second attempt; it doubles each time.
        delay_min: Duration = "100ms", in 1ms..=1m;
        /// The longest delay between two attempts.
        delay_max: Duration = "2s", in 1ms..=1h;
        /// Longest attempt of a handler; then its connection is closed and the attempt fails.
        /// Longer than `database.statement_timeout`, shorter than `database.idle_timeout`.
        attempt_deadline: Duration = "30s", in 100ms..=1h;
    }
}

section! {
    /// `[limits]`: what bounds memory and waiting.
    #[derive(Copy)]
    pub struct Limits as "limits" {
        /// Size of one partition's events in memory; above it the partition is paused in Kafka.
        partition_bytes_max: usize = "4MiB", in 64KiB..=1GiB;
        /// Aggregates of one partition with parked events; a transaction that would park more is
        /// rolled back, and the partition stalls until there is capacity.
        parked_aggregates_max: u32 = "1000", in 1..=1_000_000;
        /// Parked events of one partition, followers included; the partition stalls beyond it.
        parked_events_max: u32 = "100000", in 1..=100_000_000;
        /// Size of a partition's parked events in the database, about the size of their records;
        /// the partition stalls beyond it. At least three times `events.event_bytes_max`.
        parked_bytes_max: usize = "1GiB", in 64KiB..=1024GiB;
        /// Longest delay between two attempts to reach a database that is down.
        outage_delay_max: Duration = "10s", in 100ms..=10m;
        /// How long a revoked partition may finish running transactions: at most a third of
        /// `kafka.session_timeout`. Transactions are sized to take at most half of it.
        drain_deadline: Duration = "3s", in 0s..=10m, shown "`kafka.session_timeout` / 3, at most 3s";
        /// How long leaving the group may take at shutdown: `limits.drain_deadline` or longer.
        close_deadline: Duration = "10s", in 100ms..=10m, shown "`limits.drain_deadline`, at least 10s";
    }
}

section! {
    /// `[retention]`: how long inbox rows are kept.
    #[derive(Copy)]
    pub struct Retention as "retention" {
        /// How long a settled event's inbox row is kept, by the database's clock. Duplicates sent
        /// by a producer are detected for this long; Kafka redeliveries are always detected.
        inbox: Duration = "7d", in 1m..=3650d;
        /// How long the audit (who parked, released, discarded, skipped, retired or forgot what) is
        /// kept; forever by default. It requires DELETE on `inbox_audit` for the consumer's role,
        /// which `migrate --print-grants` then includes.
        audit: Option<Duration>, in 1d..=36_500d;
        /// How often older rows are deleted.
        prune_interval: Duration = "1m", in 1s..=1d;
    }
}
