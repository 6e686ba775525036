//! What a relay has done so far, in numbers.

service_kit::counters! {
    /// What a relay has done so far. Written once per batch, read at any time.
    struct Counters;

    /// Rows that were acknowledged by the brokers and marked as sent.
    sent,
    /// Batches that went through.
    batches,
    /// Batches of unknown outcome: purged, aborted and read from the database again.
    unknown,
    /// Events that destinations other than Kafka have taken.
    delivered,
    /// Attempts that failed, of rows that are tried again.
    retries,
    /// Batches that the broker refused, since another producer had come.
    fenced,
    /// Rows that were set aside.
    failed,
    /// Looks at the database for rows that wait.
    looks,
    /// Attempts that found no database or no Kafka.
    outages,
    /// Turns that were taken.
    turns,
    /// Rows that were removed after their retention.
    pruned,
}
