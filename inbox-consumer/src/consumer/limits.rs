//! The engine's limits, out of the configuration and of what the store is.

use std::time::Duration;

use inbox_store::internal::port::Sessions;

use crate::config::Config;

/// How often each partition's parked queues are looked at, in milliseconds.
const DUE_INTERVAL: u64 = 1_000;

/// The most transactions that are open at once, each on a connection.
pub(crate) fn connections<DB: Sessions>(config: &Config) -> usize {
    usize::from(config.database.connections).min(DB::WRITERS_MAX)
}

pub(super) fn limits<DB: Sessions>(config: &Config) -> inbox_engine::internal::Limits {
    let one_writer = DB::WRITERS_MAX == 1;
    inbox_engine::internal::Limits {
        attempts_max: config.retry.attempts_max,
        batch_bytes_max: config.batch.bytes_max as u64,
        batch_events_max: config.batch.events_max,
        drain_deadline: millis(config.limits.drain_deadline),
        due_interval: DUE_INTERVAL,
        oldest_first: one_writer,
        outage_delay_max: millis(config.limits.outage_delay_max),
        partition_bytes_max: config.limits.partition_bytes_max as u64,
        retry_delay_max: millis(config.retry.delay_max),
        retry_delay_min: millis(config.retry.delay_min),
        // While one writes, the next is made ready: cut, and its payloads decoded.
        transactions_max: connections::<DB>(config) + usize::from(one_writer),
        ..inbox_engine::internal::Limits::default()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(all(test, any(feature = "sqlite", feature = "postgres")))]
mod tests {
    use super::*;

    fn of<DB: Sessions>() -> inbox_engine::internal::Limits {
        limits::<DB>(&Config::new("billing", "localhost:9092", ["orders"], "sqlite:billing.db"))
    }

    /// What one writer writes at a time are neighbours in the file: half of the pages.
    #[cfg(feature = "sqlite")]
    #[test]
    fn sqlite_has_one_writer_that_takes_the_oldest_events() {
        let limits = of::<sqlx::Sqlite>();
        assert_eq!((limits.transactions_max, limits.oldest_first), (2, true));
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn postgres_has_lanes_side_by_side() {
        let limits = of::<sqlx::Postgres>();
        assert_eq!((limits.transactions_max, limits.oldest_first), (8, false));
    }
}
