//! The rules of the protocol, each by its name, so that a test can show what breaks without it.
//!
//! A rule is always on in a production build: [`Rule::on`] is then the constant `true`. With the
//! feature `ablation` the environment variable `INBOX_RULES_OFF` (names, comma-separated) switches
//! rules off; `cargo xtask ablate` runs each rule's tests that way and expects them to fail.

/// One rule of the protocol. The doc comment says what holds while it is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// A claimed id is recorded, and a recorded id is not run again.
    Inbox,
    /// The claim checks epoch and `last_offset` of its lanes before any handler runs.
    LanesAtClaim,
    /// The advance checks the epoch of its lanes.
    EpochAtAdvance,
    /// The advance checks `last_offset = prev`.
    PrevAtAdvance,
    /// The advance runs in the transaction of the claim, or not at all.
    SameTransactionAtAdvance,
    /// An advance that changes fewer rows than lanes rolls back.
    AdvanceCountsRows,
    /// A lane is looked for among the versions of one slot of its positions, not among all that a snapshot keeps.
    LanesFoundBySlot,
    /// The lock of an intake's lane writes the slot that a build before slots has left.
    LockPutsSlotRight,
    /// Whoever locks several lane rows locks them in ascending order.
    LanesLockedInOrder,
    /// The ids of a claim are sorted by bytes.
    ClaimSorted,
    /// A lane is in at most one open transaction.
    LaneOrder,
    /// A release reserves its lane: no live transaction of it runs beside.
    ReleaseReservesLane,
    /// In a lane with due queues, releases come before live transactions, several to each, and those
    /// take no more events than one release.
    ReleaseDrains,
    /// Where parked events are at their limit, live transactions wait, and releases go on.
    ParkedLimitWaits,
    /// Handlers run in rounds over the heads of lanes: no event before an earlier one of its lane.
    RunsKeepLaneOrder,
    /// The watermark statement checks the old watermark and the epoch.
    WatermarkCas,
    /// The watermark statement checks every lane against what memory relies on.
    WatermarkChecksLanes,
    /// The watermark is the end of the settled prefix, not the highest offset seen.
    WatermarkIsPrefix,
    /// The watermark passes over offsets that never arrive.
    WatermarkPassesGaps,
    /// A resync raises the epoch.
    ResyncRaisesEpoch,
    /// An epoch is never issued twice: its low bits are random.
    UniqueEpochs,
    /// An unknown COMMIT outcome leads to a resync and spends no attempt.
    UnknownCommitResyncs,
    /// The lanes are validated while the partition is idle.
    IdleCheck,
    /// Resume at the smaller of Kafka's committed offset and the watermark.
    ResumeAtMinimum,
    /// The leader epoch of the last settled record is validated at each take-over, and compared with what is
    /// read below it.
    RecordValidated,
    /// A log that was seen to end below the watermark is not taken for the same one because it has grown.
    LogEndRemembered,
    /// An offset that this consumer has committed is no start: the database has lost its history.
    OwnOffsetIsNoStart,
    /// Kafka's offset follows the watermark that the database holds.
    KafkaFollowsWatermark,
    /// Whether an aggregate is held is read in the claim.
    HeldReadInClaim,
    /// A head that is parked in a transaction holds its followers in the same one.
    HeldInsideTransaction,
    /// Parked rows are written in the transaction of their batch.
    ParkInTransaction,
    /// Equal ids in one batch are made distinct before the claim.
    DistinctIds,
    /// A second event with the same id and other content is parked, not dropped.
    MismatchParks,
    /// Fingerprints are of a hash that nobody finds two contents for.
    StrongFingerprint,
    /// Prune spares parked ids.
    PruneSparesParked,
    /// Prune stays below the watermark.
    PruneBelowWatermark,
    /// Prune measures age by the database's clock.
    PruneByDatabaseClock,
    /// One pruner at a time, in bounded batches.
    PruneAlone,
    /// A duplicate at its own offset above its lane is torn, never settled.
    TornCheck,
    /// The look-up of duplicates reads the lanes again.
    DuplicatesRereadLanes,
    /// Sessions are read-only outside the runtime's own BEGIN.
    ReadOnlySession,
    /// A transaction in which a statement failed or was dropped half-way is rolled back.
    FailedStatementPoisons,
    /// The ids of events that a handler appends follow from the event that it handles.
    AppendedIdsDerived,
    /// What handlers queue is sent before anything that is awaited on the transaction.
    QueueSentBeforeAwait,
    /// What handlers queue is sent before their events are settled.
    QueueSentBeforeAdvance,
    /// Queued statements are run in the order in which they were queued.
    QueueKeepsOrder,
    /// A queued statement that fails is the failure of the event that queued it.
    QueueBlamesItsEvent,
    /// A handler may not run transaction verbs.
    VerbsRefused,
    /// A handler may not run what stays on its session when the transaction is over.
    SessionVerbsRefused,
    /// What a handler may have left on its session all the same is taken back before anybody else has it.
    SessionReset,
    /// A handler may not run what changes the inbox's own tables.
    InboxTablesRefused,
    /// Between the claim and the advance nobody else has changed rows of `inbox_events` or `inbox_lanes` in the
    /// transaction.
    InboxRowsCounted,
    /// An event at or below the last version of its aggregate is not run, where its route looks at versions.
    StaleSkipped,
    /// A version is written over the one that events were judged by, or the transaction is rolled back.
    VersionsCompared,
    /// A version that the process has written before is read again, unless the very next one is to be run behind it.
    VersionsReadInDoubt,
    /// An event behind a version that was not applied waits for it, where its route says so.
    GapWaits,
    /// With a version what waits for it is due, in the same transaction.
    GapsWoken,
    /// Skipping by the lanes compares leader epochs.
    SkipComparesLeaderEpoch,
    /// With unknown leader epochs at or above the watermark: claim; fresh at a passed offset is reuse.
    ClaimWhenEpochUnknown,
    /// With unknown leader epochs, offsets below the watermark are settled without a claim.
    SkipBelowWatermark,
    /// Lane count and lane rule are the database's; a change is a remap.
    LaneRuleStored,
    /// The scope of event ids is the database's; another one is refused.
    IdScopeStored,
    /// Lanes change only where none is ahead of the watermark.
    RemapOnlyDrained,
    /// A change of the lanes that waits is brought about by the partition's owner, under load too.
    RemapUnderLoad,
    /// The keys of parked events are made anew when the rule changes that they were made by.
    ParkedKeysFollowRule,
    /// An aggregate is type and id, where the type is known without decoding the payload.
    AggregateHasType,
    /// Queued items carry a local generation; work of an older one changes nothing.
    GenerationChecked,
    /// After a seek, deliveries are accepted only once it is confirmed.
    SeekConfirmed,
    /// A partition that was lost is let go at once and commits nothing.
    LostCommitsNothing,
    /// A drain ends at its deadline.
    DrainDeadline,
    /// A transaction has no more events than a drain has time for, as far as this process has seen; the
    /// first one has a single event.
    TransactionFitsDrain,
    /// Outages spend no attempt.
    OutageUncounted,
    /// Conflicts spend no attempt and retry with half the events.
    ConflictUncounted,
    /// A fault that one event alone meets again and again while others commit counts.
    RepeatedAloneCounts,
    /// A lock time-out counts only where another event of the same handler was applied since.
    LockMetBesideItsHandler,
    /// An event that cannot be parked as it is, again and again while others commit, is parked bare.
    RefusedIsParkedBare,
    /// A statement of a handler that runs into the runtime's own limit is the handler's failure.
    StatementTimeoutCounts,
    /// A COMMIT that the server refused is rolled back for certain, whatever the error: it is no unknown
    /// outcome, and counts where one event alone meets it again and again.
    RefusedCommitCounts,
    /// A session that breaks under a handler is no outage while another one works.
    BrokenSessionProbed,
    /// An outage that a function raised in its own words is no outage.
    RaisedIsNoOutage,
    /// What is asked of a server has a deadline by the client's clock, too.
    ClientDeadline,
    /// A session whose prepared statements do not fit the tables any more is closed.
    StaleSessionClosed,
    /// A session that keeps no statements, as behind a pooler, is sent none with a name.
    UnnamedBehindPooler,
    /// The careful run makes deferred constraints immediate before it releases a savepoint.
    ConstraintsImmediate,
    /// A fault before the first handler of a transaction counts against none of its events.
    FaultsBeforeHandlersUncounted,
    /// Transactions that are given up are ended: they hold ids that the partition's next owner waits for.
    GivenUpAborted,
    /// Each attempt of a handler has a deadline.
    AttemptDeadline,
    /// A handler that panics has failed.
    PanicIsFailure,
    /// After a COMMIT the connection is out of any transaction, else a handler has failed.
    CommitLeavesTransaction,
    /// One Kafka commit is in flight at a time, and none goes backwards.
    OneCommitInFlight,
    /// Intake never waits for a lane: above the byte limit the partition is paused.
    IntakePauses,
    /// A new consumer's start is written before its first delivery.
    StartIsWritten,
    /// A partition that was added after the consumer's first start is read from its beginning.
    AddedFromStart,
    /// Inbox rows are scoped to their consumer.
    ConsumerScope,
    /// A table that has lost a unique index, or whose rows are hidden or not kept, is refused.
    TablesAreVerified,
    /// A signed request is known for as long as it can be sent once more.
    ReplayIsKnown,
    /// A replica is refused.
    ReplicaRefused,
    /// A partition that a person skips or retires has a new epoch.
    CorrectionRaisesEpoch,
    /// A skip raises lanes and lowers none.
    SkipOnlyRaises,
    /// A lane that a skip raised has no leader epoch: it knows nothing of the records below.
    SkipForgetsLeaderEpoch,
    /// A release marks what it runs before any handler does, so that a handler's own COMMIT leaves no
    /// due event whose effect is there.
    ReleaseMarks,
    /// A release is closed by the advance of its lane, which moves nothing and checks the epoch.
    ReleaseFenced,
    /// A queue is run in its order.
    ReleaseInOrder,
    /// The order of a queue is that of its offsets, whatever numbers its rows have.
    QueueByOffset,
    /// What follows a released event becomes due with its removal.
    ReleasePromotes,
    /// Events leave their queue in the transaction that ran them, exactly those.
    ReleaseRemoves,
    /// The first failure of a release ends its run: nothing behind it is run.
    ReleaseStopsAtFailure,
    /// An event whose id is another one than it was parked with is claimed before it is run.
    ReleaseClaimsNewIds,
    /// Copies of one event whose id is another's have one effect when they are released.
    ReleaseSettlesCopies,
    /// A transaction that would park more than a partition may hold is rolled back.
    ParkedLimitCounted,
    /// Transactions that park in one partition count one after the other.
    ParkedLimitLocked,
    /// A question for a topic's id that failed says nothing of the topic: it is asked again.
    TopicIdAskedAgain,
    /// A partition that clocks and offsets show to stand still stands still by name.
    StandstillSeenFromOutside,
    /// After an owner that ended without a word the first events of each lane are written down before they run.
    UncleanEndIsMarked,
    /// An event that a process ended with is run in a process of its own before it is run again.
    SuspectIsTried,
    /// Nothing else of the process runs beside an event that a process ended with.
    SuspectRunsAlone,
    /// After an owner that ended without a word events are written down before a codec fetches for them, too: what it
    /// fetches it parses, which may end the process.
    FetchIsMarked,
    /// A database that is silent while an event is tried in a process of its own says nothing against the event.
    TrialHasDeadlines,
    /// What runs alone runs alone of all events, whether they come by Kafka or by HTTP.
    OneAside,
    /// A partition of a topic that is not configured is not taken, whatever the group gives.
    UnconfiguredIsReturned,
    /// A member joins its group anew while what that gives does not fit what is configured.
    MisfitRejoins,
    /// A partition whose topic is another one than it was taken over with is taken over anew.
    TopicIdWatched,
    /// A batch below the watermark that cannot be read is passed over by another take-over.
    UnreadBelowIsPassed,
    /// A row of the outbox is marked by its number and its event's id: a number is given twice where the
    /// database goes back.
    MarkNamesEvent,
    /// A turn of a relay has a token beside its number.
    TurnHasToken,
    /// A relay that finds rows gone that it has sent gives its turn up, and takes another.
    MissingRowsEndTurn,
    /// A lease without a sign of life is over when it has lasted as long as it can, whatever the database's
    /// clock says.
    SilentLeaseIsOver,
    /// Each column of a row of the outbox is read by itself: one that cannot be read spoils no other row.
    ColumnsReadAlone,
    /// What is written on a row that is set aside is made of characters that every database takes.
    ErrorIsWritable,
    /// The outbox that a relay finds is the one of the schema that is meant.
    OutboxOfItsSchema,
    /// A relay that cannot look at its rows stands still by name.
    FailedLookIsTold,
    /// A record to a partition without a leader enters no transaction.
    LeaderlessWaits,
    /// An answer from before a relay gave shards away does not make them its own again.
    GivenIsGiven,
    /// A relay notices that another file is where its SQLite file was.
    FileIsTheSame,
    /// What is held though nothing before it is set aside any more goes.
    OrphansGo,
    /// Looks begin higher only after everybody has ended who may still append rows below.
    FloorWaitsForAppenders,
    /// On a new session looks begin at the start: behind it may be a server that gives the same numbers once more.
    FloorOfItsSession,
    /// Rows whose topic is missing go by themselves when it is there.
    RowsAwaitTopic,
    /// What every event of a destination meets spends no attempt of any.
    OutageSpendsNoAttempt,
    /// A destination is called while the turn is certainly ours.
    CallsNeedTurn,
    /// Without transactions an aggregate has records of one topic only on their way.
    TopicsInTurn,
    /// A relay sends nothing while the next row of the outbox gets a number that is not above all others.
    SequenceIsAhead,
    /// A relay sends nothing while the sequence can give a later row a lower number, or that of a row that was deleted.
    SequenceInOrder,
    /// A row of an adopted table that moves to another partition is not copied again.
    MovedIsNoInsert,
    /// A record has the time of sending: by the time of its event Kafka would delete it unread, or refuse it.
    TimeOfSending,
    /// A relay that is fenced again and again while it has the turn says so.
    SharedIdIsTold,
    /// A row that is not to be sent before a time waits for it, and what follows it of its aggregate waits behind it.
    DelayKept,
    /// A row that waits for another attempt is not tried before its time.
    RetryAwaitsTime,
    /// A row that waits for another attempt behind one of its aggregate that was set aside is not tried.
    RetryKeepsPlace,
    /// With the delivery of a row that waited for another attempt goes what is held behind it.
    ReleaseAfterDelivery,
    /// What became of another attempt is booked by whoever has the turn, and by nobody else.
    RetryFenced,
    /// Who has failed rows sent once more or given up is written with the change itself.
    ActsAreWritten,
}

impl Rule {
    /// Whether the rule is on. Always true without the feature `ablation`.
    #[inline]
    pub fn on(self) -> bool {
        #[cfg(feature = "ablation")]
        return !switched_off(self);
        #[cfg(not(feature = "ablation"))]
        true
    }
}

#[cfg(feature = "ablation")]
fn switched_off(rule: Rule) -> bool {
    static OFF: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let off = OFF.get_or_init(|| std::env::var("INBOX_RULES_OFF").unwrap_or_default());
    !off.is_empty() && off.split(',').any(|name| name == format!("{rule:?}"))
}
