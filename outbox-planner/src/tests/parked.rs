//! The rules of what is parked, read and forgotten, one by one.

use super::{
    database::FeedRow,
    scenarios::{MILLI, SECOND, failed, outage, roomy, under_way, world, world_of},
    settings,
    world::World,
};
use crate::types::{Effect, Outcome, ParkState, PlannerSettings};

/// One aggregate has more rows than fit into the memory; its first one.
fn full_of_one_aggregate() -> (World, i64) {
    let mut world = world_of(PlannerSettings { rows_max: 120, ..roomy() });
    let first = world.add(0, 1);
    for _ in 0..150 {
        world.add(0, 1);
    }
    (world, first)
}

/// Runs until the rows that fill the memory are to be parked, which is not stored yet.
fn run_until_shortened(world: &mut World) {
    world.settle_database();
    for _ in 0..300 {
        if world.queue_of(0) == 0 {
            break;
        }
        world.now += 10 * MILLI;
        world.carry_out();
        if world.queue_of(0) > 0 {
            world.settle_database();
        }
    }
}

/// All that is left is delivered within this many tenths of a second.
fn deliver_rest(world: &mut World, tenths: u32) {
    for _ in 0..tenths {
        world.deliver_all();
        world.run_for(SECOND / 10);
    }
    assert!(world.undone().is_empty());
}

/// `d1` answers nothing; first come rows for it, then one for `d2`.
fn hidden(settings: PlannerSettings, slow: usize, bytes: usize) {
    let mut world = world_of(settings);
    for aggregate in 0..slow {
        world.append(FeedRow { bytes, ..FeedRow::of(aggregate, 1) });
    }
    let other = world.add(1_000, 2);
    for _ in 0..20 {
        world.run_for(SECOND);
    }
    assert!(world.under_way().contains(&other), "it is hidden");
    // The rows of the slow one come back.
    deliver_rest(&mut world, 400);
}

#[test]
fn a_slow_lane_that_fills_the_memory_with_rows_does_not_hide_others() {
    hidden(settings(3), 100, 1);
}

#[test]
fn a_slow_lane_that_fills_the_memory_with_bytes_does_not_hide_others() {
    let mut settings = settings(3);
    settings.rows_max = 1_000;
    hidden(settings, 30, 40);
}

#[test]
fn a_destination_that_is_out_for_long_keeps_nothing_in_memory() {
    let mut world = world();
    outage(&mut world, &failed());
    let late: Vec<i64> = (10..15).map(|aggregate| world.add(aggregate, 1)).collect();
    world.run_for(2 * SECOND);
    assert!(late.iter().filter(|row| world.state(**row) == Some(ParkState::Waiting)).count() >= 4);
}

#[test]
fn a_destination_that_is_away_for_long_keeps_nothing_in_memory() {
    let mut world = world();
    world.planner.handle_down(0, "away".into(), world.now);
    let row = world.add(0, 0);
    world.run_for(SECOND);
    assert_eq!(world.state(row), None);
    world.run_for(2 * SECOND);
    assert_eq!(world.state(row), Some(ParkState::Waiting));
    assert!(world.calls.is_empty());
    world.planner.handle_up(0, world.now);
    world.run_for(SECOND);
    assert_eq!(world.under_way(), [row]);
}

#[test]
fn one_aggregate_that_fills_the_memory_does_not_hide_others() {
    let (mut world, first) = full_of_one_aggregate();
    let other = world.add(1, 1);
    world.run_for(5 * SECOND);
    assert!(world.under_way().contains(&other));
    assert!(world.database.parked[&first].claimed, "what is under way is parked, and claimed");
    // It is known all the same, and delivered once.
    world.planner.handle_announced(world.now);
    world.run_for(SECOND);
    deliver_rest(&mut world, 400);
}

#[test]
fn one_aggregate_that_goes_slowly_does_not_hide_others_either() {
    let mut settings = roomy();
    settings.rows_max = 120;
    let mut world = world_of(settings);
    for _ in 0..900 {
        world.add(0, 1);
    }
    let other = world.add(1, 1);
    // A delivery now and then makes room for a read.
    for _ in 0..200 {
        world.run_for(SECOND / 40);
        world.deliver_all();
    }
    assert!(world.is_done(other));
}

#[test]
fn what_is_delivered_before_it_is_stored_that_it_is_parked_is_never_parked() {
    let (mut world, first) = full_of_one_aggregate();
    run_until_shortened(&mut world);
    world.end(first, Outcome::Delivered);
    world.settle_database();
    assert!(world.is_done(first) && world.state(first).is_none());
    deliver_rest(&mut world, 200);
}

#[test]
fn what_is_forgotten_before_it_is_stored_that_it_is_parked_and_claimed_is_not_claimed() {
    for storing in [false, true] {
        let (mut world, first) = full_of_one_aggregate();
        run_until_shortened(&mut world);
        if storing {
            world.now += SECOND / 20;
            world.carry_out();
            assert!(world.storing.is_some());
        }
        world.end(first, failed());
        world.lose_session();
        world.settle_database();
        let claimed = world.database.parked.get(&first).is_some_and(|park| park.claimed);
        assert_eq!(claimed, world.under_way().contains(&first));
        deliver_rest(&mut world, 200);
    }
}

#[test]
fn a_row_that_becomes_visible_late_is_read_before_what_is_above_it() {
    let mut world = world();
    let late = world.append(FeedRow { visible: false, ..FeedRow::of(0, 1) });
    let above = world.add(1, 1);
    world.settle_database();
    assert_eq!(world.under_way(), [above]);
    world.database.feed.get_mut(&late).unwrap().visible = true;
    let last = world.add(2, 1);
    world.carry_out();
    world.look();
    world.answer();
    world.carry_out();
    assert!(!world.under_way().contains(&last), "the late one comes first");
    world.settle_database();
    assert_eq!(world.under_way(), [late, above, last]);
}

#[test]
fn a_row_that_was_stored_while_a_read_was_under_way_is_not_taken_again() {
    let mut world = world();
    let row = under_way(&mut world, 0..1)[0];
    world.lose_session();
    world.carry_out();
    world.look();
    for _ in 0..3 {
        if !matches!(world.asking.as_ref().unwrap().effect, Effect::Read(_)) {
            world.answer();
            world.carry_out();
        }
    }
    world.look();
    world.end(row, Outcome::Delivered);
    world.carry_out();
    world.store();
    world.answer();
    world.settle_database();
    assert_eq!(world.under_way(), [0; 0]);
    assert!(world.is_done(row));
}

#[test]
fn rows_whose_aggregate_was_parked_during_a_read_are_parked_behind() {
    let mut world = world();
    let rows = under_way(&mut world, 0..2);
    let (bad, good) = (rows[0], rows[1]);
    world.end(bad, Outcome::Unsendable("400".into()));
    let behind = world.add(0, 1);
    world.carry_out();
    world.look();
    // What is read does not show yet what is stored now.
    world.now += SECOND / 10;
    world.carry_out();
    world.store();
    world.answer();
    world.end(good, Outcome::Delivered);
    world.settle_database();
    assert_eq!(world.under_way(), [0; 0]);
    world.run_for(SECOND);
    assert_eq!(world.state(behind), Some(ParkState::Behind));
}

#[test]
fn rows_that_an_earlier_parked_one_blocks_are_parked_behind_it() {
    let mut world = world();
    let bad = world.append(FeedRow { unsendable: true, ..FeedRow::of(0, 1) });
    world.run_for(SECOND);
    let behind = world.add(0, 1);
    world.run_for(SECOND);
    assert_eq!(world.state(bad), Some(ParkState::Parked));
    assert_eq!(world.state(behind), Some(ParkState::Behind));
    world.decide(bad, true);
    world.planner.handle_announced(world.now);
    world.run_for(SECOND);
    assert_eq!(world.under_way(), [behind]);
}

#[test]
fn a_scheduled_row_goes_at_its_time_and_what_is_behind_it_after_it() {
    let mut world = world();
    let row = world.append(FeedRow { not_before: 5 * SECOND, ..FeedRow::of(0, 1) });
    let behind = world.add(0, 1);
    world.run_for(4_999 * MILLI);
    assert_eq!(world.state(row), Some(ParkState::Scheduled));
    assert_eq!(world.state(behind), Some(ParkState::Behind));
    world.run_for(SECOND / 2);
    assert_eq!(world.under_way(), [row]);
    world.end(row, Outcome::Delivered);
    world.run_for(SECOND);
    assert_eq!(world.under_way(), [behind]);
}

#[test]
fn a_row_behind_what_is_under_way_is_not_parked_before_that_is_delivered() {
    let mut world = world();
    let first = under_way(&mut world, 0..1)[0];
    let row = world.append(FeedRow { not_before: 5 * SECOND, ..FeedRow::of(0, 1) });
    world.run_for(2 * SECOND);
    assert_eq!(world.state(row), None);
    world.end(first, Outcome::Delivered);
    world.run_for(SECOND);
    assert_eq!(world.state(row), Some(ParkState::Scheduled));
}

#[test]
fn a_scheduled_row_behind_one_that_is_parked_has_no_time_of_its_own() {
    let mut world = world();
    let bad = under_way(&mut world, 0..1)[0];
    let row = world.append(FeedRow { not_before: 5 * SECOND, ..FeedRow::of(0, 1) });
    world.settle_database();
    world.end(bad, Outcome::Unsendable("400".into()));
    world.run_for(60 * SECOND);
    assert_eq!(world.state(row), Some(ParkState::Behind));
    assert!(world.effects < 60, "{} effects, though nothing can be done", world.effects);
    world.decide(bad, true);
    world.run_for(20 * SECOND);
    assert_eq!(world.under_way(), [row]);
}

#[test]
fn a_missing_topic_closes_its_name_and_one_that_is_found_opens_it() {
    let mut world = world();
    world.missing.insert("d0:t0".into());
    let (row, other) = (world.add(0, 0), world.add(1, 0));
    world.settle_database();
    let awaits = Outcome::Awaits("d0:t0".into(), "missing".into());
    world.end_call(0, vec![(awaits, false), (Outcome::Delivered, true)]);
    world.run_for(30 * SECOND);
    assert_eq!(world.state(row), Some(ParkState::Waiting));
    assert!(world.is_done(other));
    assert_eq!(world.planner.missing().collect::<Vec<_>>(), ["d0:t0"]);
    assert!(world.calls.is_empty(), "nobody claims it");
    world.missing.clear();
    world.ask_for_topics();
    world.run_for(SECOND);
    assert_eq!(world.under_way(), [row]);
}

#[test]
fn a_claimed_row_that_fails_puts_those_that_were_claimed_behind_it_behind() {
    let mut world = world();
    let bad = world.append(FeedRow { unsendable: true, ..FeedRow::of(0, 1) });
    let behind: Vec<i64> = (0..3).map(|_| world.add(0, 1)).collect();
    world.run_for(SECOND);
    world.decide(bad, false);
    world.planner.handle_announced(world.now);
    world.run_for(SECOND);
    assert_eq!(world.under_way(), [bad]);
    assert_eq!(world.queue_of(0), 3, "the others are claimed with it");
    world.end(bad, failed());
    world.run_for(SECOND);
    world.run_for(SECOND / 10);
    assert_eq!(world.state(bad), Some(ParkState::Retry));
    assert!(behind.iter().all(|row| world.state(*row) == Some(ParkState::Behind)));
}

#[test]
fn a_row_that_is_claimed_while_its_parking_is_stored_is_not_claimed_for_ever() {
    let mut world = world();
    let rows = under_way(&mut world, 0..2);
    let due = world.append(FeedRow { not_before: SECOND, ..FeedRow::of(9, 1) });
    world.run_for(999 * MILLI);
    assert_eq!(world.state(due), Some(ParkState::Scheduled));
    // A claim for the one that is due sees another that was parked a moment before.
    world.end(rows[0], Outcome::Failed("500".into(), None));
    world.end(rows[1], Outcome::Delivered);
    world.now += SECOND / 10;
    world.carry_out();
    assert!(matches!(world.asking.as_ref().unwrap().effect, Effect::Claim(..)));
    assert!(world.storing.is_some());
    world.commit();
    world.database.parked.get_mut(&rows[0]).unwrap().due_at = Some(world.now);
    world.look();
    assert!(world.database.parked[&rows[0]].claimed);
    world.answer();
    world.store();
    world.carry_out();
    // It is parked once more, and nothing is claimed before that is stored: a claim would take it again.
    assert!(world.storing.is_some());
    world.commit();
    world.database.parked.get_mut(&rows[0]).unwrap().due_at = Some(world.now);
    let claims = |world: &World| {
        matches!(world.asking.as_ref().map(|it| &it.effect), Some(Effect::Claim(..)))
    };
    for _ in 0..5 {
        assert!(!claims(&world));
        world.answer();
        world.planner.handle_announced(world.now);
        world.now += SECOND / 5;
        world.carry_out();
    }
    for _ in 0..20 {
        world.deliver_all();
        world.run_for(SECOND);
    }
    assert!(world.undone().is_empty());
}

#[test]
fn a_delivery_that_is_stored_while_it_is_asked_what_is_due_leads_to_another_look() {
    let mut world = world();
    let bad = world.append(FeedRow { unsendable: true, ..FeedRow::of(0, 1) });
    let behind = world.add(0, 1);
    world.run_for(SECOND);
    world.decide(bad, false);
    world.database.parked.get_mut(&behind).unwrap().state = ParkState::Behind;
    world.database.parked.get_mut(&behind).unwrap().due_at = None;
    world.planner.handle_announced(world.now);
    world.settle_database();
    world.run_for(SECOND);
    assert_eq!(world.under_way(), [bad]);
    world.planner.handle_announced(world.now);
    world.carry_out();
    for _ in 0..3 {
        if !matches!(world.asking.as_ref().unwrap().effect, Effect::AskDues) {
            world.answer();
            world.carry_out();
        }
    }
    assert!(matches!(world.asking.as_ref().unwrap().effect, Effect::AskDues));
    world.look();
    world.end(bad, Outcome::Delivered);
    world.carry_out();
    world.store();
    world.answer();
    world.run_for(SECOND / 10);
    assert_eq!(world.under_way(), [behind]);
}

#[test]
fn rows_that_are_forgotten_are_read_again() {
    let mut world = world();
    let (first, second) = (world.add(0, 1), world.add(0, 1));
    world.settle_database();
    world.lose_session();
    world.settle_database();
    assert_eq!(world.under_way(), [first]);
    world.deliver_all();
    assert_eq!(world.delivered, [first, second]);
}

#[test]
fn what_was_under_way_when_rows_were_forgotten_and_failed_is_read_again_by_itself() {
    let mut world = world();
    let rows = under_way(&mut world, 0..1);
    world.lose_session();
    world.settle_database();
    world.end(rows[0], failed());
    world.settle_database();
    assert_eq!(world.under_way(), rows);
    assert_eq!(world.attempts(rows[0]), 0);
}

#[test]
fn what_was_claimed_and_under_way_when_rows_were_forgotten_and_failed_is_claimed_again() {
    let mut world = world();
    let bad = world.append(FeedRow { unsendable: true, ..FeedRow::of(0, 1) });
    let behind = world.add(0, 1);
    world.run_for(SECOND);
    world.decide(bad, false);
    world.planner.handle_announced(world.now);
    world.run_for(SECOND);
    assert_eq!(world.under_way(), [bad]);
    world.lose_session();
    world.run_for(SECOND);
    world.end(bad, failed());
    for _ in 0..10 {
        world.run_for(SECOND);
        world.deliver_all();
    }
    assert_eq!(world.delivered, [bad, behind]);
}

#[test]
fn rows_that_are_announced_during_a_read_lead_to_another() {
    let mut world = world();
    world.settle_database();
    world.planner.handle_poll();
    world.carry_out();
    world.look();
    let row = world.add(0, 1);
    world.settle_database();
    assert_eq!(world.under_way(), [row]);
}

#[test]
fn a_read_that_failed_is_made_again() {
    let mut world = world();
    let row = world.add(0, 1);
    world.carry_out();
    while world.asking.is_some() {
        world.fail_ask();
        world.carry_out();
    }
    assert!(world.calls.is_empty());
    world.run_for(SECOND);
    assert_eq!(world.under_way(), [row]);
}

#[test]
fn a_store_that_is_committed_twice_changes_nothing() {
    let mut world = world();
    let (row, behind) = (world.add(0, 1), world.add(0, 1));
    world.settle_database();
    world.end(row, Outcome::Unsendable("400".into()));
    world.now += SECOND;
    world.carry_out();
    world.commit();
    let before = world.database.clone();
    world.commit();
    assert_eq!(world.database, before);
    world.settle_database();
    assert_eq!(world.state(behind), Some(ParkState::Behind));
}
