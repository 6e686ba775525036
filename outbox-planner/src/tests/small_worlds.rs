//! Every history of two small worlds: each order of what happens, with a few faults at any place.

use std::{
    collections::{HashSet, hash_map::DefaultHasher},
    fmt::Write,
    hash::{Hash, Hasher},
};

use super::{
    tables::Place,
    world::{Asked, World, lane, ms, settings},
};
use crate::types::{Outcome, ParkState, Time};

/// How much may still go wrong, and how often time may pass.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Budget {
    faults: u8,
    losses: u8,
    people: u8,
    waits: u8,
}

type State = (World, Budget);

/// The same for states that go on in the same way.
fn fingerprint((world, budget): &State) -> u64 {
    let World { now, planner, tables, asked, storing, is_committed, is_unstored, calls, .. } =
        world;
    let mut text = String::new();
    let mut known: Vec<_> = planner.known.iter().collect();
    known.sort_unstable();
    let mut queues: Vec<_> = planner.queues.iter().collect();
    queues.sort_unstable_by_key(|(name, _)| *name);
    write!(text, "{budget:?}{now:?}{known:?}{queues:?}{:?}{:?}", planner.lanes, planner.dues)
        .unwrap();
    write!(text, "{:?}{:?}{tables:?}{asked:?}", planner.reading, planner.store).unwrap();
    let calls: Vec<_> = calls.values().collect();
    write!(text, "{storing:?}{is_committed}{is_unstored}{calls:?}").unwrap();
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// All that can happen next.
fn next(state: &State) -> Vec<State> {
    let mut states = Vec::new();
    let (world, budget) = state;
    let mut then = |budget: Budget, happens: &dyn Fn(&mut World)| {
        let mut world = world.clone();
        happens(&mut world);
        world.settle();
        states.push((world, budget));
    };
    let fault = budget.faults.checked_sub(1).map(|faults| Budget { faults, ..*budget });
    if let Some(asked) = &world.asked {
        then(*budget, &World::answer_asked);
        if matches!(asked, Asked::Read(_, None) | Asked::Claim(.., None)) {
            then(*budget, &World::look);
        }
        if let Some(budget) = fault {
            then(budget, &World::fail_asked);
        }
    }
    if world.storing.is_some() {
        then(*budget, &World::store);
        if !world.is_committed {
            then(*budget, &World::commit);
        }
        if let Some(budget) = fault {
            then(budget, &|world| world.fail_store(world.is_committed));
        }
    }
    for (id, seqs) in &world.calls {
        let all = |outcome: Outcome| vec![outcome; seqs.len()];
        then(*budget, &|world| world.end_call(*id, all(Outcome::Delivered), &[]));
        let Some(budget) = fault else { continue };
        let mut first = all(Outcome::NotTried);
        first[0] = Outcome::Failed("no".to_owned(), None);
        then(budget, &|world| world.end_call(*id, first.clone(), &[]));
        let away = Outcome::Unavailable("away".to_owned(), None);
        then(budget, &|world| world.end_call(*id, all(away.clone()), seqs));
        first[0] = Outcome::Unsendable("no".to_owned());
        then(budget, &|world| world.end_call(*id, first.clone(), &[]));
    }
    if let Some(losses) = budget.losses.checked_sub(1) {
        then(Budget { losses, ..*budget }, &|world| {
            if world.asked.is_some() {
                world.fail_asked();
            }
            if world.storing.is_some() && !world.is_unstored {
                world.fail_store(world.is_committed);
            }
            world.forget();
        });
    }
    if let Some(people) = budget.people.checked_sub(1) {
        let parked = world.tables.rows.keys().filter(|seq| world.tables.parked(**seq).is_some());
        for seq in parked {
            then(Budget { people, ..*budget }, &|world| {
                world.tables.retry(*seq, world.now);
                world.planner.handle_announced(world.now);
            });
            then(Budget { people, ..*budget }, &|world| {
                world.tables.discard(*seq, world.now);
                world.planner.handle_announced(world.now);
            });
        }
    }
    if let (Some(waits), Some(at)) = (budget.waits.checked_sub(1), next_time(world)) {
        then(Budget { waits, ..*budget }, &|world| world.now = at);
    }
    states
}

fn next_time(world: &World) -> Option<Time> {
    world.planner.next_timeout(world.now)
}

/// From here everything works, and comes to its end.
fn finish(mut world: World) {
    let until = world.now + ms(40_000);
    world.planner.handle_announced(world.now);
    world.settle();
    while world.now < until {
        if world.asked.is_some() {
            world.answer_asked();
        } else if world.storing.is_some() {
            world.store();
        } else if let Some((id, seqs)) = world.calls.iter().next() {
            world.end_call(*id, vec![Outcome::Delivered; seqs.len()], &[]);
        } else {
            world.now = next_time(&world).unwrap_or(until);
        }
        world.settle();
    }
    let is_for_people = |row: &super::tables::Row| match &row.place {
        Place::Parked(parked) => matches!(parked.state, ParkState::Parked | ParkState::Behind),
        _ => false,
    };
    let rows = world.tables.rows.values();
    let over = |row: &super::tables::Row| matches!(row.place, Place::Sent | Place::Discarded);
    assert!(rows.clone().all(|row| over(row) || is_for_people(row)), "not all goes: {world:?}");
    assert!(world.planner.known.is_empty(), "something stays in memory: {world:?}");
}

/// Answers how many states there are.
fn search(world: World, budget: Budget) -> usize {
    let mut seen = HashSet::new();
    let mut open = vec![(world, budget)];
    open[0].0.settle();
    while let Some(state) = open.pop() {
        if !seen.insert(fingerprint(&state)) {
            continue;
        }
        let is_quiet = state.0.asked.is_none() && state.0.storing.is_none();
        if is_quiet && state.0.calls.is_empty() {
            finish(state.0.clone());
        }
        open.extend(next(&state));
    }
    seen.len()
}

#[expect(clippy::print_stdout, reason = "how much was searched")]
fn report(name: &str, states: usize) {
    println!("{name}: {states} states");
    assert!(states > 1_000, "the search is not cut short");
}

#[test]
fn three_rows_of_one_lane_survive_any_two_faults() {
    let mut world = World::new(settings());
    for (seq, aggregate) in [(1, "a"), (2, "a"), (3, "b")] {
        world.append(seq, aggregate, lane(1, ""));
    }
    let budget = Budget { faults: 2, losses: 0, people: 0, waits: 2 };
    report("one lane", search(world, budget));
}

#[test]
fn two_lanes_of_one_aggregate_survive_a_lost_session_and_a_decision() {
    let mut world = World::new(settings());
    world.append(1, "a", lane(1, ""));
    world.append(2, "a", lane(2, "")).deliver_at = ms(30);
    world.append(3, "a", lane(1, ""));
    let budget = Budget { faults: 0, losses: 1, people: 1, waits: 2 };
    report("two lanes", search(world, budget));
}
