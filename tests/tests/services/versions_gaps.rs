//! Events that wait for versions before their own: run in the order of versions, whatever order they arrive in.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicUsize, atomic::Ordering::SeqCst},
    time::Duration,
};

use inbox_consumer::testing::{Aggregate, HandlerTest, OutboxEvent};
use inbox_consumer::{Event, GapEnd, Handler, HandlerResult, Routes, Tx, VersionPolicy};
use sqlx::{Postgres, Sqlite};
use tests::SOON;

use super::versions::{
    Kit, Reasons as _, TYPE, Write, WriteAll, effects, of, on_both, start, to, versions,
};

const HOUR: Duration = Duration::from_hours(1);
pub(super) const MOMENT: Duration = Duration::from_millis(50);

pub(super) fn patient() -> VersionPolicy {
    VersionPolicy::gap(HOUR, GapEnd::Park).first(1)
}

fn with<DB: Kit>(policy: VersionPolicy) -> Routes<DB> {
    Routes::default().on(TYPE, Write::default()).versions(TYPE, policy)
}

/// Waits for these effects, and that nothing is parked then.
pub(super) async fn become_<DB: Kit>(bench: &mut HandlerTest<DB>, wanted: &str) {
    let began = std::time::Instant::now();
    loop {
        let parked = bench.number("SELECT count(*) FROM inbox_parked").await.unwrap();
        let now = effects(bench).await;
        if now == wanted && parked == 0 {
            break;
        }
        assert!(began.elapsed() < SOON, "{now}, and {parked} parked, in place of {wanted}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(bench.number("SELECT count(*) FROM inbox_events WHERE parked").await.unwrap(), 0);
}

/// Waits until so many parked events have this about them, as long as their number changes.
pub(super) async fn parked<DB: Kit>(bench: &mut HandlerTest<DB>, wanted: i64, what: &str) {
    let sql = format!("SELECT count(*) FROM inbox_parked WHERE {what}");
    let (mut last, mut since) = (-1, std::time::Instant::now());
    loop {
        let now = bench.number(&sql).await.unwrap();
        if now == wanted {
            return;
        }
        if now != last {
            (last, since) = (now, std::time::Instant::now());
        }
        if since.elapsed() >= SOON {
            let rows = first_rows(bench).await;
            panic!("{now} parked in place of {wanted}: {what}\n{}", rows.join("\n"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The first parked events: why each is parked, its aggregate, the version that it waits with, its attempts.
async fn first_rows<DB: Kit>(bench: &mut HandlerTest<DB>) -> Vec<String> {
    let mut rows = Vec::new();
    for place in 0..20 {
        let sql = format!(
            "SELECT reason || ' ' || aggregate || ' ' || coalesce(CAST(awaiting AS text), '-') || ' ' || CAST(attempts AS text)
            FROM inbox_parked ORDER BY parked_seq LIMIT 1 OFFSET {place}"
        );
        rows.extend(DB::text(bench.connection(), &sql).await.unwrap_or_default());
    }
    rows
}

pub(super) async fn release<DB: Kit>(bench: &mut HandlerTest<DB>, what: &str) {
    let sql =
        format!("UPDATE inbox_parked SET intent = 'release', intent_by = 'anna' WHERE {what}");
    assert_eq!(bench.execute(&sql).await.unwrap(), 1, "{what}");
}

/// Those of one transaction need not be parked for each other.
async fn events_are_run_in_the_order_of_their_versions<DB: Kit>() {
    let all = [to(3), to(1), of("b", 2), to(2), of("b", 1), to(5)];
    let mut bench = start::<DB>(with(patient())).await;
    // The first transaction of a process has one event.
    bench.deliver(&of("c", 1)).await.unwrap();
    let outcomes = bench.run(&all).await.unwrap();
    assert_eq!(outcomes.each_reason(), ["", "", "", "", "", "gap"]);
    assert_eq!(effects(&mut bench).await, "1 1 2 1 3 2");
    bench.deliver(&to(4)).await.unwrap();
    become_(&mut bench, "1 1 2 1 3 2 4 5").await;
    assert_eq!(versions(&mut bench).await, (3, 8));
    bench.close().await.unwrap();

    let handler = WriteAll::default();
    let routes = Routes::default().on_batch(TYPE, handler.clone());
    let mut bench = start::<DB>(routes.versions(TYPE, patient())).await;
    bench.deliver(&of("c", 1)).await.unwrap();
    bench.run(&all).await.unwrap();
    assert_eq!(*handler.calls.lock().unwrap(), [vec![1], vec![1, 2, 1], vec![3, 2]]);
    bench.deliver(&to(4)).await.unwrap();
    become_(&mut bench, "1 1 2 1 3 2 4 5").await;
    bench.close().await.unwrap();
}

/// Each in a transaction of its own: what waits holds nobody, and goes when its turn has come.
async fn an_event_waits_for_those_before_it<DB: Kit>() {
    let mut bench = start::<DB>(with(patient())).await;
    for event in [to(4), to(3), of("b", 1), to(2), of("b", 2), of("b", 4)] {
        bench.deliver(&event).await.unwrap();
    }
    assert_eq!(effects(&mut bench).await, "1 2");
    parked(&mut bench, 4, "reason = 'gap'").await;
    // The same version once more, under another id.
    assert_eq!(bench.deliver(&to(3)).await.unwrap().reason(), "gap");
    bench.deliver(&to(1)).await.unwrap();
    parked(&mut bench, 1, "1 = 1").await;
    assert_eq!(effects(&mut bench).await, "1 2 1 2 3 4");
    bench.deliver(&of("b", 3)).await.unwrap();
    become_(&mut bench, "1 2 1 2 3 4 3 4").await;
    assert_eq!(bench.deliver(&to(4)).await.unwrap().reason(), "", "it is stale");
    become_(&mut bench, "1 2 1 2 3 4 3 4").await;
    bench.close().await.unwrap();
}

/// Its time is over: it waits on, for its predecessor or for a person.
async fn after_its_time_an_event_stays_parked<DB: Kit>() {
    let policy = VersionPolicy::gap(MOMENT, GapEnd::Park).first(1);
    let mut bench = start::<DB>(with(policy)).await;
    bench.run(&[to(1), to(3), to(5)]).await.unwrap();
    parked(&mut bench, 2, "reason = 'gap' AND errors LIKE '%the earlier version has not arrived%'")
        .await;
    assert_eq!(effects(&mut bench).await, "1");
    bench.deliver(&to(2)).await.unwrap();
    parked(&mut bench, 1, "1 = 1").await;
    assert_eq!(effects(&mut bench).await, "1 2 3");
    release(&mut bench, "reason = 'gap'").await;
    become_(&mut bench, "1 2 3 5").await;
    bench.run(&[to(4), to(6)]).await.unwrap();
    become_(&mut bench, "1 2 3 5 6").await;
    bench.close().await.unwrap();
}

/// Its time is over: it is run, and what is missing is stale.
async fn after_its_time_an_event_is_run<DB: Kit>() {
    let policy = VersionPolicy::gap(MOMENT, GapEnd::Run).first(1);
    let mut bench = start::<DB>(with(policy)).await;
    bench.run(&[to(1), to(3), of("b", 2)]).await.unwrap();
    let both = ["1 3 2", "1 2 3"];
    let began = std::time::Instant::now();
    while !both.contains(&&*effects(&mut bench).await) {
        assert!(began.elapsed() < SOON, "{}", effects(&mut bench).await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let so_far = effects(&mut bench).await;
    bench.run(&[to(2), to(4), of("b", 1)]).await.unwrap();
    become_(&mut bench, &format!("{so_far} 4")).await;
    bench.close().await.unwrap();
}

/// The time of one is over: what waits before it goes first, though its own time is not.
async fn after_its_time_all_that_waits_is_run_in_order<DB: Kit>() {
    let policy = VersionPolicy::gap(10 * MOMENT, GapEnd::Run).first(1);
    let mut bench = start::<DB>(with(policy)).await;
    bench.run(&[to(5), to(4), to(3), to(7)]).await.unwrap();
    become_(&mut bench, "3 4 5 7").await;
    bench.close().await.unwrap();
}

/// A failing event holds its aggregate as ever, and what waits for its version waits on. What follows it is judged
/// when its turn comes.
async fn nothing_overtakes_an_event_that_fails<DB: Kit>() {
    for (policy, late) in
        [(patient(), HOUR), (VersionPolicy::gap(MOMENT, GapEnd::Run).first(1), MOMENT)]
    {
        let failures = Arc::new(AtomicUsize::new(0));
        let handler = Write { failures: Arc::clone(&failures) };
        let mut bench = DB::bench().await;
        bench.execute(DB::TABLES).await.unwrap();
        bench.configure(|config| config.retry.attempts_max = 1);
        let routes = Routes::default().on(TYPE, handler);
        bench.handle(routes.versions(TYPE, policy)).await.unwrap();
        bench.deliver(&to(1)).await.unwrap();
        failures.store(1, SeqCst);
        assert_eq!(bench.deliver(&to(2)).await.unwrap().reason(), "exhausted");
        let outcomes = bench.run(&[to(5), to(3), to(4)]).await.unwrap();
        assert_eq!(outcomes.each_reason(), ["follower"; 3]);
        if late == MOMENT {
            tokio::time::sleep(3 * MOMENT).await;
        }
        assert_eq!(effects(&mut bench).await, "1");
        release(&mut bench, "reason = 'exhausted'").await;
        if late == HOUR {
            become_(&mut bench, "1 2 3 4 5").await;
        } else {
            // 5 may have had its time before 3 and 4 had their turn.
            parked(&mut bench, 0, "1 = 1").await;
            assert!(
                effects(&mut bench).await.starts_with("1 2 3 4"),
                "{}",
                effects(&mut bench).await
            );
        }
        bench.close().await.unwrap();
    }
}

/// What was run though a version before its own is missing, and failed, does not go back to wait.
async fn nothing_overtakes_what_was_run_past_a_gap<DB: Kit>() {
    for end in [GapEnd::Run, GapEnd::Park] {
        let failures = Arc::new(AtomicUsize::new(0));
        let routes = Routes::default()
            .on(TYPE, Write { failures: Arc::clone(&failures) })
            .versions(TYPE, VersionPolicy::gap(MOMENT, end).first(1))
            .on("Moved", Write::default())
            .versions("Moved", VersionPolicy::stale());
        let mut bench = DB::bench().await;
        bench.execute(DB::TABLES).await.unwrap();
        bench.configure(|config| {
            config.retry.attempts_max = 1;
            config.park.delay_min = MOMENT;
            config.park.delay_max = MOMENT;
            config.park.releases_max = 1_000;
        });
        bench.handle(routes).await.unwrap();
        bench.deliver(&to(1)).await.unwrap();
        failures.store(usize::MAX, SeqCst);
        assert_eq!(bench.deliver(&to(3)).await.unwrap().reason(), "gap");
        if end == GapEnd::Park {
            release(&mut bench, "reason = 'gap'").await;
        }
        parked(&mut bench, 1, "reason = 'exhausted' AND releases > 1").await;
        let customer = Aggregate::new("Customer", "a").unwrap();
        let moved = OutboxEvent::new("Moved", &customer, &4_i64).unwrap();
        let moved = bench.deliver(&moved.with_aggregate_version(4)).await.unwrap();
        assert_eq!(moved.reason(), "follower");
        failures.store(0, SeqCst);
        become_(&mut bench, "1 3 4").await;
        bench.close().await.unwrap();
    }
}

/// Its predecessor was applied where nothing wakes it: it is looked at again, and told of once.
async fn what_another_partition_applied_is_found<DB: Kit>() {
    let policy = VersionPolicy::gap(MOMENT, GapEnd::Park).first(1);
    let mut bench = start::<DB>(with(policy)).await;
    bench.run(&[to(1), to(3)]).await.unwrap();
    parked(&mut bench, 1, "errors LIKE '%has not arrived%'").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    parked(&mut bench, 0, "errors LIKE '%has not arrived%has not come%'").await;
    bench.execute("UPDATE inbox_versions SET version = 2").await.unwrap();
    become_(&mut bench, "1 3").await;
    bench.close().await.unwrap();
}

/// What waits in its own queue does not pass one of its aggregate that is parked, though its time is over.
async fn its_time_ends_behind_what_is_parked<DB: Kit>() {
    let failures = Arc::new(AtomicUsize::new(0));
    let handler = Write { failures: Arc::clone(&failures) };
    let mut bench = DB::bench().await;
    bench.execute(DB::TABLES).await.unwrap();
    bench.configure(|config| config.retry.attempts_max = 1);
    let routes = Routes::default().on(TYPE, handler);
    let policy = VersionPolicy::gap(MOMENT, GapEnd::Run).first(1);
    bench.handle(routes.versions(TYPE, policy)).await.unwrap();
    failures.store(1, SeqCst);
    let outcomes = bench.run(&[to(2), to(1)]).await.unwrap();
    assert_eq!(outcomes.each_reason(), ["gap", "exhausted"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(effects(&mut bench).await, "");
    release(&mut bench, "reason = 'exhausted'").await;
    become_(&mut bench, "1 2").await;
    bench.close().await.unwrap();
}

/// A crash around the COMMIT that wakes what waits: it is woken once, or by the transaction that runs again.
async fn a_crash_wakes_nobody_twice<DB: Kit>() {
    let mut bench = start::<DB>(with(patient())).await;
    bench.run(&[to(2), to(4)]).await.unwrap();
    bench.crashed_before_commit(&to(1)).await.unwrap();
    parked(&mut bench, 1, "1 = 1").await;
    bench.crashed_after_commit(&to(3)).await.unwrap();
    become_(&mut bench, "1 2 3 4").await;
    bench.crashed_before_commit(&to(6)).await.unwrap();
    bench.crashed_after_commit(&to(7)).await.unwrap();
    bench.deliver(&to(5)).await.unwrap();
    become_(&mut bench, "1 2 3 4 5 6 7").await;
    bench.close().await.unwrap();
}

/// What waits is of one aggregate, however many rows it has: the limit on aggregates is as far away as it was.
async fn what_waits_counts_as_one_aggregate<DB: Kit>() {
    let failures = Arc::new(AtomicUsize::new(1));
    let handler = Write { failures: Arc::clone(&failures) };
    let mut bench = DB::bench().await;
    bench.execute(DB::TABLES).await.unwrap();
    bench.configure(|config| {
        config.retry.attempts_max = 1;
        config.limits.parked_aggregates_max = 3;
    });
    let routes = Routes::default().on(TYPE, handler);
    bench.handle(routes.versions(TYPE, patient())).await.unwrap();
    assert_eq!(bench.deliver(&to(1)).await.unwrap().reason(), "exhausted");
    let all: Vec<OutboxEvent> = (3..=20).map(to).collect();
    assert_eq!(bench.run(&all).await.unwrap().each_reason(), ["follower"; 18]);
    release(&mut bench, "reason = 'exhausted'").await;
    parked(&mut bench, 18, "reason = 'gap'").await;
    let b = Aggregate::new("Customer", "b").unwrap();
    let unreadable = OutboxEvent::new(TYPE, &b, &"no number").unwrap().with_aggregate_version(1);
    let outcomes = bench.run(&[unreadable, to(2)]).await.unwrap();
    assert_eq!(outcomes.each_reason(), ["undecodable", ""]);
    parked(&mut bench, 1, "1 = 1").await;
    let versions: Vec<String> = (1..=20).map(|version| version.to_string()).collect();
    assert_eq!(effects(&mut bench).await, versions.join(" "));
    bench.close().await.unwrap();
}

/// Two aggregates under one key, as all of a partition are whose ids are in the payload, wait each for its own: the end of
/// one's time is none of the other's.
async fn the_time_of_one_aggregate_is_none_of_anothers<DB: Kit>() {
    let routes = Routes::default()
        .on(TYPE, WriteNumber)
        .versions(TYPE, VersionPolicy::gap(10 * MOMENT, GapEnd::Run).first(1))
        .on("Moved", WriteNumber)
        .versions("Moved", patient());
    let mut bench = DB::bench().await;
    bench.execute(DB::TABLES).await.unwrap();
    bench.configure(|config| {
        let rules = r#"{"id": "header:event_id", "type": "header:event_type", "aggregate_id": "pointer:/id",
            "aggregate_type": "header:aggregate_type", "aggregate_version": "header:aggregate_version"}"#;
        config.events.format = inbox_consumer::config::Format::Custom;
        config.events.rules = Some(serde_json::from_str(rules).unwrap());
    });
    bench.handle(routes).await.unwrap();
    let event = |event_type: &str, id: &str, n: i64| {
        let key = Aggregate::new("Customer", "key").unwrap();
        let payload = serde_json::json!({ "id": id, "n": n });
        OutboxEvent::new(event_type, &key, &payload).unwrap().with_aggregate_version(n % 100)
    };
    for event in [event("Moved", "b", 103), event(TYPE, "a", 5)] {
        assert_eq!(bench.deliver(&event).await.unwrap().reason(), "gap");
    }
    parked(&mut bench, 1, "1 = 1").await;
    assert_eq!(effects(&mut bench).await, "5");
    for event in [event("Moved", "b", 101), event("Moved", "b", 102)] {
        bench.deliver(&event).await.unwrap();
    }
    become_(&mut bench, "5 101 102 103").await;
    bench.close().await.unwrap();
}

struct WriteNumber;

impl<DB: Kit> Handler<DB> for WriteNumber {
    type Event = serde_json::Value;

    async fn handle(&self, event: &Event<Self::Event>, tx: &mut Tx<'_, DB>) -> HandlerResult {
        DB::write(event.payload["n"].as_i64().unwrap_or_default(), tx).await?;
        Ok(())
    }
}

/// One transaction applies what an event waits for, and its own version from another event.
async fn what_was_passed_does_not_wait_on<DB: Kit>() {
    let mut bench = start::<DB>(with(patient())).await;
    bench.run(&[to(1), to(2), to(3), of("b", 1)]).await.unwrap();
    parked(&mut bench, 0, "1 = 1").await;
    assert_eq!(bench.deliver(&to(5)).await.unwrap().reason(), "gap");
    assert_eq!(bench.run(&[to(4), to(5)]).await.unwrap().each_reason(), ["", ""]);
    become_(&mut bench, "1 2 3 1 4 5").await;
    assert_eq!(versions(&mut bench).await, (2, 6));
    bench.close().await.unwrap();
}

/// Writes its version, and the last one that was applied before its transaction.
#[derive(Clone, Default)]
struct WriteBefore;

impl<DB: Kit> Handler<DB> for WriteBefore {
    type Event = i64;

    async fn handle(&self, event: &Event<i64>, tx: &mut Tx<'_, DB>) -> HandlerResult {
        DB::write(event.payload, tx).await?;
        DB::write_before(tx).await?;
        Ok(())
    }
}

/// Newest first, each in a transaction of its own: when the first has come, the others need few.
async fn what_was_woken_is_run_together<DB: Kit>() {
    let routes = Routes::default().on(TYPE, WriteBefore).versions(TYPE, patient());
    let mut bench = DB::bench().await;
    bench.execute(DB::TABLES).await.unwrap();
    bench.execute("CREATE TABLE befores (version bigint)").await.unwrap();
    bench.handle(routes).await.unwrap();
    for version in (2..=40).rev() {
        assert_eq!(bench.deliver(&to(version)).await.unwrap().reason(), "gap");
    }
    bench.deliver(&to(1)).await.unwrap();
    let versions: Vec<String> = (1..=40).map(|version| version.to_string()).collect();
    become_(&mut bench, &versions.join(" ")).await;
    let transactions = bench.number("SELECT count(DISTINCT version) FROM befores").await.unwrap();
    assert!(transactions <= 4, "{transactions} transactions");
    bench.close().await.unwrap();
}

/// What an event of the shuffle writes: its aggregate, and its version.
const AGGREGATE: i64 = 10_000_000;
const AGGREGATES: i64 = 20;

/// Events of some aggregates, shuffled within windows, by a generator that anybody can repeat.
fn shuffled(versions: i64, window: usize) -> Vec<OutboxEvent> {
    let event = |aggregate: i64, version: i64| {
        let id = Aggregate::new("Customer", aggregate.to_string()).unwrap();
        let event = OutboxEvent::new(TYPE, &id, &(aggregate * AGGREGATE + version)).unwrap();
        event.with_aggregate_version(version)
    };
    let of = |version| (0..AGGREGATES).map(move |aggregate| event(aggregate, version));
    let mut all: Vec<OutboxEvent> = (1..=versions).flat_map(of).collect();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for window in all.chunks_mut(window) {
        for at in (1..window.len()).rev() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            window.swap(at, usize::try_from(state % (at as u64 + 1)).unwrap());
        }
    }
    all
}

/// How many events there are; `INBOX_VERSIONS=100000` for all of them.
fn events() -> i64 {
    std::env::var("INBOX_VERSIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

/// Shuffled within windows of 100: with `gap` every event is applied, each aggregate in order; with `stale` the newest
/// version of each is its state.
async fn shuffled_events_end_in_the_right_state<DB: Kit>() {
    let last = events() / AGGREGATES;
    let all = shuffled(last, 100);
    for (policy, complete) in [(patient(), true), (VersionPolicy::stale(), false)] {
        let mut bench = DB::bench().await;
        bench.execute(DB::TABLES).await.unwrap();
        bench.configure(|config| {
            config.park.delay_min = Duration::from_millis(5);
            config.park.delay_max = Duration::from_millis(20);
        });
        bench.handle(with(policy)).await.unwrap();
        // The test kit looks events up by their offsets, which no consumer does.
        let index = "CREATE INDEX inbox_events_offset ON inbox_events (\"offset\")";
        bench.execute(index).await.unwrap();
        for run in all.chunks(500) {
            bench.run(run).await.unwrap();
        }
        parked(&mut bench, 0, "1 = 1").await;
        let mut applied: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for effect in effects(&mut bench).await.split(' ') {
            let effect: i64 = effect.parse().unwrap();
            applied.entry(effect / AGGREGATE).or_default().push(effect % AGGREGATE);
        }
        assert_eq!(i64::try_from(applied.len()).unwrap(), AGGREGATES);
        for (aggregate, versions) in applied {
            assert!(versions.is_sorted_by(|one, next| one < next), "{aggregate}: {versions:?}");
            assert_eq!(versions.last(), Some(&last), "{aggregate}");
            assert!(!complete || versions == (1..=last).collect::<Vec<_>>(), "{aggregate}");
        }
        assert_eq!(versions(&mut bench).await, (AGGREGATES, AGGREGATES * last));
        bench.close().await.unwrap();
    }
}

on_both! {
    events_are_run_in_the_order_of_their_versions
    an_event_waits_for_those_before_it
    after_its_time_an_event_stays_parked
    after_its_time_an_event_is_run
    after_its_time_all_that_waits_is_run_in_order
    nothing_overtakes_an_event_that_fails
    nothing_overtakes_what_was_run_past_a_gap
    what_another_partition_applied_is_found
    its_time_ends_behind_what_is_parked
    a_crash_wakes_nobody_twice
    what_waits_counts_as_one_aggregate
    the_time_of_one_aggregate_is_none_of_anothers
    what_was_passed_does_not_wait_on
    what_was_woken_is_run_together
    shuffled_events_end_in_the_right_state
}
