//! One history for each rule.

use std::time::Duration;

use super::{
    tables::Place,
    world::{Asked, World, lane, ms, settings},
};
use crate::types::{LaneKey, News, Outcome, ParkState};

fn world() -> World {
    let mut world = World::new(settings());
    world.planner.handle_up(0, world.now);
    world
}

fn web() -> LaneKey {
    lane(1, "")
}

fn failed() -> Outcome {
    Outcome::Failed("no".to_owned(), None)
}

fn away() -> Outcome {
    Outcome::Unavailable("away".to_owned(), None)
}

fn refused() -> Outcome {
    Outcome::Refused("no".to_owned())
}

impl World {
    /// The database answers all it is asked; calls stay under way.
    fn rest(&mut self) {
        loop {
            self.settle();
            if self.asked.is_some() {
                self.answer_asked();
            } else if self.storing.is_some() {
                self.store();
            } else {
                return;
            }
        }
    }

    /// A read begins, and has seen what is there.
    fn begin_read(&mut self) {
        self.planner.handle_poll();
        self.settle();
        while !matches!(self.asked, Some(Asked::Read(..))) {
            self.answer_asked();
            self.settle();
        }
        self.look();
    }

    fn announce(&mut self) {
        self.planner.handle_announced(self.now);
        self.rest();
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        self.rest();
        while let Some(at) = self.planner.next_timeout(self.now).filter(|at| *at <= until) {
            self.now = at;
            self.rest();
        }
        self.now = until;
        self.rest();
    }

    fn add(&mut self, rows: &[(i64, &str)], key: LaneKey) {
        for (seq, aggregate) in rows {
            self.append(*seq, aggregate, key.clone());
        }
        self.announce();
    }

    /// The events of each call that is under way.
    fn under_way(&self) -> Vec<Vec<i64>> {
        self.calls.values().cloned().collect()
    }

    /// Ends the call with this event; each of its events has the outcome.
    fn end(&mut self, seq: i64, outcome: Outcome) {
        let call = self.calls.iter().find(|(_, seqs)| seqs.contains(&seq));
        let (id, count) = call.map(|(id, seqs)| (*id, seqs.len())).expect("it is under way");
        self.end_call(id, vec![outcome; count], &[]);
        self.rest();
    }

    /// Everything that is under way has this outcome, and what follows, for a time.
    fn answer_all(&mut self, time: Duration, outcome: &dyn Fn(i64) -> Outcome) {
        let until = self.now + time;
        self.rest();
        while self.now < until {
            if let Some((id, seqs)) = self.calls.iter().next() {
                let outcomes = seqs.iter().map(|seq| outcome(*seq)).collect();
                self.end_call(*id, outcomes, &[]);
                self.rest();
            } else {
                let next = self.planner.next_timeout(self.now).unwrap_or(until);
                self.now = next.min(until);
                self.rest();
            }
        }
    }

    fn state(&self, seq: i64) -> Option<(ParkState, u32)> {
        self.tables.parked(seq).map(|parked| (parked.state, parked.attempts))
    }

    fn is_sent(&self, seq: i64) -> bool {
        self.tables.rows[&seq].place == Place::Sent
    }

    fn outages(&self) -> usize {
        self.planner.outages().count()
    }
}

#[test]
fn an_event_goes_when_the_one_before_it_is_delivered() {
    let mut world = world();
    world.add(&[(1, "a"), (2, "a"), (3, "b")], web());
    assert_eq!(world.under_way(), [[1], [3]]);
    world.end(1, Outcome::Delivered);
    assert_eq!(world.under_way(), [[3], [2]]);
}

#[test]
fn a_destination_that_takes_runs_gets_several_events_of_an_aggregate_in_order() {
    let mut world = world();
    world.add(&[(1, "a"), (2, "b"), (3, "a"), (4, "a")], lane(0, ""));
    assert_eq!(world.under_way(), [[1, 2, 3, 4]]);
}

#[test]
fn a_destination_that_takes_no_runs_gets_one_event_of_an_aggregate() {
    let mut world = world();
    world.add(&[(1, "a"), (2, "a"), (3, "b"), (4, "a")], lane(2, ""));
    assert_eq!(world.under_way(), [[1, 3]]);
}

#[test]
fn a_failure_is_in_doubt_for_a_second_and_nothing_is_written() {
    let mut world = world();
    world.add(&[(1, "a")], web());
    world.end(1, failed());
    world.pass(ms(999));
    assert_eq!(world.state(1), None);
    world.pass(ms(1));
    assert_eq!(world.state(1), Some((ParkState::Retry, 1)));
}

#[test]
fn a_delivery_ends_the_doubt_at_once() {
    let mut world = world();
    world.add(&[(1, "a"), (2, "b")], web());
    world.end(1, failed());
    world.end(2, Outcome::Delivered);
    world.pass(ms(20));
    assert_eq!(world.state(1), Some((ParkState::Retry, 1)));
}

#[test]
fn one_unavailable_among_good_ones_spends_an_attempt_and_is_no_outage() {
    let mut world = world();
    world.add(&[(1, "a"), (2, "b")], web());
    world.end(1, away());
    world.end(2, Outcome::Delivered);
    world.pass(ms(100));
    assert_eq!((world.state(1), world.outages()), (Some((ParkState::Retry, 1)), 0));
}

#[test]
fn one_unavailable_with_no_delivery_after_it_is_an_outage() {
    let mut world = world();
    world.add(&[(1, "a")], web());
    world.end(1, away());
    world.pass(ms(1_000));
    assert_eq!((world.state(1), world.outages()), (None, 1));
}

#[test]
fn three_aggregates_that_fail_are_an_outage_and_spend_no_attempts() {
    let mut world = world();
    world.add(&[(1, "a"), (2, "b"), (3, "c")], web());
    for seq in 1..=3 {
        assert_eq!(world.outages(), 0);
        world.end(seq, failed());
    }
    assert_eq!(world.outages(), 1);
    assert!(matches!(world.planner.take_news()[..], [News::Out(..)]));
    world.answer_all(ms(20_000), &|_| failed());
    assert!((1..=3).all(|seq| world.state(seq).is_none_or(|(_, attempts)| attempts == 0)));
    world.answer_all(ms(5_000), &|_| Outcome::Delivered);
    assert!((1..=3).all(|seq| world.is_sent(seq)));
    assert!(matches!(world.planner.take_news()[..], [News::Works(..)]));
}

#[test]
fn an_aggregate_that_fails_three_times_is_no_outage() {
    let mut world = world();
    world.add(&[(1, "a"), (2, "b")], web());
    world.end(1, failed());
    world.end(2, failed());
    world.pass(ms(5_000));
    assert_eq!(world.outages(), 0);
}

#[test]
fn a_destination_that_refuses_everything_is_out() {
    let mut world = world();
    world.add(&[(1, "a"), (2, "b"), (3, "c")], web());
    for seq in 1..=3 {
        world.end(seq, refused());
    }
    assert_eq!(world.outages(), 1);
    assert!((1..=3).all(|seq| world.state(seq).is_none()));
}

#[test]
fn an_event_that_is_refused_alone_is_parked_for_a_person_after_a_second() {
    let mut world = world();
    world.add(&[(1, "a"), (2, "a")], web());
    world.end(1, refused());
    world.pass(ms(999));
    assert_eq!(world.state(1), None);
    world.pass(ms(21));
    assert_eq!(world.state(1), Some((ParkState::Parked, 1)));
    assert_eq!(world.state(2), Some((ParkState::Behind, 0)));
    world.tables.discard(1, world.now);
    world.announce();
    assert_eq!(world.under_way(), [[2]]);
}

#[test]
fn what_is_unsendable_is_parked_at_once() {
    let mut world = world();
    world.add(&[(1, "a")], web());
    world.end(1, Outcome::Unsendable("no".to_owned()));
    assert_eq!(world.state(1), Some((ParkState::Parked, 0)));
}

#[test]
fn a_delay_that_a_destination_asks_for_delays_that_event_alone() {
    let mut world = world();
    world.add(&[(1, "a"), (2, "b")], web());
    world.end(1, Outcome::Failed("busy".to_owned(), Some(ms(60_000))));
    world.end(2, Outcome::Delivered);
    world.add(&[(3, "c")], web());
    assert_eq!(world.under_way(), [[3]]);
    world.end(3, Outcome::Delivered);
    world.pass(ms(59_000));
    assert!(world.under_way().is_empty());
    world.pass(ms(2_000));
    assert_eq!(world.under_way(), [[1]]);
}

#[test]
fn probes_are_no_further_apart_than_outage_delay_max_whatever_is_asked_for() {
    let mut world = world();
    let most = world.planner.settings.outage_delay_max;
    let busy = || Outcome::Unavailable("busy".to_owned(), Some(ms(3_600_000)));
    world.add(&[(1, "a"), (2, "b"), (3, "c")], web());
    (1..=3).for_each(|seq| world.end(seq, busy()));
    for _ in 0..5 {
        world.pass(most.saturating_sub(ms(1)));
        assert!(world.under_way().is_empty());
        world.pass(ms(1));
        assert_eq!(world.under_way().len(), 1);
        let seq = world.under_way()[0][0];
        world.end(seq, busy());
    }
}

#[test]
fn an_event_that_brings_everything_down_goes_alone_and_nobody_else_spends_attempts() {
    let mut world = world();
    for seq in 1..=6 {
        world.append(seq, &format!("a/{seq}"), web());
    }
    world.announce();
    let mut last = 6;
    // Whatever is under way with the first event fails; there is always something else to send.
    for _ in 0..400 {
        let seqs: Vec<i64> = world.under_way().concat();
        let outcome = if seqs.contains(&1) { away() } else { Outcome::Delivered };
        for seq in seqs {
            world.end(seq, outcome.clone());
        }
        if world.state(1).is_some_and(|(_, attempts)| attempts > 0) {
            break;
        }
        last += 1;
        world.append(last, &format!("a/{last}"), web());
        world.announce();
        world.pass(ms(50));
    }
    assert!(world.state(1).is_some_and(|(_, attempts)| attempts == 1), "{world:?}");
    let spent = |conclusion: &crate::types::Conclusion| {
        conclusion.parked.iter().any(|park| park.key.seq != 1 && park.attempts > 0)
    };
    let spent: Vec<_> = world.stored.iter().filter(|it| spent(it)).collect();
    assert!(spent.is_empty(), "others spend attempts: {spent:?}");
}

/// Rows of a slow lane that fill the memory, and one of another behind them.
fn full_of_slow_rows(bytes: usize) -> World {
    let mut world = world();
    for seq in 1..=100 {
        world.append(seq, &format!("slow/{seq}"), lane(1, "slow")).bytes = bytes;
    }
    world.append(101, "quick", lane(2, ""));
    world.announce();
    assert!(!world.under_way().contains(&vec![101]), "the memory is full");
    world.pass(ms(3_000));
    world
}

#[test]
fn a_slow_lane_that_fills_the_memory_with_rows_hides_no_other_and_its_rows_come_back() {
    let mut world = full_of_slow_rows(1);
    assert!(world.under_way().contains(&vec![101]));
    world.answer_all(ms(30_000), &|_| Outcome::Delivered);
    assert!((1..=101).all(|seq| world.is_sent(seq)), "{world:?}");
}

#[test]
fn a_slow_lane_that_fills_the_memory_with_bytes_hides_no_other_and_its_rows_come_back() {
    let mut world = full_of_slow_rows(800);
    world.pass(ms(20_000));
    assert!(world.under_way().contains(&vec![101]));
    world.answer_all(ms(30_000), &|_| Outcome::Delivered);
    assert!((1..=101).all(|seq| world.is_sent(seq)), "{world:?}");
}

#[test]
fn an_outage_leaves_others_alone() {
    let mut world = world();
    for seq in 1..=150 {
        world.append(seq, &format!("a/{seq}"), lane(1, "a"));
    }
    for seq in 151..=160 {
        world.append(seq, &format!("b/{seq}"), lane(1, "b"));
    }
    world.announce();
    world.answer_all(ms(8_000), &|seq| if seq <= 150 { away() } else { Outcome::Delivered });
    assert!((151..=160).all(|seq| world.is_sent(seq)), "{world:?}");
    assert!((1..=150).all(|seq| world.state(seq).is_none_or(|(_, attempts)| attempts == 0)));
    world.answer_all(ms(20_000), &|_| Outcome::Delivered);
    assert!((1..=150).all(|seq| world.is_sent(seq)), "{world:?}");
}

#[test]
fn a_destination_that_connects_is_used_while_it_is_up() {
    let mut world = World::new(settings());
    world.add(&[(1, "a"), (2, "b")], lane(0, ""));
    assert!(world.under_way().is_empty());
    world.planner.handle_up(0, world.now);
    world.rest();
    assert_eq!(world.under_way(), [[1, 2]]);
}

#[test]
fn a_row_that_becomes_visible_late_is_read_before_what_is_above_it() {
    let mut world = world();
    world.append(1, "a", web()).visible_at = ms(10);
    world.append(2, "b", web());
    world.announce();
    assert_eq!(world.under_way(), [[2]]);
    world.now = ms(10);
    world.append(3, "a", web());
    world.announce();
    assert_eq!(world.under_way(), [[2], [1]]);
}

#[test]
fn rows_that_are_stored_while_a_read_is_under_way_are_not_taken_twice() {
    let mut world = world();
    world.add(&[(1, "a")], web());
    world.forget();
    world.begin_read();
    world.end_call(0, vec![Outcome::Delivered], &[]);
    world.settle();
    world.store();
    world.answer_asked();
    world.rest();
    assert!(world.under_way().is_empty());
}

#[test]
fn rows_that_are_parked_while_a_read_is_under_way_put_later_ones_behind() {
    let mut world = world();
    world.add(&[(1, "a")], web());
    world.append(2, "a", web());
    world.begin_read();
    world.end_call(0, vec![Outcome::Unsendable("no".to_owned())], &[]);
    world.settle();
    world.store();
    world.answer_asked();
    world.rest();
    assert_eq!(world.state(2), Some((ParkState::Behind, 0)));
}

#[test]
fn what_is_appended_while_a_read_is_under_way_is_read_after_it() {
    let mut world = world();
    world.rest();
    world.begin_read();
    world.append(1, "a", web());
    world.planner.handle_announced(world.now);
    world.rest();
    assert_eq!(world.under_way(), [[1]]);
}

#[test]
fn a_scheduled_event_goes_at_its_time_and_later_ones_of_its_aggregate_after_it() {
    let mut world = world();
    world.append(1, "a", web()).deliver_at = ms(5_000);
    world.append(2, "a", web());
    world.announce();
    assert_eq!(world.state(1), Some((ParkState::Scheduled, 0)));
    world.pass(ms(4_990));
    assert!(world.under_way().is_empty());
    world.pass(ms(200));
    assert_eq!(world.under_way(), [[1]]);
    world.end(1, Outcome::Delivered);
    world.pass(ms(300));
    assert_eq!(world.under_way(), [[2]]);
}

#[test]
fn what_waits_for_a_topic_goes_once_it_is_found_and_hides_no_other() {
    let mut world = world();
    world.missing.insert("kafka:new".to_owned());
    world.append(1, "a", lane(0, "")).topic = Some("kafka:new".to_owned());
    world.announce();
    world.end(1, Outcome::Awaits("kafka:new".to_owned(), "missing".to_owned()));
    assert_eq!(world.state(1), Some((ParkState::Waiting, 0)));
    world.append(2, "b", lane(0, "")).topic = Some("kafka:new".to_owned());
    world.append(3, "c", lane(0, ""));
    world.announce();
    assert_eq!(world.under_way(), [[3]]);
    world.end(3, Outcome::Delivered);
    world.pass(ms(30_000));
    assert!(world.under_way().is_empty());
    world.found("kafka:new");
    world.pass(ms(200));
    assert_eq!(world.under_way(), [[1, 2]]);
}

#[test]
fn an_event_that_failed_attempts_max_times_is_parked_for_a_person() {
    let mut world = world();
    world.add(&[(1, "a")], web());
    world.answer_all(ms(10_000), &|_| failed());
    assert_eq!(world.state(1), Some((ParkState::Parked, 3)));
    let calls = world.stored.iter().flat_map(|conclusion| &conclusion.parked).count();
    assert_eq!(calls, 3, "one for each attempt");
    world.tables.retry(1, world.now);
    world.announce();
    assert_eq!(world.under_way(), [[1]]);
}

#[test]
fn a_claim_that_fails_is_made_again_after_a_delay() {
    let mut world = world();
    world.add(&[(1, "a")], web());
    world.end(1, failed());
    world.pass(ms(1_490));
    let until = ms(2_500);
    while world.now < until {
        if world.asked.is_some() {
            world.fail_asked();
        } else {
            world.rest_at(until);
        }
        world.settle();
    }
    assert!((2..20).contains(&world.claims.len()), "{:?}", world.claims);
}

impl World {
    fn rest_at(&mut self, until: Duration) {
        self.now = self.planner.next_timeout(self.now).unwrap_or(until).min(until);
        if self.storing.is_some() {
            self.store();
        }
    }
}

#[test]
fn what_is_under_way_when_the_session_is_lost_is_not_sent_again() {
    let mut world = world();
    world.add(&[(1, "a"), (2, "a"), (3, "b")], web());
    world.forget();
    world.rest();
    assert_eq!(world.under_way(), [[1], [3]]);
    world.end(1, Outcome::Delivered);
    world.end(3, Outcome::Delivered);
    assert_eq!(world.under_way(), [[2]]);
}

#[test]
fn after_a_lost_session_a_parked_row_waits_for_an_earlier_one_that_is_not_read_yet() {
    let mut world = world();
    for seq in 1..=4 {
        world.append(seq, &format!("b/{seq}"), web());
    }
    world.append(5, "a", web());
    world.append(6, "a", web()).deliver_at = ms(100);
    world.announce();
    world.pass(ms(50));
    assert_eq!(world.state(6), Some((ParkState::Scheduled, 0)));
    world.forget();
    world.now = ms(1_000);
    world.planner.handle_announced(world.now);
    world.rest();
    for _ in 0..4 {
        let seq = world.under_way()[0][0];
        world.end(seq, Outcome::Delivered);
    }
    assert_eq!(world.under_way(), [[5]]);
}

#[test]
fn a_lane_is_not_kept_out_by_an_event_that_makes_every_call_fail() {
    let mut world = world();
    for seq in 1..=20 {
        world.append(seq, "bad", web());
    }
    world.announce();
    world.answer_all(ms(3_000), &|_| away());
    for seq in 21..=80 {
        world.append(seq, &format!("good/{seq}"), web());
    }
    world.announce();
    world.answer_all(ms(30_000), &|seq| if seq == 1 { away() } else { Outcome::Delivered });
    assert!((21..=80).all(|seq| world.is_sent(seq)), "{world:?}");
}

#[test]
fn a_call_that_began_before_an_outage_is_no_probe() {
    let mut world = world();
    world.add(&[(1, "a"), (2, "b"), (3, "c"), (4, "d")], web());
    (1..=3).for_each(|seq| world.end(seq, failed()));
    world.pass(ms(200));
    assert_eq!(world.under_way().len(), 2, "a probe is under way");
    world.end(4, failed());
    world.pass(ms(3_000));
    assert_eq!(world.under_way().len(), 1, "there is one probe at a time");
}

#[test]
fn what_is_paused_begins_nothing_and_ends_what_is_under_way() {
    let mut world = world();
    for seq in 1..=20 {
        world.append(seq, &format!("a/{seq}"), web());
    }
    world.announce();
    world.planner.pause();
    for seq in 1..=4 {
        world.end(seq, failed());
    }
    world.append(21, "b", web());
    world.announce();
    world.pass(ms(30_000));
    assert!(world.under_way().is_empty());
    assert!(world.planner.is_settled());
}
