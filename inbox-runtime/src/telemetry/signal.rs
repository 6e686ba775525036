//! The one enum of everything the runtime tells, and its table.

use outbox_core::TopicPartition;
use service_kit::telemetry::Shown;

service_kit::signals! {
    /// Everything the runtime reports. Each has one level and one set of fields.
    enum Signal: "inbox_consumer", Shown::shown;

    info "assigned" "partitions assigned"
    /// The group assigned partitions to this process.
    Assigned { #[doc = "How many."] partitions: usize }

    error "blocked" "handler blocked, the process exits and others acquire its partitions: {error}"
    /// A handler has blocked its thread for 30 s longer than its deadline. Only ending the process can stop it; it exits with code 8.
    Blocked { ; #[doc = "Which handler, and for which record."] error: String }

    warn "broker_trouble" "Kafka client fault, retrying automatically: {error}"
    /// The Kafka client reports a fault that it retries: brokers down, authentication. Each cause is reported at once, then every 30 s.
    BrokerTrouble {
        #[doc = "How often it was met."] times: u64,
        #[doc = "For how long, in seconds."] seconds: u64,
        ;
        #[doc = "What it said."] error: String,
    }

    warn "commit_failed" "Kafka refused an offset commit, the database keeps the progress: {error}"
    /// Kafka refused an offset commit. Nothing is lost: the database keeps the progress. Each cause is reported at once, then every 30 s.
    CommitFailed {
        #[doc = "How often it was met."] times: u64,
        ;
        #[doc = "What it said."] error: String,
    }

    warn "commit_unknown" "outcome of a COMMIT unknown, reading the partition again: {error}"
    /// The connection broke during COMMIT. The partition is acquired again, which determines the outcome. Each cause is reported at once, then every 30 s.
    CommitUnknown {
        #[doc = "Where."] partition: TopicPartition,
        /// Events of the transaction.
        events: usize,
        #[doc = "How often it was met."] times: u64,
        ;
        /// What the database said.
        error: String,
    }

    debug "conflict" "transaction conflict, retrying with fewer events: {error}"
    /// A deadlock, a serialization failure, a lock timeout, an event that another transaction claimed at the same time, or a connection that broke under a handler while others worked. It spends no attempt.
    Conflict {
        #[doc = "Where."] partition: TopicPartition,
        /// Events of the transaction.
        events: usize,
        ;
        /// What the database said.
        error: String,
    }

    warn "conflict_again" "a single event conflicts repeatedly: {error}"
    /// One event alone has conflicted again (deadlock, lock timeout and the like). Something else holds a lock that it needs; if others commit meanwhile, such conflicts eventually count as failed attempts.
    ConflictAgain {
        #[doc = "Where."] partition: TopicPartition,
        /// The event's offset.
        offset: i64,
        #[doc = "Its type."] event_type: String,
        #[doc = "Its id."] event_id: String,
        /// Its aggregate.
        aggregate: String,
        /// How often in a row.
        times: u64,
        ;
        /// What the database said.
        error: String,
    }

    warn "doubtful" "{reason}"
    /// Configuration values that do not fit together, or a database setting that weakens the promise; `check` reports them, too.
    Doubtful { ; #[doc = "What, and what to change."] reason: String }

    warn "fenced" "fenced: the lanes have moved since this process wrote them; acquiring the \
                   partition again"
    /// A transaction found another epoch or offset in its lanes and was rolled back.
    Fenced { #[doc = "Where."] partition: TopicPartition }

    warn "given_up" "open transactions aborted with their partition"
    /// Handlers did not finish within `limits.drain_deadline` after their partition was revoked or lost, or it was acquired again meanwhile. Their connections are closed, so that the partition's next owner need not wait; their events are handled there.
    GivenUp {
        /// Which partition.
        partition: TopicPartition,
        /// How many transactions.
        transactions: usize,
    }

    info "group_resumed" "the group can read again"
    /// What was reported as `group_stalled` is over.
    GroupResumed { #[doc = "Which topic; none: the group."] topic: Option<String>, #[doc = "What is over, by name."] reason: &'static str, #[doc = "How long it lasted, in seconds."] seconds: u64 }

    warn "group_stalled" "{sentence}"
    /// A topic, or the whole group, cannot be read, and this process has no partition that reports it: `topic_missing`, `topic_unassigned` or `forbidden`. Reported at once, then every 30 s until `group_resumed`.
    GroupStalled { #[doc = "Which topic; none: the group."] topic: Option<String>, #[doc = "Why, by name."] reason: &'static str, #[doc = "For how long, in seconds."] seconds: u64 ; #[doc = "Why, and what to do."] sentence: String }

    warn "handler_failed" "handler failed: {error}"
    /// A handler failed, ran into its deadline or panicked. After the last attempt the event is parked. Each cause is reported at once, then every 30 s.
    HandlerFailed {
        #[doc = "Where."] partition: TopicPartition,
        /// The event's offset, when the culprit is known.
        offset: Option<i64>,
        /// Which attempt it was, from 1.
        attempt: Option<u32>,
        #[doc = "The event's type."] event_type: Option<String>,
        #[doc = "Its id."] event_id: Option<String>,
        #[doc = "Its aggregate, `type/id`."] aggregate: Option<String>,
        /// How often events of its type failed so.
        times: u64,
        ;
        /// The handler's error.
        error: String,
    }

    error "http_failed" "{error}"
    /// The HTTP port cannot be bound. The consumer continues without metrics and health, and retries.
    HttpFailed { ; #[doc = "Why, and what to do."] error: String }

    info "http_listening" "serving metrics and health"
    /// A port serves metrics and health (`http.listen`).
    HttpListening {
        #[doc = "Where."] address: String,
    }

    info "intake_listening" "accepting events by HTTP"
    /// A port accepts events (`intake.listen`).
    IntakeListening {
        #[doc = "Where."] address: String,
    }

    warn "lane_held" "an event holds up its lane: {error}"
    /// An event has been the first of its lane for 10 s, including attempts and waits between them; repeated after a minute. `/health/ready` and `status --lanes` show it, too.
    LaneHeld {
        #[doc = "Where."] partition: TopicPartition,
        /// The lane.
        lane: u64,
        /// The event's offset.
        offset: i64,
        #[doc = "Its type."] event_type: String,
        #[doc = "Its id."] event_id: String,
        /// Its aggregate.
        aggregate: String,
        /// The attempt that is under way, or waits for its time; from 1.
        attempt: Option<u32>,
        #[doc = "For how long, in seconds."] seconds: u64,
        ;
        /// What the last attempt ended with.
        error: String,
    }

    info "let_go" "partitions released"
    /// Revoked partitions were drained, committed and released.
    LetGo { #[doc = "How many."] partitions: usize }

    warn "lost" "partitions lost without a revocation"
    /// The group reassigned partitions because this process was silent. Its open transactions cannot commit.
    Lost { #[doc = "How many."] partitions: usize }

    error "mismatch" "event parked, another event has the same id: {error}"
    /// An event has the id of an earlier one with different content: its producer reuses ids. It was parked.
    Mismatch {
        #[doc = "Where."] partition: TopicPartition,
        #[doc = "Its offset."] offset: i64,
        ;
        /// What is known of the other one.
        error: String,
    }

    info "moving" "partition resumed"
    /// A partition that was stalled or waiting resumed; after an outage `outage_over` reports it for all.
    Moving { #[doc = "Which."] partition: TopicPartition }

    warn "outage" "database unavailable, partitions paused (resume is automatic): {error}"
    /// The database cannot be reached or refuses requests. Affected partitions pause; no attempt is spent. Each cause is reported at once, then every 30 s for all partitions together; metrics and `/health/ready` have each separately.
    Outage {
        /// Which met it last.
        partition: TopicPartition,
        /// How many pause for it by now.
        partitions: usize,
        #[doc = "How often it was met."] times: u64,
        #[doc = "For how long, in seconds."] seconds: u64,
        ;
        /// What the database said.
        error: String,
    }

    info "outage_over" "an outage is over"
    /// An outage reported as `outage`, `broker_trouble` or `prune_failed` is over: the last partition that paused for the database resumed, brokers answer, a sweep completed. What recurs within 30 s is reported as over only once it has been away for 30 s.
    OutageOver {
        /// The signal that reported it.
        of: &'static str,
        /// How many paused for it at once.
        partitions: Option<u32>,
        #[doc = "How often it was met."] times: u64,
        #[doc = "For how long, in seconds."] seconds: u64,
    }

    error "panicked" "a thread panicked: {error}"
    /// A thread panicked: a bug, usually of a handler, whose event is retried. Reported where the log is JSON; otherwise Rust prints it.
    Panicked {
        #[doc = "Its name."] thread: String,
        #[doc = "File, line and column."] place: String,
        /// The stack, with `RUST_BACKTRACE=1`.
        backtrace: Option<String>,
        ;
        /// What the panic said.
        error: String,
    }

    warn "parked" "events parked: {error}"
    /// Events were parked in the database, to be released later, by an operator, or after the event that they follow.
    Parked {
        #[doc = "Where."] partition: TopicPartition,
        /// How many, followers included.
        events: u64,
        /// How many for each reason: `exhausted 1, follower 3`.
        reasons: String,
        /// The offset of the first of them.
        offset: i64,
        #[doc = "Its type."] event_type: Option<String>,
        #[doc = "Its id."] event_id: Option<String>,
        #[doc = "Its aggregate, `type/id`."] aggregate: Option<String>,
        ;
        /// The first error, or what they follow.
        error: String,
    }

    warn "prune_failed" "pruning the inbox failed, retrying later: {error}"
    /// Pruning failed; it is retried at the next interval. Each cause is reported at once, then at most every 30 s.
    PruneFailed {
        #[doc = "How often it was met."] times: u64,
        #[doc = "For how long, in seconds."] seconds: u64,
        ;
        /// What the database said.
        error: String,
    }

    debug "pruned" "inbox pruned"
    /// Rows older than the retention were removed.
    Pruned {
        /// How many rows.
        removed: u64,
    }

    warn "queue_unprepared" "each queued statement takes its own round trip: {error}"
    /// Sessions could not be prepared for statements that handlers queue. The statements are sent one by one until the consumer is restarted: grant the role TEMPORARY, which lets it create temporary functions.
    QueueUnprepared { ; #[doc = "What the database says."] error: String }

    warn "release_failed" "a released event failed again: {error}"
    /// A parked event was released and failed again; it stays parked.
    ReleaseFailed {
        #[doc = "Where."] partition: TopicPartition,
        /// The event's offset.
        offset: i64,
        /// Which attempt it was, all of them counted.
        attempt: Option<u32>,
        /// Why it stays parked.
        reason: String,
        /// When it is released again; without it the event waits for a person.
        again_seconds: Option<i64>,
        ;
        /// The handler's error.
        error: String,
    }

    info "released" "parked events released or discarded"
    /// Parked events were handled in order, or discarded.
    Released {
        #[doc = "Where."] partition: TopicPartition,
        /// How many were handled.
        events: u64,
        /// How many were discarded.
        discarded: u64,
    }

    info "revoked" "partitions revoked, draining"
    /// The group revokes partitions; they drain up to `limits.drain_deadline`.
    Revoked { #[doc = "How many."] partitions: usize }

    info "shutdown_begun" "shutting down, finishing open transactions"
    /// The process was asked to shut down.
    ShutdownBegun

    debug "stale" "stale events skipped: their aggregate already has this or a later version"
    /// A route with versions settled events without their handler: they are at or below the last applied version of their aggregate. One line per transaction; `inbox_events_stale_total` counts.
    Stale { #[doc = "Where."] partition: TopicPartition, #[doc = "How many."] events: u64, #[doc = "The offset of the first of them."] offset: i64, #[doc = "Its version."] version: Option<i64>, #[doc = "The last one that was applied before."] last: i64 }

    error "standstill" "partition stalled, manual action required: {sentence}"
    /// A partition is stalled until an operator acts; the operations page has a section for each reason.
    Standstill {
        /// Which.
        partition: TopicPartition,
        /// Why, by name.
        reason: &'static str,
        ;
        /// Why, and what to do.
        sentence: String,
    }

    info "started" "{program} started"
    /// The program has read its configuration and starts.
    Started {
        /// The file, or that there is none.
        configuration: String,
        /// The address of the database, without credentials.
        database: String,
        #[doc = "The brokers."] kafka: String,
        /// Where metrics and health will be served.
        http: String,
        /// Where events will be accepted by HTTP (`intake.listen`).
        intake: String,
        ;
        #[doc = "Its name and version."] program: String,
    }

    warn "strayed" "an aggregate moved to another partition, its order is not kept"
    /// An aggregate of the sample was seen on another partition than before: partitions were added, or producers use different partitioners. Its order is not kept across the two. Reported at most once a minute; `inbox_aggregates_strayed_total` counts.
    AggregateMoved {
        /// Where it is now.
        partition: TopicPartition,
        /// At which offset.
        offset: i64,
        /// The number of the partition where it was before.
        before: i64,
    }

    error "stuck" "consumer is stuck: {error}"
    /// The consumer's loop has been blocked, or its Kafka client was not polled, for 20 s; reported by a separate thread. A handler that blocks its thread is named.
    Stuck {
        ;
        /// Why, as far as it is known.
        error: String,
    }

    info "taken_over" "partitions acquired"
    /// The database recorded this process as the owner of partitions, and where it continues reading. Those of one assignment are reported together, within a second.
    TakenOver {
        #[doc = "How many."] partitions: usize,
        /// The offset below which everything is settled, of the first 20 of them: `orders/0 at 41, orders/1 at 7`.
        watermarks: String,
    }

    error "torn" "event parked, a handler ended its transaction: {error}"
    /// A handler committed or rolled back the runtime's transaction. An operator must check whether the effect is committed, then release or discard the event.
    Torn {
        #[doc = "Where."] partition: TopicPartition,
        #[doc = "Its offset."] offset: i64,
        ;
        /// What is known.
        error: String,
    }

    info "traces_exported" "span export recovered"
    /// `traces_lost` is over: the receiver of `traces.endpoint` accepts spans again.
    TracesExported {
        /// How many were lost meanwhile.
        spans: u64,
        #[doc = "For how long, in seconds."] seconds: u64,
    }

    warn "traces_lost" "spans are not exported, processing continues without them: {error}"
    /// The receiver of `traces.endpoint` does not accept spans, or not fast enough: they are lost, and nothing else is. Reported once, until `traces_exported`.
    TracesLost {
        /// How many, so far.
        spans: u64,
        ;
        /// What the receiver said, or why it was not reached.
        error: String,
    }

    info "waiting" "partition paused, it resumes automatically: {sentence}"
    /// A partition is paused and resumes automatically, for another reason than being acquired, such as another process that still owns it. Outages of the database are reported as `outage`.
    Waiting {
        /// Which.
        partition: TopicPartition,
        /// Why, by name.
        reason: &'static str,
        ;
        /// Why, and what to do.
        sentence: String,
    }

    warn "watermark_fenced" "watermark refused, acquiring the partition again"
    /// Writing a watermark found a different owner or different lanes.
    WatermarkFenced { #[doc = "Which."] partition: TopicPartition }
}
