//! The rules of calls, outages and attempts, one by one.

use std::time::Duration;

use super::{database::FeedRow, settings, world::World};
use crate::types::{News, Outcome, ParkState, PlannerSettings};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MILLI: Duration = Duration::from_millis(1);

pub(super) fn failed() -> Outcome {
    Outcome::Failed("500".into(), None)
}

pub(super) fn unavailable() -> Outcome {
    Outcome::Unavailable("refused".into(), None)
}

pub(super) fn refused() -> Outcome {
    Outcome::Refused("404".into())
}

/// Destinations `d0`, up, which takes runs, `d1` and `d2`; `d1` has three calls of one event, `d2` of three.
pub(super) fn world() -> World {
    world_of(settings(3))
}

pub(super) fn world_of(settings: PlannerSettings) -> World {
    let mut world = World::new(settings);
    world.planner.handle_up(0, world.now);
    world
}

/// Large bounds but for a destination of one event at a time, `d1`.
pub(super) fn roomy() -> PlannerSettings {
    let mut settings = settings(3);
    (settings.batch_rows, settings.rows_max) = (40, 160);
    (settings.batch_bytes, settings.bytes_max) = (10_000, 40_000);
    settings
}

/// A row of each of these aggregates, under way at `d1`.
pub(super) fn under_way(world: &mut World, aggregates: std::ops::Range<usize>) -> Vec<i64> {
    let rows = aggregates.map(|aggregate| world.add(aggregate, 1)).collect();
    world.settle_database();
    assert_eq!(world.under_way(), rows);
    rows
}

/// `d1` is out: three aggregates have failed.
pub(super) fn outage(world: &mut World, with: &Outcome) -> Vec<i64> {
    let rows = under_way(world, 0..3);
    for row in &rows {
        world.end(*row, with.clone());
    }
    world.settle_database();
    rows
}

#[test]
fn one_event_of_an_aggregate_is_under_way_and_the_next_after_its_delivery() {
    let mut world = world();
    let (first, second, other) = (world.add(0, 1), world.add(0, 1), world.add(1, 1));
    world.settle_database();
    assert_eq!(world.under_way(), [first, other]);
    world.end(first, Outcome::Delivered);
    world.settle_database();
    assert_eq!(world.under_way(), [second, other]);
}

#[test]
fn a_destination_that_takes_runs_is_given_the_events_of_an_aggregate_together() {
    let mut world = world();
    let rows: Vec<i64> = (0..3).map(|_| world.add(0, 0)).collect();
    world.settle_database();
    assert_eq!(world.calls[0].seqs, rows);
}

#[test]
fn a_run_ends_where_the_aggregate_goes_elsewhere() {
    let mut world = world();
    let (first, elsewhere, last) = (world.add(0, 0), world.add(0, 1), world.add(0, 0));
    world.settle_database();
    assert_eq!(world.under_way(), [first]);
    world.end(first, Outcome::Delivered);
    world.settle_database();
    assert_eq!(world.under_way(), [elsewhere]);
    world.end(elsewhere, Outcome::Delivered);
    world.settle_database();
    assert_eq!(world.under_way(), [last]);
}

#[test]
fn what_is_behind_one_that_did_not_go_of_a_run_is_parked_behind_it() {
    let mut world = world();
    let (first, second) = (world.add(0, 0), world.add(0, 0));
    world.settle_database();
    let outcomes = [Outcome::Unsendable("too large".into()), Outcome::NotTried];
    world.end_call(0, outcomes.map(|outcome| (outcome, false)).to_vec());
    world.settle_database();
    assert_eq!(world.state(first), Some(ParkState::Parked));
    assert_eq!(world.state(second), Some(ParkState::Behind));
}

#[test]
fn a_failure_is_in_doubt_until_a_second_has_passed() {
    let mut world = world();
    let row = under_way(&mut world, 0..1)[0];
    world.end(row, failed());
    world.run_for(999 * MILLI);
    assert_eq!(world.state(row), None);
    world.run_for(SECOND);
    assert_eq!(world.state(row), Some(ParkState::Retry));
    assert_eq!(world.attempts(row), 1);
}

#[test]
fn a_failure_is_in_doubt_until_something_is_delivered() {
    let mut world = world();
    let rows = under_way(&mut world, 0..2);
    world.end(rows[0], failed());
    world.settle_database();
    assert_eq!(world.state(rows[0]), None);
    world.end(rows[1], Outcome::Delivered);
    world.settle_database();
    assert_eq!(world.state(rows[0]), Some(ParkState::Retry));
}

#[test]
fn what_cannot_be_reached_alone_while_others_can_spends_an_attempt() {
    let mut world = world();
    let rows = under_way(&mut world, 0..3);
    world.end(rows[0], unavailable());
    world.end(rows[1], Outcome::Delivered);
    world.run_for(SECOND / 2);
    assert_eq!((world.state(rows[0]), world.attempts(rows[0])), (Some(ParkState::Retry), 1));
    assert!(!world.is_out(1));
}

#[test]
fn what_cannot_be_reached_and_nothing_else_is_tried_is_an_outage() {
    let mut world = world();
    let row = under_way(&mut world, 0..1)[0];
    world.end(row, unavailable());
    world.run_for(SECOND);
    assert!(world.is_out(1));
    world.run_for(5 * SECOND);
    assert_eq!(world.attempts(row), 0);
}

#[test]
fn three_aggregates_that_fail_with_no_delivery_are_an_outage_and_spend_no_attempt() {
    let mut world = world();
    let rows = outage(&mut world, &failed());
    assert!(world.is_out(1));
    assert!(matches!(&world.news[..], [News::Out(key, _, _)] if key.destination == 1));
    world.run_for(3 * SECOND);
    for row in &rows {
        assert_eq!(world.attempts(*row), 0);
    }
    world.deliver_all();
    world.run_for(SECOND);
    world.deliver_all();
    assert!(world.undone().is_empty());
    assert!(matches!(world.news.last(), Some(News::Works(..))));
}

#[test]
fn two_aggregates_that_fail_are_no_outage() {
    let mut world = world();
    let rows = under_way(&mut world, 0..2);
    for row in &rows {
        world.end(*row, failed());
    }
    world.run_for(SECOND);
    assert!(!world.is_out(1));
    assert_eq!(world.attempts(rows[0]), 1);
}

#[test]
fn what_is_refused_by_all_is_an_outage() {
    let mut world = world();
    let rows = outage(&mut world, &refused());
    assert!(world.is_out(1));
    world.run_for(2 * SECOND);
    assert!(rows.iter().all(|row| world.state(*row) != Some(ParkState::Parked)));
}

#[test]
fn what_is_refused_alone_is_parked_after_a_second() {
    let mut world = world();
    let row = under_way(&mut world, 0..1)[0];
    world.end(row, refused());
    world.run_for(999 * MILLI);
    assert_eq!(world.state(row), None);
    world.run_for(MILLI);
    world.run_for(SECOND / 10);
    assert_eq!(world.state(row), Some(ParkState::Parked));
}

#[test]
fn the_time_that_one_event_asks_for_delays_that_event_alone() {
    let mut world = world();
    let rows = under_way(&mut world, 0..2);
    world.end(rows[0], Outcome::Failed("429".into(), Some(60 * SECOND)));
    world.end(rows[1], Outcome::Delivered);
    let other = world.add(5, 1);
    world.run_for(2 * SECOND);
    assert_eq!(world.under_way(), [other]);
    world.run_for(57 * SECOND);
    assert_eq!(world.under_way(), [other]);
    world.run_for(12 * SECOND);
    assert_eq!(world.under_way(), [rows[0], other]);
}

#[test]
fn probes_are_no_further_apart_than_they_may_whatever_is_asked_for() {
    let mut world = world();
    let hour = Outcome::Unavailable("503".into(), Some(3_600 * SECOND));
    outage(&mut world, &hour);
    for _ in 0..5 {
        world.run_for(world.settings.outage_delay_max + SECOND / 5);
        let row = world.under_way()[0];
        assert_eq!(world.calls.len(), 1, "one probe at a time");
        world.end(row, hour.clone());
    }
}

#[test]
fn what_was_under_way_when_two_outages_began_goes_alone_and_nobody_else_spends_attempts() {
    let mut settings = roomy();
    settings.destinations[1].calls_max = 6;
    let mut world = world_of(settings);
    let poison = under_way(&mut world, 0..6)[0];
    for fresh in [10, 20] {
        assert!(world.under_way().contains(&poison));
        for row in world.under_way() {
            world.end(row, failed());
        }
        assert!(world.is_out(1));
        for aggregate in fresh..fresh + 4 {
            world.add(aggregate, 1);
        }
        if fresh == 20 {
            // Longer than failures are remembered.
            for _ in 0..15 {
                world.run_for(6 * SECOND);
                let probe = world.under_way()[0];
                world.end(probe, unavailable());
            }
            world.run_for(6 * SECOND);
        } else {
            world.run_for(SECOND / 5);
        }
        let probe = world.under_way();
        assert!(probe.len() == 1 && probe[0] != poison, "{probe:?}");
        world.end(probe[0], Outcome::Delivered);
        world.settle_database();
    }
    for _ in 0..100 {
        let calls = world.under_way();
        for row in &calls {
            let outcome = if calls.contains(&poison) { failed() } else { Outcome::Delivered };
            world.end(*row, outcome);
        }
        world.run_for(SECOND / 10);
    }
    assert_eq!(world.state(poison), Some(ParkState::Parked));
    assert_eq!(world.undone(), [0; 0]);
    assert!(world.failed_for_themselves().eq([poison]));
    let began = |news: &&News| matches!(news, News::Out(_, _, lasts) if lasts.is_zero());
    assert_eq!(world.news.iter().filter(began).count(), 2, "{:?}", world.news);
}

#[test]
fn what_failed_in_an_outage_does_not_keep_its_destination_out() {
    let mut world = world_of(roomy());
    let bad = outage(&mut world, &failed());
    let good: Vec<i64> = (10..14).map(|aggregate| world.add(aggregate, 1)).collect();
    for _ in 0..30 {
        world.run_for(SECOND);
        for row in world.under_way() {
            let outcome = if bad.contains(&row) { failed() } else { Outcome::Delivered };
            world.end(row, outcome);
        }
    }
    assert!(good.iter().all(|row| world.is_done(*row)));
    let outs = world.news.iter().filter(|news| matches!(news, News::Out(..))).count();
    assert_eq!(outs, 1, "{:?}", world.news);
    assert!(bad.iter().all(|row| world.attempts(*row) > 0));
}

#[test]
fn an_outage_that_nothing_is_left_to_probe_ends() {
    let mut world = world();
    let rows = outage(&mut world, &failed());
    world.run_for(2 * SECOND);
    for row in world.under_way() {
        world.end(row, failed());
    }
    world.run_for(SECOND / 10);
    for row in &rows {
        assert!(world.decide(*row, true), "{row} is parked");
    }
    world.run_for(120 * SECOND);
    assert!(!world.is_out(1));
    assert!(matches!(world.news.last(), Some(News::Works(..))));
}

#[test]
fn an_outage_of_one_destination_leaves_others_alone() {
    let mut world = world();
    outage(&mut world, &failed());
    let other = world.add(7, 2);
    world.settle_database();
    assert!(world.under_way().contains(&other));
}

#[test]
fn an_outage_of_a_part_leaves_other_parts_alone() {
    let mut world = world();
    let row = |aggregate, scope| FeedRow { scope, ..FeedRow::of(aggregate, 2) };
    for aggregate in 0..3 {
        world.append(row(aggregate, "a"));
    }
    world.settle_database();
    world.end(1, failed());
    assert!(world.is_out(2));
    let other = world.append(row(9, "b"));
    world.settle_database();
    assert_eq!(world.under_way(), [other]);
    world.run_for(2 * SECOND);
    assert_eq!(world.database.parked[&2].destination, "d2/a");
}

#[test]
fn within_an_aggregate_what_is_behind_a_failure_waits_and_what_is_before_it_goes() {
    let mut world = world();
    let (before, bad, behind) = (world.add(0, 2), world.add(0, 1), world.add(0, 2));
    world.settle_database();
    assert_eq!(world.under_way(), [before]);
    world.end(before, Outcome::Delivered);
    world.settle_database();
    world.end(bad, failed());
    world.run_for(SECOND);
    world.run_for(SECOND / 10);
    assert_eq!(world.state(bad), Some(ParkState::Retry));
    assert_eq!(world.state(behind), Some(ParkState::Behind));
    world.run_for(2 * SECOND);
    world.deliver_all();
    world.run_for(SECOND);
    world.deliver_all();
    assert_eq!(world.delivered, [before, bad, behind]);
}

#[test]
fn while_it_is_paused_nothing_is_begun_and_what_is_under_way_is_stored() {
    let mut world = world();
    let row = under_way(&mut world, 0..1)[0];
    let next = world.add(0, 1);
    world.planner.pause();
    assert!(!world.planner.is_settled());
    world.end(row, Outcome::Delivered);
    world.settle_database();
    assert!(world.planner.is_settled());
    assert!(world.is_done(row) && world.calls.is_empty() && !world.is_done(next));
}

#[test]
fn what_is_in_doubt_when_it_is_paused_is_left_as_it_is() {
    let mut world = world();
    let row = under_way(&mut world, 0..1)[0];
    world.end(row, failed());
    world.planner.pause();
    world.settle_database();
    assert!(world.planner.is_settled());
    assert_eq!(world.state(row), None);
}

#[test]
fn an_event_is_parked_after_its_last_attempt() {
    let mut world = world();
    let row = under_way(&mut world, 0..1)[0];
    for attempt in 1..=world.settings.attempts_max {
        world.end(row, failed());
        world.run_for(SECOND);
        world.run_for(SECOND / 10);
        assert_eq!(world.attempts(row), attempt);
        if attempt < world.settings.attempts_max {
            world.run_for(world.settings.delay_max);
        }
    }
    assert_eq!(world.state(row), Some(ParkState::Parked));
    world.run_for(100 * SECOND);
    assert!(world.calls.is_empty());
}

#[test]
fn attempts_are_kept_over_an_outage() {
    let mut world = world();
    let row = under_way(&mut world, 0..1)[0];
    world.end(row, failed());
    world.run_for(2 * SECOND + SECOND / 2);
    assert_eq!(world.under_way(), [row]);
    let others: Vec<i64> = (1..3).map(|aggregate| world.add(aggregate, 1)).collect();
    world.settle_database();
    for failing in [row, others[0], others[1]] {
        world.end(failing, failed());
    }
    assert!(world.is_out(1));
    world.run_for(SECOND / 10);
    for _ in 0..20 {
        world.run_for(SECOND);
        for row in world.under_way() {
            world.end(row, unavailable());
        }
    }
    assert!(world.is_out(1));
    assert_eq!(world.attempts(row), 1);
    assert!(others.iter().all(|other| world.attempts(*other) == 0));
}

#[test]
fn a_batch_that_was_too_much_is_halved_and_grows_again() {
    let mut world = world();
    world.planner.handle_mixed(0, 4);
    for aggregate in 0..8 {
        world.add(aggregate, 0);
    }
    let mut sizes = Vec::new();
    world.settle_database();
    while let Some(call) = world.calls.first() {
        sizes.push(call.seqs.len());
        world.end(call.seqs[0], Outcome::Delivered);
        world.settle_database();
    }
    assert_eq!(sizes, [2, 4, 2]);
}
