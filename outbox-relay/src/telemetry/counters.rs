//! What a relay has done so far, in numbers.

service_kit::counters! {
    /// What a relay has done so far. Written once per batch, read at any time.
    struct Counters;

    /// Rows acknowledged by the brokers and marked as sent.
    sent,
    /// Batches delivered.
    batches,
    /// Batches of unknown outcome: purged, aborted and read from the database again.
    unknown,
    /// Events accepted by destinations other than Kafka.
    delivered,
    /// Failed attempts of rows in retry.
    retries,
    /// Batches refused by the broker because another producer fenced this one.
    fenced,
    /// Rows parked.
    failed,
    /// Polls of the database for waiting rows.
    looks,
    /// Attempts that failed because the database or Kafka was unavailable.
    outages,
    /// Leases acquired.
    turns,
    /// Rows deleted after their retention.
    pruned,
}
