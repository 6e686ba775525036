//! What is sent when, and what is marked, without any destination.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use outbox_core::{Aggregate, OutboxEvent};
use uuid::Uuid;

use super::{spill::PROBES, *};
use crate::{
    deadline::Deadline,
    destination::{Delivery, Destination, Outcome::Delivered, Sink},
    port::RowId,
};

const RULES: RetryRules = RetryRules {
    attempts_max: 3,
    delay_min: Duration::from_secs(1),
    delay_max: Duration::from_mins(1),
    outage_delay_max: Duration::from_secs(10),
};

fn again(attempt: u32, item: Item) -> Item {
    let delivery = Delivery { attempt, ..item.delivery };
    Item { late: true, delivery, ..item }
}

fn dispatch(calls_max: usize, batch_max: usize) -> Dispatch {
    let bounds = |name: &str| Bounds { name: name.into(), batch_max, calls_max };
    Dispatch::new(RULES, vec![bounds("shop"), bounds("mail")], 100, 1_000)
}

fn item(seq: i64, aggregate: &str, now: Instant) -> Item {
    let event = OutboxEvent::new("Paid", &Aggregate::new("Order", aggregate).unwrap(), &1).unwrap();
    Item {
        id: RowId { seq, event: Uuid::nil() },
        aggregate: aggregate.into(),
        sink: 0,
        scope: String::new(),
        delivery: Delivery { event, topic: None, attempt: 1 },
        late: false,
        bytes: 1,
        read: (now, Duration::from_secs(5)),
    }
}

/// Takes rows in: number and aggregate.
fn take_in(dispatch: &mut Dispatch, rows: &[(i64, &str)], now: Instant) {
    for &(seq, aggregate) in rows {
        assert!(dispatch.take_in(item(seq, aggregate, now)).is_ok());
    }
}

/// All calls that may be made now, and the numbers of their rows.
fn calls(dispatch: &mut Dispatch, now: Instant) -> (Vec<Call>, Vec<Vec<i64>>) {
    let calls: Vec<Call> = std::iter::from_fn(|| dispatch.next_call(now)).collect();
    let seqs = calls.iter().map(|call| call.items.iter().map(|item| item.id.seq).collect());
    let seqs = seqs.collect();
    (calls, seqs)
}

fn conclude(dispatch: &mut Dispatch, calls: Vec<Call>, outcome: &Outcome, now: Instant) {
    for call in calls {
        let outcomes = vec![outcome.clone(); call.items.len()];
        dispatch.conclude(call, outcomes, now);
    }
}

fn seqs(ids: &[RowId]) -> Vec<i64> {
    ids.iter().map(|id| id.seq).collect()
}

#[test]
fn one_event_of_an_aggregate_is_on_its_way_and_the_next_follows_its_delivery() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    take_in(&mut dispatch, &[(1, "a"), (2, "b"), (3, "a"), (4, "a")], now);
    let (first, sent) = calls(&mut dispatch, now);
    assert_eq!(sent, [[1], [2]]);
    conclude(&mut dispatch, first, &Delivered, now);
    let (second, sent) = calls(&mut dispatch, now);
    assert_eq!(sent, [[3]], "the fourth waits for the third");
    conclude(&mut dispatch, second, &Delivered, now);
    let concluded = dispatch.take_marks();
    assert_eq!(seqs(&concluded.sent), [1, 2, 3]);
    assert!(dispatch.knows(3), "until it is marked a look finds it again");
    dispatch.marked(&concluded);
    assert!(!dispatch.knows(3) && dispatch.knows(4) && dispatch.has("a") && !dispatch.has("b"));
}

#[test]
fn calls_are_as_many_and_as_large_as_the_destination_takes() {
    let (mut dispatch, now) = (dispatch(2, 3), Instant::now());
    let rows: Vec<(i64, String)> = (0..8).map(|seq| (seq, format!("a{seq}"))).collect();
    let rows: Vec<(i64, &str)> = rows.iter().map(|(seq, it)| (*seq, it.as_str())).collect();
    take_in(&mut dispatch, &rows, now);
    let (first, sent) = calls(&mut dispatch, now);
    assert_eq!(sent, [[0, 1, 2], [3, 4, 5]]);
    conclude(&mut dispatch, first, &Delivered, now);
    assert_eq!(calls(&mut dispatch, now).1, [[6, 7]]);
}

#[test]
fn an_events_own_failure_spends_an_attempt_and_what_follows_it_is_read_again() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    take_in(&mut dispatch, &[(1, "a"), (2, "a"), (3, "b")], now);
    let (mut first, _) = calls(&mut dispatch, now);
    let good = first.pop().unwrap();
    conclude(&mut dispatch, first, &Outcome::retry("503"), now);
    assert!(dispatch.take_marks().is_empty(), "it may be an outage");
    conclude(&mut dispatch, vec![good], &Delivered, now);
    let concluded = dispatch.take_marks();
    assert_eq!(seqs(&concluded.sent), [3]);
    let [failure] = &concluded.failed[..] else { panic!("{concluded:?}") };
    assert_eq!((failure.id.seq, failure.attempts), (1, 1));
    let after = failure.retry_after.unwrap();
    assert!(after <= RULES.delay_min && after >= RULES.delay_min / 2, "{after:?}");
    assert!(dispatch.knows(1) && !dispatch.knows(2), "the second is held when a look finds it");
}

#[test]
fn the_last_attempt_sets_the_row_aside_and_so_does_a_refusal() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    let last = again(3, item(1, "a", now));
    assert!(dispatch.take_in(last).is_ok());
    take_in(&mut dispatch, &[(2, "b"), (3, "c")], now);
    let (mut first, _) = calls(&mut dispatch, now);
    let (good, refused) = (first.pop().unwrap(), first.pop().unwrap());
    conclude(&mut dispatch, first, &Outcome::retry("503"), now);
    conclude(&mut dispatch, vec![refused], &Outcome::refused("400"), now);
    conclude(&mut dispatch, vec![good], &Delivered, now);
    let failed = dispatch.take_marks().failed;
    let told = failed.iter().map(|it| (it.id.seq, it.attempts, it.retry_after, it.error.as_str()));
    let told: Vec<_> = told.collect();
    assert_eq!(told[0], (1, 3, None, "503; that was attempt 3 of 3"));
    assert_eq!(told[1], (2, 1, None, "400"));
}

#[test]
fn a_destination_may_ask_for_more_time() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    take_in(&mut dispatch, &[(1, "a")], now);
    let asked = Duration::from_secs(30);
    let outcome = Outcome::Retry { error: "429".into(), after: Some(asked) };
    let (first, _) = calls(&mut dispatch, now);
    conclude(&mut dispatch, first, &outcome, now);
    let later = dispatch.next_time(now).unwrap();
    dispatch.tick(later);
    let concluded = dispatch.take_marks();
    assert_eq!(concluded.failed[0].retry_after, Some(asked), "nobody else failed meanwhile");
}

#[test]
fn what_befalls_three_aggregates_is_an_outage_and_spends_no_attempt() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    take_in(&mut dispatch, &[(1, "a"), (2, "b"), (3, "c"), (4, "d")], now);
    let (first, _) = calls(&mut dispatch, now);
    conclude(&mut dispatch, first, &Outcome::retry("503"), now);
    assert!(dispatch.take_marks().is_empty());
    let out = News::Out {
        sink: 0,
        destination: "destination shop".into(),
        why: "503".into(),
        after: Duration::ZERO,
    };
    assert_eq!(dispatch.take_news(), [out], "it is told once");
    assert!(dispatch.next_call(now).is_none());
    let mut probed = Vec::new();
    let mut at = now;
    for _ in 0..4 {
        at = dispatch.next_time(at).unwrap();
        let (probe, sent) = calls(&mut dispatch, at);
        probed.extend(sent.concat());
        assert_eq!(probe.len(), 1, "one event at a time");
        conclude(&mut dispatch, probe, &Outcome::retry("503"), at);
    }
    probed.sort_unstable();
    assert_eq!(probed, [1, 2, 3, 4], "each aggregate has its turn as a probe");
    let at = dispatch.next_time(at).unwrap().max(at);
    let (probe, _) = calls(&mut dispatch, at);
    conclude(&mut dispatch, probe, &Delivered, at);
    assert!(matches!(&dispatch.take_news()[..], [News::Works { .. }, News::Delivered { .. }]));
    assert_eq!(calls(&mut dispatch, at).0.len(), 3, "all of them go");
    assert!(dispatch.take_marks().failed.is_empty());
}

#[test]
fn a_destination_that_nobody_reaches_is_out_at_once() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    take_in(&mut dispatch, &[(1, "a"), (2, "a")], now);
    let (first, _) = calls(&mut dispatch, now);
    conclude(&mut dispatch, first, &Outcome::unavailable("refused"), now);
    assert!(matches!(&dispatch.take_news()[..], [News::Out { .. }]));
    assert!(dispatch.take_marks().is_empty() && dispatch.knows(1) && dispatch.knows(2));
}

#[test]
fn an_outage_of_one_destination_leaves_the_other_alone() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    take_in(&mut dispatch, &[(1, "a")], now);
    let (first, _) = calls(&mut dispatch, now);
    conclude(&mut dispatch, first, &Outcome::unavailable("refused"), now);
    let mail = Item { sink: 1, ..item(2, "b", now) };
    assert!(dispatch.take_in(mail).is_ok());
    assert_eq!(calls(&mut dispatch, now).1, [[2]]);
}

#[test]
fn what_waits_for_a_destination_makes_room_for_others() {
    let (mut dispatch, now) = (dispatch(1, 1), Instant::now());
    let rows: Vec<(i64, String)> = (0..60).map(|seq| (seq, format!("a{}", seq / 2))).collect();
    let rows: Vec<(i64, &str)> = rows.iter().map(|(seq, it)| (*seq, it.as_str())).collect();
    take_in(&mut dispatch, &rows, now);
    let (first, _) = calls(&mut dispatch, now);
    conclude(&mut dispatch, first, &Outcome::unavailable("refused"), now);
    dispatch.spill(now);
    let concluded = dispatch.take_marks();
    assert_eq!(concluded.failed.len(), 30, "of a probe's aggregate its second event");
    for failure in &concluded.failed {
        assert_eq!(failure.waits_for.as_deref(), Some("destination shop"));
        assert_eq!((failure.attempts, failure.retry_after), (0, None));
    }
    dispatch.marked(&concluded);
    assert_eq!((dispatch.known(), dispatch.bytes()), (PROBES, PROBES));
    assert!(dispatch.is_low());
    take_in(&mut dispatch, &[(90, "z")], now);
    dispatch.spill(now);
    assert!(dispatch.take_marks().is_empty(), "few rows stay for a moment");
    dispatch.spill(now + Duration::from_secs(1));
    assert_eq!(
        dispatch.take_marks().failed.len(),
        1,
        "and no longer: each look would read them again"
    );
}

#[test]
fn an_outage_is_reported_again_while_it_lasts() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    take_in(&mut dispatch, &[(1, "a")], now);
    let probe = |dispatch: &mut Dispatch, error: &str, seconds| {
        let at = now + Duration::from_secs(seconds);
        let (call, _) = calls(dispatch, at);
        conclude(dispatch, call, &Outcome::unavailable(error), at);
        dispatch.take_news()
    };
    assert!(matches!(&probe(&mut dispatch, "refused", 0)[..], [News::Out { .. }]));
    assert_eq!(probe(&mut dispatch, "refused", 29), [], "reported a moment ago");
    let news = probe(&mut dispatch, "silent", 40);
    let told = |why: &str, after| News::Out {
        sink: 0,
        destination: "destination shop".into(),
        why: why.into(),
        after: Duration::from_secs(after),
    };
    assert_eq!(news, [told("silent", 40)], "with the newest error");
    assert_eq!(dispatch.outages(0)[0].error, "silent");
}

#[test]
fn aggregates_that_always_fail_do_not_keep_a_destination_out() {
    let (mut dispatch, mut now) = (dispatch(8, 1), Instant::now());
    let conclude_all = |dispatch: &mut Dispatch, now: Instant| {
        let (all, sent) = calls(dispatch, now);
        for call in all {
            let outcome =
                if call.items[0].aggregate == "good" { Delivered } else { Outcome::retry("500") };
            conclude(dispatch, vec![call], &outcome, now);
        }
        sent.concat()
    };
    take_in(&mut dispatch, &[(1, "a"), (2, "b"), (3, "c")], now);
    conclude_all(&mut dispatch, now);
    assert_eq!(dispatch.outages(0).len(), 1);
    take_in(&mut dispatch, &[(4, "good")], now);
    now = dispatch.next_time(now).unwrap();
    assert_eq!(conclude_all(&mut dispatch, now), [4], "who has not failed probes first");
    assert!(dispatch.outages(0).is_empty());
    conclude_all(&mut dispatch, now);
    assert!(dispatch.outages(0).is_empty(), "they failed for themselves");
    dispatch.tick(now + Duration::from_secs(1));
    let concluded = dispatch.take_marks();
    assert_eq!((seqs(&concluded.sent), concluded.failed.len()), (vec![4], 3));
    assert!(concluded.failed.iter().all(|failure| failure.attempts == 1));
}

#[test]
fn a_probe_that_was_not_made_is_made_later() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    take_in(&mut dispatch, &[(1, "a")], now);
    let (first, _) = calls(&mut dispatch, now);
    conclude(&mut dispatch, first, &Outcome::unavailable("refused"), now);
    let at = dispatch.next_time(now).unwrap();
    let (mut probe, _) = calls(&mut dispatch, at);
    dispatch.give_back(probe.remove(0));
    assert_eq!(calls(&mut dispatch, at).1, [[1]]);
}

#[test]
fn a_time_without_end_is_cut() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    let later = |error: &str| Outcome::Retry { error: error.into(), after: Some(Duration::MAX) };
    take_in(&mut dispatch, &[(1, "a")], now);
    let (first, _) = calls(&mut dispatch, now);
    conclude(&mut dispatch, first, &later("503"), now);
    dispatch.tick(now + Duration::from_secs(1));
    assert_eq!(dispatch.take_marks().failed[0].retry_after, Some(AFTER_MAX));
    take_in(&mut dispatch, &[(2, "a"), (3, "b"), (4, "c")], now);
    let (all, _) = calls(&mut dispatch, now);
    conclude(&mut dispatch, all, &later("503"), now);
    assert!(dispatch.next_time(now).is_some_and(|at| at <= now + AFTER_MAX));
}

#[test]
fn rows_that_hid_others_come_when_there_is_room() {
    let (mut dispatch, now) = (dispatch(1, 1), Instant::now());
    let rows: Vec<(i64, String)> = (0..70).map(|seq| (seq, format!("a{seq}"))).collect();
    let rows: Vec<(i64, &str)> = rows.iter().map(|(seq, it)| (*seq, it.as_str())).collect();
    take_in(&mut dispatch, &rows, now);
    let lane = dispatch.lane_of("a69").unwrap();
    dispatch.note_overflow(&lane, "a99", now);
    let later = now + Duration::from_secs(1);
    for _ in 0..58 {
        assert!(!dispatch.has_room_again(now));
        let (call, _) = calls(&mut dispatch, now);
        conclude(&mut dispatch, call, &Delivered, now);
    }
    assert!(!dispatch.has_room_again(now), "what they hid is read first");
    assert_eq!(dispatch.next_room(500, later), Some((lane.clone(), 500)));
    dispatch.end_overflow(&lane);
    assert_eq!((dispatch.has_room_again(later), dispatch.next_room(500, later)), (false, None));
}

#[test]
fn a_destination_that_keeps_the_memory_full_makes_room() {
    let (mut dispatch, now) = (dispatch(4, 1), Instant::now());
    let rows: Vec<(i64, String)> = (0..100).map(|seq| (seq, format!("a{}", seq / 2))).collect();
    let rows: Vec<(i64, &str)> = rows.iter().map(|(seq, it)| (*seq, it.as_str())).collect();
    take_in(&mut dispatch, &rows, now);
    let (under_way, _) = calls(&mut dispatch, now);
    dispatch.note_look(true, now);
    dispatch.note_look(true, now + Duration::from_secs(5));
    let at = dispatch.next_time(now).unwrap();
    assert_eq!(at, now + Duration::from_secs(10));
    dispatch.note_look(false, now);
    dispatch.tick(at);
    assert!(dispatch.take_marks().is_empty(), "nobody waits behind it");
    dispatch.note_look(true, now);
    dispatch.tick(at);
    let concluded = dispatch.take_marks();
    // 12 are kept of those that wait, and the four under way: of each of these the second.
    assert_eq!(concluded.failed.len(), 50);
    assert!(concluded.failed.iter().all(|it| it.waits_for.as_deref() == Some("destination shop")));
    dispatch.marked(&concluded);
    assert_eq!((dispatch.known(), dispatch.bytes()), (16, 16));
    let later = Item { sink: 1, ..item(200, "b", at) };
    assert!(dispatch.take_in(later).is_ok(), "another has room");
    for seq in 0..9 {
        assert!(dispatch.take_in(item(300 + seq, &format!("c{seq}"), at)).is_ok());
    }
    assert!(dispatch.take_in(item(400, "d", at)).is_err(), "this one has a part of it");
    conclude(&mut dispatch, under_way, &Delivered, at);
}

#[test]
fn what_was_passed_over_is_read_when_its_aggregate_has_few_events() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    let rows: Vec<(i64, &str)> = (0..25).map(|seq| (seq, "a")).collect();
    take_in(&mut dispatch, &rows, now);
    assert!(dispatch.take_in(item(25, "a", now)).is_err());
    dispatch.note_behind("a", false);
    for _ in 0..13 {
        assert!(!dispatch.has_room_again(now));
        let (call, _) = calls(&mut dispatch, now);
        conclude(&mut dispatch, call, &Delivered, now);
    }
    assert!(dispatch.has_room_again(now));
    dispatch.begin_look();
    assert!(!dispatch.has_room_again(now));
}

#[test]
fn one_aggregate_does_not_fill_the_memory() {
    let now = Instant::now();
    let bounds = Bounds { name: "shop".into(), batch_max: 1, calls_max: 1 };
    let mut dispatch = Dispatch::new(RULES, vec![bounds], 1_000, 1_000);
    let most = i64::try_from(QUEUE_MAX).unwrap();
    for seq in 0..most {
        assert!(dispatch.take_in(item(seq, "a", now)).is_ok());
    }
    assert!(dispatch.take_in(item(most, "a", now)).is_err());
    assert!(dispatch.take_in(item(most + 1, "b", now)).is_ok());
}

#[test]
fn a_row_that_waited_is_marked_as_such() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    let late = again(2, item(1, "a", now));
    assert!(dispatch.take_in(late).is_ok());
    let (call, _) = calls(&mut dispatch, now);
    conclude(&mut dispatch, call, &Delivered, now);
    assert_eq!(seqs(&dispatch.take_marks().late), [1]);
}

#[test]
fn what_is_concluded_is_marked_soon_and_together() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    take_in(&mut dispatch, &[(1, "a"), (2, "b")], now);
    let (mut both, _) = calls(&mut dispatch, now);
    let second = both.pop();
    conclude(&mut dispatch, both, &Delivered, now);
    assert!(!dispatch.wants_marks(now), "the other one may come, too");
    assert_eq!(dispatch.next_time(now), Some(now + MARK_AFTER));
    assert!(dispatch.wants_marks(now + MARK_AFTER));
    conclude(&mut dispatch, second.into_iter().collect(), &Delivered, now);
    assert!(dispatch.wants_marks(now), "nothing else is on its way");
}

#[test]
fn a_call_that_was_not_made_leaves_everything_as_it_was() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    take_in(&mut dispatch, &[(1, "a"), (2, "a")], now);
    let (mut first, _) = calls(&mut dispatch, now);
    dispatch.give_back(first.remove(0));
    assert_eq!(calls(&mut dispatch, now).1, [[1]]);
}

/// Counts the events that it is given.
#[derive(Default, Debug)]
struct Counter(AtomicUsize);

#[async_trait::async_trait]
impl Sink for Counter {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        self.0.fetch_add(batch.len(), Ordering::Relaxed);
        vec![Delivered; batch.len()]
    }
}

#[tokio::test]
async fn a_call_whose_turn_is_over_is_not_made() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    take_in(&mut dispatch, &[(1, "a"), (2, "b")], now);
    let (mut both, _) = calls(&mut dispatch, now);
    let counter = Arc::new(Counter::default());
    let shop = named(Arc::<Counter>::clone(&counter));
    let mut under_way = Calls::default();
    // It was ours when the call was decided on; the relay stood still before it was made.
    under_way.start(&shop, both.remove(0), &Deadline::new(now));
    assert_eq!(under_way.next().await.outcomes, None);
    assert_eq!(counter.0.load(Ordering::Relaxed), 0);
    under_way.start(&shop, both.remove(0), &Deadline::new(now + Duration::from_mins(1)));
    assert_eq!(under_way.next().await.outcomes, Some(vec![Delivered]));
}

fn named(sink: Arc<dyn Sink>) -> Destination {
    Destination { name: "shop".into(), sink, one_scope: true }
}

/// Never answers; its deadline.
#[derive(Debug)]
struct Silent(Duration);

#[async_trait::async_trait]
impl Sink for Silent {
    async fn deliver(&self, _: &[Delivery]) -> Vec<Outcome> {
        std::future::pending().await
    }

    fn deadline(&self) -> Duration {
        self.0
    }
}

/// Answers for one event too many.
#[derive(Debug)]
struct Talkative;

#[async_trait::async_trait]
impl Sink for Talkative {
    async fn deliver(&self, batch: &[Delivery]) -> Vec<Outcome> {
        vec![Delivered; batch.len() + 1]
    }
}

#[tokio::test]
async fn what_a_destination_does_not_say_is_unknown() {
    let until = Deadline::new(Instant::now() + Duration::from_mins(1));
    for (sink, error) in [
        (
            Arc::new(Silent(Duration::from_millis(10))) as Arc<dyn Sink>,
            "the destination did not answer within 10ms",
        ),
        (
            Arc::new(Talkative),
            "the destination returned 2 outcomes for 1 events; it must return one for each",
        ),
    ] {
        let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
        take_in(&mut dispatch, &[(1, "a")], now);
        let (mut call, _) = calls(&mut dispatch, now);
        let mut under_way = Calls::default();
        under_way.start(&named(sink), call.remove(0), &until);
        assert_eq!(under_way.next().await.outcomes, Some(vec![Outcome::unknown(error)]));
    }
}

#[tokio::test]
async fn a_call_goes_on_no_longer_than_the_turn() {
    let (mut dispatch, now) = (dispatch(8, 1), Instant::now());
    take_in(&mut dispatch, &[(1, "a")], now);
    let (mut call, _) = calls(&mut dispatch, now);
    let until = Deadline::new(now + Duration::from_millis(20));
    let mut under_way = Calls::default();
    let shop = named(Arc::new(Silent(Duration::from_mins(1))));
    under_way.start(&shop, call.remove(0), &until);
    until.extend(now + Duration::from_millis(60));
    assert_eq!(under_way.next().await.outcomes, None);
    assert!(now.elapsed() >= Duration::from_millis(60), "the lease was prolonged");
}
