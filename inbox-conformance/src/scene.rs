//! The stage of a scenario: a consumer, its partition, a session and an administrator.

use std::{sync::Arc, time::Duration};

use inbox_engine::internal::{
    Lane, LaneMove, LeaderEpoch, LogPoint, LogRange, NextOffset, Offset, ParkReason, Standstill,
    Start,
};
use outbox_core::{IdScope, ReadRules, Source, TopicPartition};
use uuid::Uuid;

use super::Probe;
use inbox_store::internal::port::{
    ClaimRequest, ClaimResult, Lanes, OpenError, Owner, Parking, Placement, Scope, TakeOver,
    TakeOverError, Taken, TxLimits, WatermarkMove,
};

/// What live transactions of the suite may take.
pub(super) const LIMITS: TxLimits = TxLimits {
    statement_timeout: Duration::from_secs(20),
    lock_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(20),
};

/// A record with the key `k` and the tenant `t`.
pub(super) const RECORD: &str = r#"{"timestamp_ms":null,"key":{"text":"k"},"payload":{"text":"{}"},
    "headers":[["tenant",{"text":"t"}]]}"#;

/// Lanes of a scene's partition.
pub(super) const LANES: u16 = 4;

pub(super) struct Scene<DB: Probe> {
    pub(super) settings: DB::Settings,
    pub(super) session: DB::Connection,
    pub(super) admin: DB::Connection,
    pub(super) request: TakeOver,
    /// The transaction that is open.
    pub(super) tx: String,
}

impl<DB: Probe> Scene<DB> {
    /// A migrated database and a consumer of this name, which owns nothing yet.
    pub(super) async fn new(settings: DB::Settings, consumer: &str) -> Self {
        let mut session = open::<DB>(&settings).await;
        DB::migrate(&mut session).await.expect("the migrations failed");
        let admin = DB::administer(&settings).await.expect("the administrator cannot connect");
        Self { settings, session, admin, request: request(consumer), tx: String::new() }
    }

    pub(super) async fn session(&self) -> DB::Connection {
        open::<DB>(&self.settings).await
    }

    /// Takes the partition over, as this scene's process.
    pub(super) async fn take_over(&mut self) -> Taken {
        let taken = DB::take_over(&mut self.session, &self.request).await;
        assert!(!DB::in_transaction(&self.session), "a take-over left its transaction open");
        taken.expect("the take-over failed")
    }

    /// Takes another partition of the topic over.
    pub(super) async fn take_over_of(&mut self, partition: i32) -> Taken {
        self.request.partition.partition = partition;
        self.take_over().await
    }

    /// Takes the partition over and expects that it stands still.
    pub(super) async fn stand_still(&mut self) -> Standstill {
        let answer = DB::take_over(&mut self.session, &self.request).await;
        assert!(!DB::in_transaction(&self.session), "a take-over left its transaction open");
        match answer.expect_err("the take-over should not have succeeded") {
            TakeOverError::Standstill(reason) => reason,
            TakeOverError::Database(error) => panic!("the take-over failed: {error}"),
        }
    }

    /// Begins and claims.
    pub(super) async fn claim(&mut self, scope: &Scope, claim: &ClaimRequest) -> ClaimResult {
        claim_on::<DB>(&mut self.session, scope, claim).await
    }

    /// A whole transaction: claims the ids and moves the lanes.
    pub(super) async fn settle(&mut self, scope: &Scope, claim: &ClaimRequest) {
        let claimed = self.claim(scope, claim).await;
        let moved = DB::advance(&mut self.session, scope, &claimed.tx, &claim.lanes, None).await;
        assert_eq!(moved.expect("the advance failed"), claim.lanes.len() as u64);
        DB::commit(&mut self.session).await.expect("the commit failed");
    }

    pub(super) async fn park(&mut self, scope: &Scope, claim: &ClaimRequest, rows: &[Parking]) {
        let claimed = self.claim(scope, claim).await;
        DB::park_alone(&mut self.session, scope).await.expect("the lock");
        DB::park(&mut self.session, scope, rows).await.expect("parking failed");
        let moved = DB::advance(&mut self.session, scope, &claimed.tx, &claim.lanes, None).await;
        assert_eq!(moved.expect("the advance failed"), claim.lanes.len() as u64);
        DB::commit(&mut self.session).await.expect("the commit failed");
    }

    pub(super) async fn rollback(&mut self) {
        DB::rollback(&mut self.session).await.expect("the rollback failed");
        assert!(!DB::in_transaction(&self.session), "a rollback left its transaction open");
    }

    /// Closes the session hard and opens a new one.
    pub(super) async fn reopen(&mut self) {
        let fresh = self.session().await;
        DB::close_hard(std::mem::replace(&mut self.session, fresh)).await;
    }

    /// Written together with others, and alone: both answer the same.
    pub(super) async fn watermark(&mut self, scope: &Scope, change: &WatermarkMove) -> bool {
        let together = self.watermarks(&[(*scope, change.clone())]).await[0];
        let old = if together { change.new } else { change.old };
        let again = WatermarkMove { old, ..change.clone() };
        let alone = DB::write_watermark(&mut self.session, scope, &again).await;
        assert_eq!(alone.expect("the watermark statement failed"), together, "alone, as together");
        together
    }

    pub(super) async fn watermarks(&mut self, changes: &[(Scope, WatermarkMove)]) -> Vec<bool> {
        let written = DB::write_watermarks(&mut self.session, changes).await;
        assert!(!DB::in_transaction(&self.session), "watermarks left their transaction open");
        written.expect("the statement of several watermarks failed")
    }

    pub(super) async fn run(&mut self, sql: &str) -> u64 {
        DB::run(&mut self.admin, sql).await.expect("the administrator's statement failed")
    }

    pub(super) async fn number(&mut self, sql: &str) -> i64 {
        DB::number(&mut self.admin, sql).await.expect("the administrator's question failed")
    }

    /// `last_offset` of a lane, as the database has it.
    pub(super) async fn last(&mut self, scope: &Scope, lane: u16) -> i64 {
        let partition = scope.partition_ref;
        let sql = format!(
            "SELECT last_offset FROM inbox_lanes WHERE partition_ref = {partition} AND lane = {lane}"
        );
        self.number(&sql).await
    }

    /// How many inbox rows the consumer has.
    pub(super) async fn events(&mut self, scope: &Scope) -> i64 {
        let consumer = scope.consumer_ref;
        self.number(&format!("SELECT count(*) FROM inbox_events WHERE consumer_ref = {consumer}"))
            .await
    }
}

async fn open<DB: Probe>(settings: &DB::Settings) -> DB::Connection {
    match DB::open(settings).await {
        Ok(conn) => conn,
        Err(OpenError::Outage(sentence) | OpenError::Refused(sentence)) => panic!("{sentence}"),
    }
}

pub(super) async fn claim_on<DB: Probe>(
    conn: &mut DB::Connection,
    scope: &Scope,
    claim: &ClaimRequest,
) -> ClaimResult {
    try_claim_on::<DB>(conn, scope, claim).await.expect("the claim failed")
}

/// Begins and claims; the claim may be refused.
pub(super) async fn try_claim_on<DB: Probe>(
    conn: &mut DB::Connection,
    scope: &Scope,
    claim: &ClaimRequest,
) -> Result<ClaimResult, sqlx::Error> {
    DB::begin(conn, &LIMITS).await.expect("BEGIN failed");
    DB::claim(conn, scope, claim).await
}

/// So many lanes, by the order key at this place.
pub(super) fn lanes(count: u16, order: &str) -> Lanes {
    let place = |place: &str| place.parse::<Source>().expect("a place in a record");
    let mut rules = ReadRules::new(place("header:id"), place("header:type"));
    rules.aggregate_id = place(order).into();
    Lanes { count, placement: Arc::new(Placement::of(&rules)) }
}

/// What a process asks for that starts at the beginning of a log of 1,000 records.
pub(super) fn request(consumer: &str) -> TakeOver {
    TakeOver {
        consumer: consumer.to_owned(),
        partition: TopicPartition { topic: consumer.into(), partition: 0 },
        topic_id: [7; 16],
        partitions: Some(8),
        owner: Owner { name: "host/1/main".into(), instance_id: None, incarnation: Uuid::now_v7() },
        lanes: lanes(LANES, "key"),
        id_scope: IdScope::Consumer,
        committed: None,
        mark: None,
        log: LogRange { start: NextOffset(0), end: NextOffset(1_000) },
        held: None,
        start: Start::Earliest,
    }
}

pub(super) fn id(number: u8) -> [u8; 16] {
    let mut id = [0xA0; 16];
    id[15] = number;
    id
}

/// The id as a literal of this database.
pub(super) fn literal<DB: Probe>(id: [u8; 16]) -> String {
    let (before, after) = DB::UUID_HEX;
    format!("{before}{}{after}", Uuid::from_bytes(id).simple())
}

pub(super) fn fingerprint(content: u8) -> [u8; 16] {
    [content; 16]
}

pub(super) fn aggregate(number: u8) -> [u8; 16] {
    let mut key = [0xAA; 16];
    key[0] = number;
    key
}

/// Lane `lane` from `prev` to `new`.
pub(super) const fn step(lane: u16, prev: i64, new: i64) -> LaneMove {
    LaneMove {
        lane: Lane(lane),
        prev: Offset(prev),
        new: Offset(new),
        leader_epoch: LeaderEpoch(3),
    }
}

/// Claims events `(number, offset)`, each with its number as content and aggregate.
pub(super) fn claim_of(events: &[(u8, i64)], lanes: &[LaneMove]) -> ClaimRequest {
    let mut aggregates: Vec<_> = events.iter().map(|(number, _)| aggregate(*number)).collect();
    aggregates.dedup();
    ClaimRequest {
        ids: events.iter().map(|(number, _)| id(*number)).collect(),
        fingerprints: events.iter().map(|(number, _)| fingerprint(*number)).collect(),
        offsets: events.iter().map(|(_, offset)| *offset).collect(),
        aggregates,
        lanes: lanes.to_vec(),
        expects_new: false,
    }
}

/// Event `number` at `offset`, to be parked in lane 0.
pub(super) fn parking(number: u8, offset: i64, reason: ParkReason) -> Parking {
    Parking {
        lane: Lane(0),
        aggregate: aggregate(number),
        id: id(number),
        fingerprint: fingerprint(number),
        offset: Offset(offset),
        leader_epoch: LeaderEpoch(3),
        reason,
        attempts: 2,
        delay: None,
        event_type: "Counted".into(),
        aggregate_text: format!("counter/{number}"),
        errors: "[]".into(),
        record: RECORD.into(),
    }
}

/// How many lanes an advance moved; an error moved none.
pub(super) fn moved(answer: Result<u64, sqlx::Error>) -> u64 {
    answer.unwrap_or_default()
}

/// From `old` to `new`, relying on every lane being where `expected` says.
pub(super) fn watermark(old: i64, new: i64, expected: &[i64]) -> WatermarkMove {
    WatermarkMove {
        old: NextOffset(old),
        new: NextOffset(new),
        leader_epoch: LeaderEpoch(3),
        record: LogPoint { next: NextOffset(new), leader_epoch: LeaderEpoch(3) },
        expected: expected.to_vec(),
    }
}
