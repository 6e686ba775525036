//! Small worlds, searched exhaustively: all that can come next, in every order.

use std::{
    collections::{HashSet, hash_map::DefaultHasher},
    fmt::Write as _,
    hash::{Hash as _, Hasher as _},
    time::Duration,
};

use super::{database::FeedRow, settings, world::World};
use crate::types::{Outcome, PlannerSettings};

/// What may happen next. Faults are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Move {
    Look,
    Answer,
    Commit,
    Stored,
    Delivered(usize),
    Fault(Fault),
    /// Nothing else happens until the planner wants to be asked.
    Wait,
    /// A late row becomes visible.
    Show(i64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Failed(usize),
    Unsendable(usize),
    NotTried(usize),
    LoseSession,
    FailAsk,
    Discard(i64),
    Retry(i64),
}

#[derive(Clone)]
struct State {
    world: World,
    faults: usize,
    waits: usize,
}

impl State {
    fn moves(&self) -> Vec<Move> {
        let world = &self.world;
        let mut moves = Vec::new();
        if let Some(asking) = &world.asking {
            moves.push(if asking.answer.is_some() { Move::Answer } else { Move::Look });
        }
        match &world.storing {
            Some((_, true)) => moves.push(Move::Stored),
            Some((_, false)) => moves.push(Move::Commit),
            None => {}
        }
        moves.extend((0..world.calls.len()).map(Move::Delivered));
        let hidden = world.database.feed.iter().filter(|(_, row)| !row.visible);
        moves.extend(hidden.map(|(seq, _)| Move::Show(*seq)));
        if self.waits > 0 {
            moves.push(Move::Wait);
        }
        if self.faults > 0 {
            moves.extend(self.faults().into_iter().map(Move::Fault));
        }
        moves
    }

    fn faults(&self) -> Vec<Fault> {
        let world = &self.world;
        let mut faults = vec![Fault::LoseSession];
        if world.asking.is_some() {
            faults.push(Fault::FailAsk);
        }
        for at in 0..world.calls.len() {
            faults.extend([Fault::Failed(at), Fault::Unsendable(at), Fault::NotTried(at)]);
        }
        for (seq, park) in world.database.parked.iter().filter(|(_, park)| !park.claimed) {
            faults.extend([Fault::Discard(*seq)]);
            if park.due_at.is_none() || park.attempts > 0 {
                faults.push(Fault::Retry(*seq));
            }
        }
        faults
    }

    fn go(&mut self, next: Move) {
        let world = &mut self.world;
        match next {
            Move::Look => world.look(),
            Move::Answer => world.answer(),
            Move::Commit => world.commit(),
            Move::Stored => world.store(),
            Move::Delivered(at) => end(world, at, &Outcome::Delivered),
            Move::Show(seq) => {
                world.database.feed.get_mut(&seq).unwrap().visible = true;
                world.planner.handle_poll();
            }
            Move::Wait => {
                self.waits -= 1;
                world.now = world.planner.next_timeout(world.now).unwrap_or(world.now);
            }
            Move::Fault(fault) => {
                self.faults -= 1;
                go_wrong(world, fault);
            }
        }
        self.world.carry_out();
    }

    /// What tells this state from others.
    fn fingerprint(&self) -> u64 {
        let world = &self.world;
        let mut text = world.planner.fingerprint();
        let calls: Vec<_> = world.calls.iter().map(|call| (call.id, &call.seqs)).collect();
        write!(text, "{:?}{:?}{:?}{:?}", world.asking, world.storing, calls, world.delivered)
            .unwrap();
        write!(text, "{:?}{:?}{:?}", world.now, self.faults, self.waits).unwrap();
        let mut hasher = DefaultHasher::new();
        (&world.database, text).hash(&mut hasher);
        hasher.finish()
    }
}

fn go_wrong(world: &mut World, fault: Fault) {
    match fault {
        Fault::Failed(at) => end(world, at, &Outcome::Failed("500".into(), None)),
        Fault::Unsendable(at) => end(world, at, &Outcome::Unsendable("400".into())),
        Fault::NotTried(at) => end(world, at, &Outcome::NotTried),
        Fault::LoseSession => world.lose_session(),
        Fault::FailAsk => world.fail_ask(),
        Fault::Discard(seq) => drop(world.decide(seq, true)),
        Fault::Retry(seq) => drop(world.decide(seq, false)),
    }
}

/// The first event of a call has an outcome; those behind it were not tried, unless it was delivered.
fn end(world: &mut World, at: usize, outcome: &Outcome) {
    let taken = *outcome == Outcome::Delivered;
    let rest = if taken { Outcome::Delivered } else { Outcome::NotTried };
    let mut outcomes = vec![(rest, taken); world.calls[at].seqs.len()];
    outcomes[0] = (outcome.clone(), taken);
    world.end_call(at, outcomes);
}

/// Once nothing goes wrong any more, everything goes that may.
fn finish(mut state: State, trace: &[Move]) {
    let world = &mut state.world;
    for row in world.database.feed.values_mut() {
        row.visible = true;
    }
    world.planner.handle_announced(world.now);
    for _ in 0..30 {
        world.deliver_all();
        world.run_for(Duration::from_secs(1));
    }
    assert!(world.undone().is_empty(), "{:?} after {trace:?}", world.undone());
}

/// Answers how many states there are.
fn explore(start: World, faults: usize, waits: usize) -> usize {
    let mut first = State { world: start, faults, waits };
    first.world.notes_it = false;
    first.world.carry_out();
    let mut seen = HashSet::from([first.fingerprint()]);
    let mut open: Vec<(State, Vec<Move>)> = vec![(first, Vec::new())];
    while let Some((state, trace)) = open.pop() {
        let moves = state.moves();
        if state.faults == 0 {
            finish(state.clone(), &trace);
        }
        for next in moves {
            let (mut state, mut trace) = (state.clone(), trace.clone());
            trace.push(next);
            let went = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| state.go(next)));
            assert!(went.is_ok(), "after {trace:?}");
            if seen.insert(state.fingerprint()) {
                open.push((state, trace));
            }
        }
    }
    seen.len()
}

#[expect(clippy::print_stderr, reason = "how large it is should be seen")]
fn tell(name: &str, states: usize) {
    eprintln!("{name}: {states} states");
}

fn small(rows: usize) -> PlannerSettings {
    let mut settings = settings(3);
    (settings.batch_rows, settings.rows_max) = (rows, 2 * rows);
    settings.dues_every = Duration::from_mins(10);
    settings
}

#[test]
fn two_aggregates_of_one_destination_keep_their_order_whatever_comes_next() {
    let mut world = World::new(small(2));
    for aggregate in [0, 0, 1] {
        world.add(aggregate, 1);
    }
    tell("one destination", explore(world, 2, 2));
}

#[test]
fn two_aggregates_of_two_destinations_keep_their_order_whatever_comes_next() {
    let mut world = World::new(small(3));
    world.planner.handle_up(0, world.now);
    world.add(0, 0);
    world.add(0, 1);
    world.append(FeedRow { visible: false, ..FeedRow::of(1, 0) });
    tell("two destinations", explore(world, 2, 2));
}
