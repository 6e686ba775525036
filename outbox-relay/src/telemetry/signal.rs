//! The one enum of everything the relay tells, and its table.

use service_kit::{PanicReport, TracesNotice, telemetry::Shown};

service_kit::signals! {
    /// Everything the relay tells. Each has one level and one set of fields.
    enum Signal: "outbox_relay", Shown::shown;

    info "active" "this relay has the turn"
    /// This relay has taken its turn at the outbox, and its predecessor is fenced at the broker unless that is switched off.
    Active {
        /// The number of the turn.
        fence: i64,
    }

    warn "broker_trouble" "Kafka client fault, retrying automatically: {error}"
    /// The Kafka client reports a fault that it retries: brokers down, authentication. Each cause is told at once, then every 30 s.
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
    /// The database cannot be reached or refuses. Nothing is lost; the relay retries automatically. Each cause is told at once, then every 30 s.
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
    /// A destination fails for every event that goes there: three aggregates in a row, or nobody reaches it. Nothing is lost and no attempt is spent; single events probe it until one is delivered. It is reported at once, then every 30 s.
    DestinationOutage {
        /// Its name, and what it shares the outage with.
        destination: String,
        /// For how long, in seconds.
        seconds: u64,
        ;
        /// What the last event met.
        error: String,
    }

    info "destination_works" "a destination works again"
    /// A destination that was out has taken an event.
    DestinationWorks {
        /// Its name, and what it shared the outage with.
        destination: String,
        /// For how long it was out.
        seconds: u64,
    }

    info "disabled" "the relay ships nothing: `relay.enabled` is false"
    /// The relay is switched off by its configuration, `relay.enabled`: it opens no connection and ships nothing.
    Disabled

    warn "doubtful" "{reason}"
    /// Values of the configuration that do not go well together; `check` tells them, too.
    Doubtful {
        ;
        /// What, and what to change.
        reason: String,
    }

    warn "fenced" "another producer with this transactional id has come: {error}"
    /// The broker has fenced this relay: another one with the same transactional id has come. Whoever has the turn in the database goes on.
    Fenced {
        ;
        /// What the broker said.
        error: String,
    }

    error "forbidden" "{reason}"
    /// Kafka does not allow the user to write to a topic, whose rows wait, or to use its transactional id, so that nothing is sent to Kafka. It is tried again by itself.
    Forbidden {
        ;
        /// What to grant.
        reason: String,
    }

    error "http_failed" "{error}"
    /// The HTTP port cannot be had. The relay works on without metrics and health, and tries again.
    HttpFailed {
        ;
        /// Why, and what to do.
        error: String,
    }

    info "http_listening" "metrics and health are served"
    /// The HTTP port serves metrics and health.
    HttpListening {
        /// Where.
        address: String,
    }

    error "id_shared" "{reason}"
    /// The broker fences this relay again and again though it has the turn: a relay of a copy of the database has the same id, or one that still works on the database before a failover.
    IdShared {
        ;
        /// What, and what to do.
        reason: String,
    }

    warn "kafka_outage" "Kafka unavailable, retrying automatically: {error}"
    /// No producer can be made ready. Nothing is lost; the relay retries automatically. Each cause is told at once, then every 30 s.
    KafkaOutage {
        /// How often it was met.
        times: u64,
        /// For how long, in seconds.
        seconds: u64,
        ;
        /// What it said.
        error: String,
    }

    warn "lease_impossible" "the lease of the active relay ends later than any lease could"
    /// The lease of the relay that has the turn ends later than it can: the database's clock was set back, or is behind that of the database before a failover. Without a sign of life it is taken after `wait` seconds.
    LeaseImpossible {
        /// Who has it.
        holder: String,
        /// What is left of it, in seconds, by the database's clock.
        seconds: u64,
        /// How long it can last.
        wait: u64,
    }

    warn "listening_broken" "the connection that listens for new rows is broken, they are looked for meanwhile: {error}"
    /// The connection that is told of new rows is broken; the poll finds them meanwhile. Each cause is told at once, then every 30 s.
    ListeningBroken {
        /// How often it was met.
        times: u64,
        /// For how long, in seconds.
        seconds: u64,
        ;
        /// What it said.
        error: String,
    }

    info "moving" "the relay ships again"
    /// What stood still until a person acted ships again.
    Moving

    info "outage_over" "an outage is over"
    /// What was told of the database, of Kafka (`broker_trouble`, `kafka_outage`, `unknown`), of listening, of removing old rows or of reading for metrics is over: the database answers, brokers have taken a batch or a producer, or answer a question of the relay's. What comes back within 30 s is told as over only when it has not come for 30 s.
    OutageOver {
        /// The signal that told it; `kafka_outage` for all three of Kafka.
        of: &'static str,
        /// How often it was met.
        times: u64,
        /// For how long, in seconds.
        seconds: u64,
    }

    error "panicked" "a thread panicked: {error}"
    /// A thread panicked: a bug, of the program or of what it embeds. Reported where the log is JSON; else Rust prints it.
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

    debug "pruned" "old rows were removed"
    /// Rows older than the retention were removed.
    Pruned {
        /// How many.
        removed: u64,
    }

    warn "prune_failed" "old rows could not be removed, it is tried again later: {error}"
    /// Removing old rows failed; it is tried again at the next interval. Each cause is told at once, then every 30 s.
    PruneFailed {
        /// How often it was met.
        times: u64,
        /// For how long, in seconds.
        seconds: u64,
        ;
        /// What it said.
        error: String,
    }

    warn "reading_failed" "the outbox could not be read for metrics, it is tried again: {error}"
    /// What metrics tell of the outbox could not be read, though the database answers; the metrics are absent until it can. Rows are shipped as before. Each cause is told at once, then every 30 s.
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
    /// The sequence of `outbox_events.seq` is behind its table, as after a logical copy of the database: new rows would be sent before older ones. Nothing is sent until it is mended.
    SequenceBehind {
        ;
        /// The numbers, and what to do.
        reason: String,
    }

    error "set_aside" "a row cannot be sent and was set aside: {error}"
    /// A row cannot be sent. It was set aside, and later rows of its aggregate wait behind it until a person lets it go or gives it up: `outbox-relay failed`.
    SetAside {
        /// Its number.
        seq: i64,
        /// Its aggregate, and its id.
        event: String,
        ;
        /// Why.
        error: String,
    }

    info "shutdown_begun" "the relay was asked to end"
    /// The relay was asked to end.
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

    info "standby" "another relay has the turn"
    /// Another relay has the turn; this one stands by.
    Standby {
        /// Who has it.
        holder: String,
    }

    info "topic_found" "a topic that was missing is there, or one that was forbidden is not any more"
    /// A topic that was missing is there, or one that was `forbidden` takes records again: the rows that wait for it go.
    TopicFound {
        /// Its name.
        topic: String,
    }

    warn "topic_missing" "rows wait for a topic that is missing"
    /// A topic is not there. Its rows wait, and so do later ones of their aggregates; they go by themselves when it is there.
    TopicMissing {
        /// Its name.
        topic: String,
    }

    info "traces_exported" "spans are exported again"
    /// What was told as `traces_lost` is over: the receiver of `traces.endpoint` takes spans again.
    TracesExported {
        /// How many were lost meanwhile.
        spans: u64,
        /// For how long, in seconds.
        seconds: u64,
    }

    warn "traces_lost" "spans are not exported, the work goes on without them: {error}"
    /// The receiver of `traces.endpoint` does not take spans, or not fast enough: they are lost, and nothing else is. Told once, until `traces_exported`.
    TracesLost {
        /// How many, so far.
        spans: u64,
        ;
        /// What the receiver said, or why it was not reached.
        error: String,
    }

    warn "turn_lost" "another relay has taken the turn"
    /// This relay was silent for longer than its lease, and another has taken the turn, or nobody has yet; or the outbox was given another id, under which the next turn begins.
    TurnLost {
        /// The number of the lost turn.
        fence: i64,
    }

    warn "unknown" "what became of a batch is not known, its rows are read again: {error}"
    /// A delivery failed or ran into its time-out: what became of the batch is unknown. It is purged and aborted, and its rows are read from the database again, by a new producer. Each cause is told at once, then every 30 s.
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

    warn "webhook_file" "a file of the webhook {webhook} cannot be used, what it held before is: {error}"
    /// A file of a webhook cannot be read any more, or holds what cannot be used. What it held before is used on. Told once for each cause.
    WebhookFile {
        /// Its name.
        webhook: String,
        ;
        /// What is wrong with it.
        error: String,
    }

    error "went_back" "the database went back to an older state"
    /// Rows that were sent are not in the outbox any more: the database went back to an older state, by a failover or a restore. What it has is read and sent again; what it has lost was sent nevertheless.
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
