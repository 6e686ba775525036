//! What bounds a consumer: lanes, transactions, attempts, memory, waiting, rows.

use std::time::Duration;

use service_kit::section;

section! {
    /// `[lanes]`: ordered queues per partition.
    #[derive(Copy)]
    pub struct Lanes as "lanes" {
        /// Ordered queues of a partition; what one partition can do at once. The database keeps what a partition
        /// was first read with.
        count: u16 = "16", in 1..=256;
    }
}

section! {
    /// `[batch]`: how much goes into one transaction.
    #[derive(Copy)]
    pub struct Batch as "batch" {
        /// Events of one transaction. Fewer while those of a lane take longer than 200 ms, or 50 ms where little
        /// waits.
        events_max: usize = "1000", in 1..=10_000;
        /// Bytes of one transaction's events; a single larger event goes alone.
        bytes_max: usize = "4MiB", in 1KiB..=64MiB;
    }
}

section! {
    /// `[retry]`: quick attempts before an event is parked.
    #[derive(Copy)]
    pub struct Retry as "retry" {
        /// Quick attempts, the first included; then the event is parked. Outages and conflicts do not count.
        attempts_max: u32 = "4", in 1..=100;
        /// The delay before the second attempt; it doubles each time.
        delay_min: Duration = "100ms", in 1ms..=1m;
        /// The longest delay between two attempts.
        delay_max: Duration = "2s", in 1ms..=1h;
        /// The longest attempt of a handler; then its connection is closed and the attempt has failed. Longer than
        /// `database.statement_timeout`, shorter than `database.idle_timeout`.
        attempt_deadline: Duration = "30s", in 100ms..=1h;
    }
}

section! {
    /// `[limits]`: what bounds memory and waiting.
    #[derive(Copy)]
    pub struct Limits as "limits" {
        /// Bytes of one partition in memory; above it the partition is paused in Kafka.
        partition_bytes_max: usize = "4MiB", in 64KiB..=1GiB;
        /// Aggregates of one partition with parked events; a transaction that would park more is rolled back, and
        /// the partition stands still until there is room.
        parked_aggregates_max: u32 = "1000", in 1..=1_000_000;
        /// Parked events of one partition, those that follow others included; beyond it as above.
        parked_events_max: u32 = "100000", in 1..=100_000_000;
        /// Bytes that a partition's parked events take in the database, about as many as their records have; beyond
        /// it as above. At least three times `events.event_bytes_max`.
        parked_bytes_max: usize = "1GiB", in 64KiB..=1024GiB;
        /// The longest delay between two attempts to reach a database that is out.
        outage_delay_max: Duration = "10s", in 100ms..=10m;
        /// How long a partition that is taken away may finish what runs: at most a third of
        /// `kafka.session_timeout`. Transactions are made no larger than half of it is enough for.
        drain_deadline: Duration = "3s", in 0s..=10m, shown "`kafka.session_timeout` / 3, at most 3s";
        /// How long leaving the group may take at the end: `limits.drain_deadline` or longer.
        close_deadline: Duration = "10s", in 100ms..=10m, shown "`limits.drain_deadline`, at least 10s";
    }
}

section! {
    /// `[retention]`: how long inbox rows are kept.
    #[derive(Copy)]
    pub struct Retention as "retention" {
        /// How long a settled event's inbox row is kept, by the database's clock. A producer's second copy is
        /// recognised for so long; Kafka's redeliveries are recognised for ever.
        inbox: Duration = "7d", in 1m..=3650d;
        /// How long the audit (who parked, released, discarded, skipped, retired or forgot what) is kept; for ever
        /// if it is not set. The consumer's role needs DELETE on `inbox_audit` for it: `migrate --print-grants` has
        /// it then.
        audit: Option<Duration>, in 1d..=36_500d;
        /// How often the runtime removes older rows.
        prune_interval: Duration = "1m", in 1s..=1d;
    }
}
