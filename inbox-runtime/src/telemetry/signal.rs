//! The one enum of everything the runtime tells, and its table.

use outbox_core::TopicPartition;
use service_kit::telemetry::Shown;

service_kit::signals! {
    /// Everything the runtime tells. Each has one level and one set of fields.
    enum Signal: "inbox_consumer", Shown::shown;

    info "assigned" "partitions were assigned"
    /// Kafka gave partitions to this process.
    Assigned { #[doc = "How many."] partitions: usize }

    error "blocked" "the process ends, and others take its partitions: {error}"
    /// A handler has blocked its thread for 30 s longer than its time. Nobody can end it but with the process, which ends with the exit code 8.
    Blocked { ; #[doc = "Which handler, and for which record."] error: String }

    warn "broker_trouble" "Kafka client fault, retrying automatically: {error}"
    /// The Kafka client reports a fault that it retries: brokers down, authentication. Each cause is told at once, then every 30 s.
    BrokerTrouble {
        #[doc = "How often it was met."] times: u64,
        #[doc = "For how long, in seconds."] seconds: u64,
        ;
        #[doc = "What it said."] error: String,
    }

    warn "commit_failed" "Kafka refused a commit, the database knows what is settled: {error}"
    /// Kafka refused an offset commit. Nothing is lost: the database knows what is settled. Each cause is told at once, then every 30 s.
    CommitFailed {
        #[doc = "How often it was met."] times: u64,
        ;
        #[doc = "What it said."] error: String,
    }

    warn "commit_unknown" "whether a transaction committed is not known, the partition is read again: {error}"
    /// The connection broke during COMMIT. The partition is taken over anew, which finds out. Each cause is told at once, then every 30 s.
    CommitUnknown {
        #[doc = "Where."] partition: TopicPartition,
        /// Events of the transaction.
        events: usize,
        #[doc = "How often it was met."] times: u64,
        ;
        /// What the database said.
        error: String,
    }

    debug "conflict" "a transaction met another, it runs again with fewer events: {error}"
    /// A deadlock, a serialization failure, a lock time-out, an event that another transaction claimed at the same time, or a connection that broke under a handler while others worked. It spends no attempt.
    Conflict {
        #[doc = "Where."] partition: TopicPartition,
        /// Events of the transaction.
        events: usize,
        ;
        /// What the database said.
        error: String,
    }

    warn "conflict_again" "an event met a conflict alone, not for the first time: {error}"
    /// One event alone has met a deadlock, a lock time-out or their like again. Something else holds what it needs; where others commit meanwhile, such conflicts count as failed attempts after a while.
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
    /// Values of the configuration that do not go well together, or a setting of the database that weakens the promise; `check` tells them, too.
    Doubtful { ; #[doc = "What, and what to change."] reason: String }

    warn "fenced" "the lanes are not where this process left them; the partition is taken over anew"
    /// A transaction found another epoch or another offset in its lanes and was rolled back.
    Fenced { #[doc = "Where."] partition: TopicPartition }

    warn "given_up" "open transactions are given up with their partition"
    /// Handlers did not end within `limits.drain_deadline` after their partition was taken away or lost, or it was taken over anew meanwhile. Their connections are closed, so that the partition's next owner need not wait; their events are handled there.
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

    warn "handler_failed" "a handler failed: {error}"
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
    /// The HTTP port cannot be had. The consumer works on without metrics and health, and tries again.
    HttpFailed { ; #[doc = "Why, and what to do."] error: String }

    info "http_listening" "metrics and health are served"
    /// A port serves metrics and health (`http.listen`).
    HttpListening {
        #[doc = "Where."] address: String,
    }

    info "intake_listening" "events are accepted by HTTP"
    /// A port accepts events (`intake.listen`).
    IntakeListening {
        #[doc = "Where."] address: String,
    }

    warn "lane_held" "an event has been the first of its lane for long, and what comes behind it waits: {error}"
    /// An event has been the first of its lane for 10 s, attempts and the waits between them included; told again after a minute. `/health/ready` and `status --lanes` name it, too.
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

    info "let_go" "partitions were let go"
    /// Partitions that were taken away are drained, committed and let go.
    LetGo { #[doc = "How many."] partitions: usize }

    warn "lost" "partitions were lost without a warning"
    /// The group gave partitions away because this process was silent. What ran there cannot commit.
    Lost { #[doc = "How many."] partitions: usize }

    error "mismatch" "an event has the id of another one, it was parked: {error}"
    /// An event has an id that was accepted with other content: its producer reuses ids. It was parked.
    Mismatch {
        #[doc = "Where."] partition: TopicPartition,
        #[doc = "Its offset."] offset: i64,
        ;
        /// What is known of the other one.
        error: String,
    }

    info "moving" "the partition moves again"
    /// A partition that was told to stand still or to wait moves again; after an outage `outage_over` says it for all.
    Moving { #[doc = "Which."] partition: TopicPartition }

    warn "outage" "the database or Kafka does not answer, partitions pause and go on by themselves: {error}"
    /// The database cannot be reached or refuses work. What meets it pauses; no attempt is spent. Each cause is told at once, then every 30 s for all partitions together; metrics and `/health/ready` have each by itself.
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
    /// What was told as `outage`, `broker_trouble` or `prune_failed` is over: the last partition that paused for the database moves again, brokers answer, a sweep has come to its end. What comes back within 30 s is told as over only when it has not come for 30 s.
    OutageOver {
        /// The signal that told it.
        of: &'static str,
        /// How many paused for it at once.
        partitions: Option<u32>,
        #[doc = "How often it was met."] times: u64,
        #[doc = "For how long, in seconds."] seconds: u64,
    }

    error "panicked" "a thread panicked: {error}"
    /// A thread panicked: a bug, mostly of a handler, whose event is retried. Reported where the log is JSON; else Rust prints it.
    Panicked {
        #[doc = "Its name."] thread: String,
        #[doc = "File, line and column."] place: String,
        /// The stack, with `RUST_BACKTRACE=1`.
        backtrace: Option<String>,
        ;
        /// What the panic said.
        error: String,
    }

    warn "parked" "events were parked: {error}"
    /// Events were set aside in the database, to be released later, by a person, or behind one of them.
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

    warn "prune_failed" "a sweep of the inbox failed, it is tried again later: {error}"
    /// Pruning failed; it is tried again at the next interval. Each cause is told at once, then every 30 s at most.
    PruneFailed {
        #[doc = "How often it was met."] times: u64,
        #[doc = "For how long, in seconds."] seconds: u64,
        ;
        /// What the database said.
        error: String,
    }

    debug "pruned" "a sweep of the inbox is done"
    /// Rows older than the retention were removed.
    Pruned {
        /// How many rows.
        removed: u64,
    }

    warn "queue_unprepared" "queued statements take a round trip each: {error}"
    /// Sessions could not be prepared for statements that handlers queue. They are sent one by one until the consumer is started anew: let the role make temporary functions (TEMPORARY).
    QueueUnprepared { ; #[doc = "What the database says."] error: String }

    warn "release_failed" "a parked event failed again: {error}"
    /// A parked event was released, and failed again; it stays parked.
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

    info "released" "parked events left their queue"
    /// Parked events were handled in their order, or given up by a person.
    Released {
        #[doc = "Where."] partition: TopicPartition,
        /// How many were handled.
        events: u64,
        /// How many were given up.
        discarded: u64,
    }

    info "revoked" "partitions are taken away; what runs there is finished first"
    /// The group takes partitions away; they drain up to `limits.drain_deadline`.
    Revoked { #[doc = "How many."] partitions: usize }

    info "shutdown_begun" "shutting down: open transactions are finished first"
    /// The process was asked to end.
    ShutdownBegun

    debug "stale" "events are at or below the last version of their aggregate, they are not run"
    /// A route that looks at versions settled events without their handler: they are at or below the last version of their aggregate that was applied. One line for each transaction; `inbox_events_stale_total` counts.
    Stale { #[doc = "Where."] partition: TopicPartition, #[doc = "How many."] events: u64, #[doc = "The offset of the first of them."] offset: i64, #[doc = "Its version."] version: Option<i64>, #[doc = "The last one that was applied before."] last: i64 }

    error "standstill" "the partition stands still until a person acts: {sentence}"
    /// A partition does not move until a person acts; the operations page has a section for each reason.
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

    warn "strayed" "an aggregate was seen on two partitions: order is not kept across them"
    /// An aggregate of the sample was seen on another partition than before: partitions were added, or producers use different partitioners. Its order is not kept across the two. Told once a minute at most; `inbox_aggregates_strayed_total` counts.
    AggregateMoved {
        /// Where it is now.
        partition: TopicPartition,
        /// At which offset.
        offset: i64,
        /// The number of the partition where it was before.
        before: i64,
    }

    error "stuck" "the consumer does not move: {error}"
    /// The consumer's loop has not come round, or its Kafka client was not polled, for 20 s; told by a thread of its own. A handler that blocks its thread is named.
    Stuck {
        ;
        /// Why, as far as it is known.
        error: String,
    }

    info "taken_over" "partitions were taken over"
    /// The database knows this process as the owner of partitions, and where it reads on. Those of one assignment are told together, a second later at most.
    TakenOver {
        #[doc = "How many."] partitions: usize,
        /// The offset below which everything is settled, of the first 20 of them: `orders/0 at 41, orders/1 at 7`.
        watermarks: String,
    }

    error "torn" "a handler ended the transaction of an event, it was parked: {error}"
    /// A handler committed or rolled back the runtime's transaction. Whether the effect is there is for a person to find out, who then releases or discards the event.
    Torn {
        #[doc = "Where."] partition: TopicPartition,
        #[doc = "Its offset."] offset: i64,
        ;
        /// What is known.
        error: String,
    }

    info "traces_exported" "spans are exported again"
    /// What was told as `traces_lost` is over: the receiver of `traces.endpoint` takes spans again.
    TracesExported {
        /// How many were lost meanwhile.
        spans: u64,
        #[doc = "For how long, in seconds."] seconds: u64,
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

    info "waiting" "the partition waits and goes on by itself: {sentence}"
    /// A partition does not move, but will by itself, for another reason than that it is being taken over: another process still has it, say. What waits for the database is told as `outage`.
    Waiting {
        /// Which.
        partition: TopicPartition,
        /// Why, by name.
        reason: &'static str,
        ;
        /// Why, and what to do.
        sentence: String,
    }

    warn "watermark_fenced" "a watermark was refused; the partition is taken over anew"
    /// Writing a watermark found another owner or other lanes.
    WatermarkFenced { #[doc = "Which."] partition: TopicPartition }
}
