//! Versions of aggregates: what is at or below the last one that was applied is not run.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use inbox_consumer::testing::{Aggregate, HandlerTest, OutboxEvent, Outcome, conformance::Probe};
use inbox_consumer::{
    BatchHandler, Event, GapEnd, Handler, HandlerError, HandlerResult, Routes, Tx, VersionPolicy,
    config::Unwanted,
};
use sqlx::{Postgres, Sqlite};
use tests::Services;

/// What differs between the databases.
pub trait Kit: Probe {
    const TABLES: &str;
    const EFFECTS: &str;
    async fn bench() -> HandlerTest<Self>;
    fn write(n: i64, tx: &mut Tx<'_, Self>)
    -> impl Future<Output = Result<(), sqlx::Error>> + Send;
    /// Writes the last version that was applied before the transaction.
    fn write_before(tx: &mut Tx<'_, Self>) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

const WRITE_BEFORE: &str =
    "INSERT INTO befores (version) SELECT coalesce(max(version), 0) FROM inbox_versions";

impl Kit for Postgres {
    const TABLES: &str =
        "CREATE TABLE effects (at bigint GENERATED ALWAYS AS IDENTITY, n bigint NOT NULL)";
    const EFFECTS: &str = "SELECT string_agg(n::text, ' ' ORDER BY at) FROM effects";

    async fn bench() -> HandlerTest<Self> {
        HandlerTest::postgres(&Services::from_env().postgres).await.unwrap()
    }

    async fn write(n: i64, tx: &mut Tx<'_, Self>) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO effects (n) VALUES ($1)").bind(n).execute(&mut *tx).await.map(drop)
    }

    async fn write_before(tx: &mut Tx<'_, Self>) -> Result<(), sqlx::Error> {
        sqlx::query(WRITE_BEFORE).execute(&mut *tx).await.map(drop)
    }
}

impl Kit for Sqlite {
    const TABLES: &str = "CREATE TABLE effects (at INTEGER PRIMARY KEY AUTOINCREMENT, n INTEGER)";
    const EFFECTS: &str =
        "SELECT group_concat(n, ' ') FROM (SELECT n FROM effects ORDER BY at LIMIT -1)";

    async fn bench() -> HandlerTest<Self> {
        HandlerTest::sqlite().await.unwrap()
    }

    async fn write(n: i64, tx: &mut Tx<'_, Self>) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO effects (n) VALUES (?1)").bind(n).execute(&mut *tx).await.map(drop)
    }

    async fn write_before(tx: &mut Tx<'_, Self>) -> Result<(), sqlx::Error> {
        sqlx::query(WRITE_BEFORE).execute(&mut *tx).await.map(drop)
    }
}

/// Writes the version that it was called with; fails so many times first, after its effect.
#[derive(Clone, Default)]
pub struct Write {
    pub failures: Arc<AtomicUsize>,
}

impl<DB: Kit> Handler<DB> for Write {
    type Event = i64;

    async fn handle(&self, event: &Event<i64>, tx: &mut Tx<'_, DB>) -> HandlerResult {
        DB::write(event.payload, tx).await?;
        if self.failures.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(HandlerError::retry("flaky"));
        }
        Ok(())
    }
}

/// A run at once; keeps what it was called with.
#[derive(Clone, Default)]
pub struct WriteAll {
    pub calls: Arc<Mutex<Vec<Vec<i64>>>>,
}

impl<DB: Kit> BatchHandler<DB> for WriteAll {
    type Event = i64;

    async fn handle(&self, events: &[Event<i64>], tx: &mut Tx<'_, DB>) -> HandlerResult {
        self.calls.lock().unwrap().push(events.iter().map(|event| event.payload).collect());
        for event in events {
            DB::write(event.payload, tx).await?;
        }
        Ok(())
    }
}

pub const TYPE: &str = "Renamed";

/// An event of the aggregate `a` that brings it to this version.
pub fn to(version: i64) -> OutboxEvent {
    of("a", version)
}

pub fn of(aggregate: &str, version: i64) -> OutboxEvent {
    unversioned(aggregate, version).with_aggregate_version(version)
}

pub fn unversioned(aggregate: &str, n: i64) -> OutboxEvent {
    OutboxEvent::new(TYPE, &Aggregate::new("Customer", aggregate).unwrap(), &n).unwrap()
}

/// One whose payload no handler takes.
pub fn unreadable(version: i64) -> OutboxEvent {
    let aggregate = Aggregate::new("Customer", "a").unwrap();
    OutboxEvent::new(TYPE, &aggregate, &"no number").unwrap().with_aggregate_version(version)
}

fn stale<DB: Kit>() -> Routes<DB> {
    Routes::default().on(TYPE, Write::default()).versions(TYPE, VersionPolicy::stale())
}

pub async fn start<DB: Kit>(routes: Routes<DB>) -> HandlerTest<DB> {
    let mut bench = DB::bench().await;
    bench.execute(DB::TABLES).await.unwrap();
    bench.handle(routes).await.unwrap();
    bench
}

pub async fn effects<DB: Kit>(bench: &mut HandlerTest<DB>) -> String {
    DB::text(bench.connection(), DB::EFFECTS).await.unwrap().unwrap_or_default()
}

/// The last versions that the database has.
pub async fn versions<DB: Kit>(bench: &mut HandlerTest<DB>) -> (i64, i64) {
    let rows = bench.number("SELECT count(*) FROM inbox_versions").await.unwrap();
    let sum = "SELECT CAST(coalesce(sum(version), 0) AS bigint) FROM inbox_versions";
    (rows, bench.number(sum).await.unwrap())
}

async fn a_late_event_is_settled_and_not_run<DB: Kit>() {
    let mut bench = start::<DB>(stale()).await;
    let third = to(3);
    for event in [&to(1), &third, &to(2), &to(3), &of("b", 1), &to(4)] {
        assert_eq!(bench.deliver(event).await.unwrap(), Outcome::Applied, "it has an inbox row");
    }
    assert_eq!(effects(&mut bench).await, "1 3 1 4");
    // What is there already is a duplicate, whatever its version is.
    assert_eq!(bench.deliver(&third).await.unwrap(), Outcome::Duplicate);
    assert_eq!(bench.number("SELECT count(*) FROM inbox_events").await.unwrap(), 6);
    assert_eq!(versions(&mut bench).await, (2, 5));
    // Its row is gone, and its version knows it.
    assert_eq!(bench.sent_again_after_retention(&to(5)).await.unwrap()[1], Outcome::Applied);
    assert_eq!(effects(&mut bench).await, "1 3 1 4 5");
    bench.close().await.unwrap();
}

/// Those of one transaction see each other, whether their handler takes one or all.
async fn events_of_one_transaction_see_each_other<DB: Kit>() {
    let mut bench = start::<DB>(stale()).await;
    let all = [to(1), to(3), to(2), of("b", 2), to(5), of("b", 1), to(4), to(6)];
    assert_eq!(bench.run(&all).await.unwrap(), vec![Outcome::Applied; 8]);
    assert_eq!(effects(&mut bench).await, "1 3 2 5 6");
    bench.close().await.unwrap();

    let handler = WriteAll::default();
    let routes = Routes::default().on_batch(TYPE, handler.clone());
    let mut bench = start::<DB>(routes.versions(TYPE, VersionPolicy::stale())).await;
    bench.run(&all).await.unwrap();
    assert_eq!(effects(&mut bench).await, "1 3 2 5 6");
    assert_eq!(handler.calls.lock().unwrap().concat(), [1, 3, 2, 5, 6]);
    bench.run(&[to(5), to(6)]).await.unwrap();
    assert_eq!(handler.calls.lock().unwrap().concat().len(), 5, "with nothing it is not called");
    bench.close().await.unwrap();
}

/// An event that is parked has changed nothing: what comes behind it is held, not stale.
async fn a_parked_event_makes_no_other_stale<DB: Kit>() {
    for routes in [stale(), {
        let routes = Routes::default().on_batch(TYPE, WriteAll::default());
        routes.versions(TYPE, VersionPolicy::stale())
    }] {
        let mut bench = start::<DB>(routes).await;
        let all = [to(1), of("b", 1), unreadable(3), to(2), of("b", 2), of("b", 1)];
        let outcomes = bench.run(&all).await.unwrap();
        assert_eq!(outcomes.each_reason(), ["", "", "undecodable", "follower", "", ""]);
        assert_eq!(effects(&mut bench).await, "1 1 2");
        assert_eq!(versions(&mut bench).await, (2, 3));
        assert_eq!(bench.deliver(&to(1)).await.unwrap().reason(), "follower");
        bench.close().await.unwrap();
    }
}

/// What the configuration passes over is behind, as if it had been applied.
async fn an_ignored_event_is_behind<DB: Kit>() {
    let mut bench = DB::bench().await;
    bench.execute(DB::TABLES).await.unwrap();
    bench.configure(|config| config.events.undecodable = Unwanted::Ignore);
    bench.handle(stale()).await.unwrap();
    bench.run(&[to(1), unreadable(3), to(2), to(4)]).await.unwrap();
    assert_eq!(effects(&mut bench).await, "1 4");
    bench.close().await.unwrap();
}

/// A handler that takes a run at once decodes all of it first: what is before the ignored one is run all the same.
async fn an_ignored_event_is_not_behind_those_before_it<DB: Kit>() {
    let hour = std::time::Duration::from_hours(1);
    for policy in [VersionPolicy::stale(), VersionPolicy::gap(hour, GapEnd::Park).first(1)] {
        let mut bench = DB::bench().await;
        bench.execute(DB::TABLES).await.unwrap();
        bench.configure(|config| config.events.undecodable = Unwanted::Ignore);
        let routes = Routes::default().on_batch(TYPE, WriteAll::default());
        bench.handle(routes.versions(TYPE, policy)).await.unwrap();
        // The first transaction of a process has one event.
        bench.deliver(&to(1)).await.unwrap();
        let all = [to(2), unreadable(3), of("b", 1), to(3), to(4), unreadable(5), to(6)];
        bench.run(&all).await.unwrap();
        assert_eq!(effects(&mut bench).await, "1 2 1 4 6");
        assert_eq!(versions(&mut bench).await, (2, 7));
        assert_eq!(bench.number("SELECT count(*) FROM inbox_parked").await.unwrap(), 0);
        bench.close().await.unwrap();
    }
}

/// A transaction that is rolled back takes its versions along, in each way to run events.
async fn a_failed_attempt_changes_no_version<DB: Kit>() {
    for failures in 1..=3 {
        let handler = Write { failures: Arc::new(failures.into()) };
        let routes = Routes::default().on(TYPE, handler);
        let mut bench = start::<DB>(routes.versions(TYPE, VersionPolicy::stale())).await;
        let all = [to(1), to(3), to(2), of("b", 1), to(4), of("b", 0)];
        assert_eq!(bench.run(&all).await.unwrap(), vec![Outcome::Applied; 6], "{failures}");
        let effects = effects(&mut bench).await;
        assert_eq!(effects.replace(' ', "").len(), 4, "{effects}");
        assert_eq!(versions(&mut bench).await, (2, 5));
        bench.close().await.unwrap();
    }
}

/// The version commits with the effect or not at all, and a transaction of unknown outcome is looked up.
async fn a_crash_keeps_effect_and_version_together<DB: Kit>() {
    let mut bench = start::<DB>(stale()).await;
    assert_eq!(bench.crashed_before_commit(&to(2)).await.unwrap(), Outcome::Applied);
    assert_eq!(bench.crashed_after_commit(&to(4)).await.unwrap(), Outcome::Applied);
    bench.deliver(&to(3)).await.unwrap();
    bench.deliver(&to(5)).await.unwrap();
    assert_eq!(effects(&mut bench).await, "2 4 5");
    let again = bench.redelivered_after_retention(&to(6)).await.unwrap();
    assert_eq!(again, [Outcome::Applied, Outcome::Duplicate]);
    assert_eq!(effects(&mut bench).await, "2 4 5 6");
    bench.close().await.unwrap();
}

/// Without a policy nothing is looked at, and nothing is written.
async fn without_a_policy_there_are_no_versions<DB: Kit>() {
    let mut bench = start::<DB>(Routes::default().on(TYPE, Write::default())).await;
    bench.run(&[to(2), to(1), to(2)]).await.unwrap();
    assert_eq!(effects(&mut bench).await, "2 1 2");
    assert_eq!(versions(&mut bench).await, (0, 0));
    bench.close().await.unwrap();
}

/// Types with a policy share the versions of their aggregate. One without is none of its business.
async fn types_of_one_aggregate_share_its_version<DB: Kit>() {
    let routes = stale()
        .on("Moved", Write::default())
        .versions("Moved", VersionPolicy::stale())
        .on("Called", Write::default());
    let mut bench = start::<DB>(routes).await;
    let customer = Aggregate::new("Customer", "a").unwrap();
    let event = |event_type: &str, n: i64| {
        OutboxEvent::new(event_type, &customer, &n).unwrap().with_aggregate_version(n)
    };
    bench.deliver(&to(1)).await.unwrap();
    bench.deliver(&event("Moved", 3)).await.unwrap();
    bench.deliver(&to(2)).await.unwrap();
    bench.run(&[event("Called", 1), event("Called", 9), event("Moved", 4), to(3)]).await.unwrap();
    assert_eq!(effects(&mut bench).await, "1 3 1 9 4");
    bench.close().await.unwrap();
}

async fn an_aggregate_begins_with_its_first_version<DB: Kit>() {
    let routes = Routes::default().on(TYPE, Write::default());
    let mut bench = start::<DB>(routes.versions(TYPE, VersionPolicy::stale().first(10))).await;
    bench.run(&[to(9), of("b", 12), to(10), of("b", 11)]).await.unwrap();
    assert_eq!(effects(&mut bench).await, "12 10");
    bench.close().await.unwrap();
}

async fn an_event_without_a_version_is_run_or_parked<DB: Kit>() {
    let mut bench = start::<DB>(stale()).await;
    bench.run(&[to(2), unversioned("a", 7), to(1)]).await.unwrap();
    assert_eq!(effects(&mut bench).await, "2 7");
    bench.close().await.unwrap();

    let routes = Routes::default().on(TYPE, Write::default());
    let mut bench = start::<DB>(routes.versions(TYPE, VersionPolicy::stale().required())).await;
    let outcomes = bench.run(&[to(2), unversioned("a", 7), to(3)]).await.unwrap();
    assert_eq!(outcomes.each_reason(), ["", "rejected", "follower"]);
    assert!(outcomes[1].error().contains("no aggregate version"), "{:?}", outcomes[1]);
    bench.close().await.unwrap();
}

/// A parked event is judged when it is released: meanwhile its aggregate may have gone on, as where its key has
/// changed. What has gone by then leaves its queue without its handler.
async fn a_parked_event_is_judged_at_its_release<DB: Kit>() {
    let handler = Write { failures: Arc::new(1.into()) };
    let routes = Routes::default().on(TYPE, handler);
    let mut bench = DB::bench().await;
    bench.execute(DB::TABLES).await.unwrap();
    bench.configure(|config| config.retry.attempts_max = 1);
    bench.handle(routes.versions(TYPE, VersionPolicy::stale())).await.unwrap();
    let outcomes = bench.run(&[to(2), to(3), to(4)]).await.unwrap();
    assert_eq!(outcomes.each_reason(), ["exhausted", "follower", "follower"]);
    assert_eq!(versions(&mut bench).await, (0, 0));
    bench.deliver(&of("b", 1)).await.unwrap();
    // Whatever the key of `a` is: the row of `b` is made that of `a`, and two were applied.
    let moved =
        format!("UPDATE inbox_versions SET version = 3, aggregate_key = {}", key_of_a::<DB>());
    bench.execute(&moved).await.unwrap();
    let released =
        "UPDATE inbox_parked SET intent = 'release', intent_by = 'anna' WHERE reason = 'exhausted'";
    assert_eq!(bench.execute(released).await.unwrap(), 1);
    for _ in 0..2_000 {
        if bench.number("SELECT count(*) FROM inbox_parked").await.unwrap() == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(effects(&mut bench).await, "1 4");
    assert_eq!(versions(&mut bench).await, (1, 4));
    assert_eq!(bench.number("SELECT count(*) FROM inbox_events WHERE parked").await.unwrap(), 0);
    bench.close().await.unwrap();
}

/// A process knows the version that it has written, and reads it no more. Another one may go on from there, as with a
/// second topic.
async fn what_another_process_has_applied_is_stale<DB: Kit>() {
    let mut bench = start::<DB>(stale()).await;
    bench.deliver(&to(1)).await.unwrap();
    assert_eq!(bench.execute("UPDATE inbox_versions SET version = 2").await.unwrap(), 1);
    bench.deliver(&to(2)).await.unwrap();
    assert_eq!(effects(&mut bench).await, "1");
    bench.deliver(&to(3)).await.unwrap();
    assert_eq!(bench.execute("UPDATE inbox_versions SET version = 9").await.unwrap(), 1);
    bench.run(&[to(8), to(4), to(10)]).await.unwrap();
    assert_eq!(effects(&mut bench).await, "1 3 10");
    assert_eq!(bench.execute("DELETE FROM inbox_versions").await.unwrap(), 1);
    bench.deliver(&to(11)).await.unwrap();
    assert_eq!(effects(&mut bench).await, "1 3 10 11");
    assert_eq!(versions(&mut bench).await, (1, 11));
    bench.close().await.unwrap();
}

/// Nobody waits for what another process has applied.
async fn a_version_is_read_before_anything_waits_for_it<DB: Kit>() {
    let hour = std::time::Duration::from_hours(1);
    let routes = Routes::default().on(TYPE, Write::default());
    let policy = VersionPolicy::gap(hour, GapEnd::Park).first(1);
    let mut bench = start::<DB>(routes.versions(TYPE, policy)).await;
    let second = to(2);
    assert_eq!(bench.deliver(&second).await.unwrap().reason(), "gap");
    // Here and below: what another process leaves that has run it behind the first.
    for change in
        ["DELETE FROM inbox_parked", "UPDATE inbox_events SET parked = false WHERE parked"]
    {
        assert_eq!(bench.execute(change).await.unwrap(), 1, "{change}");
    }
    bench.deliver(&to(1)).await.unwrap();
    assert_eq!(bench.execute("UPDATE inbox_versions SET version = 2").await.unwrap(), 1);
    let outcomes = bench.run(&[second, to(3)]).await.unwrap();
    assert_eq!(outcomes, [Outcome::Duplicate, Outcome::Applied]);
    assert_eq!(effects(&mut bench).await, "1 3");
    bench.close().await.unwrap();
}

/// SHA-256 over `Customer` and `a`, each behind its length.
fn key_of_a<DB: Kit>() -> String {
    let (before, behind) = DB::BYTES_HEX;
    format!("{before}72162d59c7072159af54840a2e0ca2f8{behind}")
}

pub trait Reasons {
    fn each_reason(&self) -> Vec<&str>;
}

impl Reasons for Vec<Outcome> {
    fn each_reason(&self) -> Vec<&str> {
        self.iter().map(Outcome::reason).collect()
    }
}

/// Each scenario on both databases.
macro_rules! on_both {
    ($($scenario:ident)*) => {
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $scenario() {
                    super::$scenario::<super::Postgres>().await;
                }
            )*
        }
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $scenario() {
                    super::$scenario::<super::Sqlite>().await;
                }
            )*
        }
    };
}

pub(super) use on_both;

on_both! {
    a_late_event_is_settled_and_not_run
    events_of_one_transaction_see_each_other
    a_parked_event_makes_no_other_stale
    an_ignored_event_is_behind
    an_ignored_event_is_not_behind_those_before_it
    a_failed_attempt_changes_no_version
    a_crash_keeps_effect_and_version_together
    without_a_policy_there_are_no_versions
    types_of_one_aggregate_share_its_version
    an_aggregate_begins_with_its_first_version
    an_event_without_a_version_is_run_or_parked
    a_parked_event_is_judged_at_its_release
    what_another_process_has_applied_is_stale
    a_version_is_read_before_anything_waits_for_it
}
