//! The one enum of everything the relay tells, and its table.

use service_kit::{PanicReport, TracesNotice, telemetry::Shown};

service_kit::signals! {
    /// Everything the relay reports. Each has one level and one set of fields.
    enum Signal: "outbox_relay", Shown::shown;

    info "active" "relay is active"
    /// This relay acquired the lease, and its predecessor is fenced at the broker unless fencing is off.
    Active {
        /// The number of the lease.
        fence: i64,
    }

    warn "broker_trouble" "Kafka client fault, retrying automatically: {error}"
    /// The Kafka client reports a fault that it retries: brokers down, authentication. Each cause is reported at once, then every 30 s.
    BrokerTrouble {
        /// How often it was met.
        times: u64,
        /// For how long, in seconds.
        seconds: u64,
        ;
        /// What it said.
        error: String,
    }

    warn "database_outage" "database unavailable, retrying automatically: {error}"
    /// The database cannot be reached or refuses requests. Nothing is lost; the relay retries automatically. Each cause is reported at once, then every 30 s.
    DatabaseOutage {
        /// How often it was met.
        times: u64,
        /// For how long, in seconds.
        seconds: u64,
        ;
        /// What it said.
        error: String,
    }

    warn "destination_outage" "{destination} is down, retrying automatically: {error}"
    /// A destination fails for every event: three aggregates in a row, or it is unreachable. Nothing is lost and no attempt is spent; single events probe it until one is delivered. Reported at once, then every 30 s.
    DestinationOutage {
        /// Its name, and what it shares the outage with.
        destination: String,
        /// For how long, in seconds.
        seconds: u64,
        ;
        /// What the last event met.
        error: String,
    }

    info "destination_works" "destination recovered"
    /// A destination that was down has accepted an event.
    DestinationWorks {
        /// Its name, and what it shared the outage with.
        destination: String,
        /// For how long it was out.
        seconds: u64,
    }

    info "disabled" "relay is disabled: `relay.enabled` is false"
    /// The relay is disabled by `relay.enabled`: it opens no connection and ships nothing.
    Disabled

    warn "doubtful" "{reason}"
    /// Configuration values that do not fit together; `check` reports them, too.
    Doubtful {
        ;
        /// What, and what to change.
        reason: String,
    }

    warn "fenced" "fenced by another producer with this transactional id: {error}"
    /// The broker fenced this relay: another one uses the same transactional id. The holder of the lease continues.
    Fenced {
        ;
        /// What the broker said.
        error: String,
    }

    error "forbidden" "{reason}"
    /// Kafka does not allow the user to write to a topic, whose rows wait, or to use its transactional id, so that nothing is sent to Kafka. Retried automatically.
    Forbidden {
        ;
        /// What to grant.
        reason: String,
    }

    error "http_failed" "{error}"
    /// The HTTP port cannot be bound. The relay continues without metrics and health, and retries.
    HttpFailed {
        ;
        /// Why, and what to do.
        error: String,
    }

    info "http_listening" "serving metrics and health"
    /// The HTTP port serves metrics and health.
    HttpListening {
        /// Where.
        address: String,
    }

    error "id_shared" "{reason}"
    /// The broker keeps fencing this relay although it holds the lease: a relay of a copy of the database has the same id, or one that still works on the database from before a failover.
    IdShared {
        ;
        /// What, and what to do.
        reason: String,
    }

    warn "kafka_outage" "Kafka unavailable, retrying automatically: {error}"
    /// No producer can be initialized. Nothing is lost; the relay retries automatically. Each cause is reported at once, then every 30 s.
    KafkaOutage {
        /// How often it was met.
        times: u64,
        /// For how long, in seconds.
        seconds: u64,
        ;
        /// What it said.
        error: String,
    }

    warn "lease_impossible" "the lease of the active relay ends later than possible"
    /// The lease of the active relay ends later than possible: the database's clock was set back, or is behind that of the database before a failover. If the holder stays silent, the lease is acquired after `wait` seconds.
    LeaseImpossible {
        /// Who has it.
        holder: String,
        /// What is left of it, in seconds, by the database's clock.
        seconds: u64,
        /// How long it can last.
        wait: u64,
    }

    warn "listening_broken" "LISTEN connection lost, polling meanwhile: {error}"
    /// The connection that LISTENs for new rows is broken; the poll finds them meanwhile. Each cause is reported at once, then every 30 s.
    ListeningBroken {
        /// How often it was met.
        times: u64,
        /// For how long, in seconds.
        seconds: u64,
        ;
        /// What it said.
        error: String,
    }

    info "moving" "relay resumed"
    /// The relay ships again after a stall that required manual action.
    Moving

    info "outage_over" "an outage is over"
    /// An outage of the database, Kafka (`broker_trouble`, `kafka_outage`, `unknown`), listening, pruning or reading for metrics is over: the database answers, brokers accepted a batch or a producer, or answered a query. What recurs within 30 s is reported as over only once it has been away for 30 s.
    OutageOver {
        /// The signal that reported it; `kafka_outage` for all three of Kafka.
        of: &'static str,
        /// How often it was met.
        times: u64,
        /// For how long, in seconds.
        seconds: u64,
    }

    error "panicked" "a thread panicked: {error}"
    /// A thread panicked: a bug, of the program or of embedded code. Reported where the log is JSON; otherwise Rust prints it.
    Panicked {
        /// Its name.
        thread: String,
        /// File, line and column.
        place: String,
        /// The stack, with `RUST_BACKTRACE=1`.
        backtrace: Option<String>,
        ;
        /// What the panic said.
        error: String,
    }

    debug "pruned" "old rows pruned"
    /// Rows older than the retention were removed.
    Pruned {
        /// How many.
        removed: u64,
    }

    info "partition_led" "a partition has a leader again"
    /// `partition_leaderless` is over: the rows that wait for the partition are sent.
    PartitionLed {
        /// The topic's name.
        topic: String,
        /// The partition.
        partition: i32,
    }

    warn "partition_leaderless" "rows wait for a partition that has no leader"
    /// All brokers with a replica of a partition are down. Its rows wait, and so do later ones of their aggregates; they are sent automatically once a broker leads it.
    PartitionLeaderless {
        /// The topic's name.
        topic: String,
        /// The partition.
        partition: i32,
    }

    warn "prune_failed" "pruning old rows failed, retrying later: {error}"
    /// Pruning failed; it is retried at the next interval. Each cause is reported at once, then every 30 s.
    PruneFailed {
        /// How often it was met.
        times: u64,
        /// For how long, in seconds.
        seconds: u64,
        ;
        /// What it said.
        error: String,
    }

    warn "reading_failed" "reading the outbox for metrics failed, retrying: {error}"
    /// Metrics of the outbox could not be read, though the database answers; they are absent until they can. Rows are shipped as before. Each cause is reported at once, then every 30 s.
    ReadingFailed {
        /// How often it was met.
        times: u64,
        /// For how long, in seconds.
        seconds: u64,
        ;
        /// What it said.
        error: String,
    }

    error "sequence_behind" "{reason}"
    /// The sequence of `outbox_events.seq` is behind its table, as after a logical copy of the database: new rows would be sent before older ones. Nothing is sent until it is fixed.
    SequenceBehind {
        ;
        /// The numbers, and what to do.
        reason: String,
    }

    error "set_aside" "row parked, it cannot be sent: {error}"
    /// A row cannot be sent. It is parked, and later rows of its aggregate wait behind it until an operator retries or discards it: `outbox-relay failed`.
    SetAside {
        /// Its number.
        seq: i64,
        /// Its aggregate, and its id.
        event: String,
        ;
        /// Why.
        error: String,
    }

    info "shutdown_begun" "shutdown requested"
    /// The relay was asked to shut down.
    ShutdownBegun

    info "started" "{program} started"
    /// The program has read its configuration and starts.
    Started {
        /// The file, or that there is none.
        configuration: String,
        /// The address of the database, without credentials.
        database: String,
        /// The brokers.
        kafka: String,
        /// Where metrics and health will be served.
        http: String,
        ;
        /// Its name and version.
        program: String,
    }

    info "standby" "another relay is active"
    /// Another relay holds the lease; this one is on standby.
    Standby {
        /// The holder.
        holder: String,
    }

    info "topic_found" "a missing topic exists now, or a forbidden one is allowed"
    /// A missing topic exists now, or one that was `forbidden` accepts records again: the rows that wait for it are sent.
    TopicFound {
        /// Its name.
        topic: String,
    }

    warn "topic_missing" "rows wait for a topic that is missing"
    /// A topic does not exist. Its rows wait, and so do later ones of their aggregates; they are sent automatically once it exists.
    TopicMissing {
        /// Its name.
        topic: String,
    }

    info "traces_exported" "span export recovered"
    /// `traces_lost` is over: the receiver of `traces.endpoint` accepts spans again.
    TracesExported {
        /// How many were lost meanwhile.
        spans: u64,
        /// For how long, in seconds.
        seconds: u64,
    }

    warn "traces_lost" "spans are not exported, shipping continues without them: {error}"
    /// The receiver of `traces.endpoint` does not accept spans, or not fast enough: they are lost, and nothing else is. Reported once, until `traces_exported`.
    TracesLost {
        /// How many, so far.
        spans: u64,
        ;
        /// What the receiver said, or why it was not reached.
        error: String,
    }

    warn "turn_lost" "lease lost"
    /// This relay was silent for longer than its lease, which another has acquired or nobody holds yet; or the outbox was given another id, under which the next lease starts.
    TurnLost {
        /// The number of the lost lease.
        fence: i64,
    }

    warn "unknown" "outcome of a batch unknown, reading its rows again: {error}"
    /// A delivery failed or timed out: the outcome of the batch is unknown. It is purged and aborted, and its rows are read from the database again, by a new producer. Each cause is reported at once, then every 30 s.
    Unknown {
        /// Rows of the batch.
        rows: usize,
        /// How often it was met.
        times: u64,
        /// For how long, in seconds.
        seconds: u64,
        ;
        /// What the client said.
        error: String,
    }

    warn "webhook_file" "webhook {webhook} keeps its previous settings, a file cannot be used: \
                         {error}"
    /// A file of a webhook cannot be read any more, or its content cannot be used. Its previous content stays in use. Reported once for each cause.
    WebhookFile {
        /// Its name.
        webhook: String,
        ;
        /// What is wrong with it.
        error: String,
    }

    error "went_back" "the database was reset to an older state"
    /// Rows that were sent are no longer in the outbox: the database was reset to an older state, by a failover or a restore. The rows that it has are read and sent again; rows that it lost were sent nevertheless.
    WentBack {
        /// Rows that are not there.
        rows: u64,
    }
}

impl From<PanicReport> for Signal {
    fn from(panic: PanicReport) -> Self {
        let PanicReport { thread, place, backtrace, error } = panic;
        Self::Panicked { thread, place, backtrace, error }
    }
}

impl From<TracesNotice> for Signal {
    fn from(notice: TracesNotice) -> Self {
        match notice {
            TracesNotice::Doubtful(reason) => Self::Doubtful { reason },
            TracesNotice::Lost { spans, error } => Self::TracesLost { spans, error },
            TracesNotice::Exported { spans, seconds } => Self::TracesExported { spans, seconds },
        }
    }
}
