//! What the engine alone costs: `settle DELIVERIES` settles that many and says how many a second. It is what
//! `cargo xtask engine` runs, also under callgrind.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::{collections::VecDeque, process::ExitCode, time::Instant};

use inbox_engine::internal::{
    Batch, BatchOutcome, Effect, Engine, Epoch, Generation, Item, Kind, Lane, LaneState,
    LeaderEpoch, Limits, LogPoint, NextOffset, Offset, Ownership, PartitionId, Tally, Time,
    Written,
};

const PARTITIONS: u32 = 8;
const LANES: u16 = 16;
const AGGREGATES: u64 = 10_000;
/// Deliveries of one partition in one message.
const ARRIVALS: i64 = 500;

/// One partition as the broker would see it.
struct Source {
    generation: Generation,
    next: i64,
    end: i64,
    paused: bool,
}

/// The engine, and everything around it that answers at once.
struct World {
    engine: Engine<u64>,
    sources: Vec<Source>,
    open: VecDeque<Batch<u64>>,
    settled: u64,
}

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).and_then(|text| text.parse::<u32>().ok());
    let Some(wanted) = wanted.filter(|wanted| *wanted >= PARTITIONS) else {
        eprintln!("usage: settle DELIVERIES (8 or more)");
        return ExitCode::FAILURE;
    };
    let mut world = World::new(i64::from(wanted / PARTITIONS));
    let goal = u64::from(wanted / PARTITIONS * PARTITIONS);
    let began = Instant::now();
    let mut clock = 0;
    while world.settled < goal {
        clock += 1;
        world.deliver(Time(clock));
        world.finish_one(Time(clock));
        world.engine.handle_timeout(Time(clock));
        world.obey(Time(clock));
    }
    let took = began.elapsed();
    println!("{goal} deliveries settled in {:.3} s", took.as_secs_f64());
    println!("{:.0} a second", f64::from(wanted) / took.as_secs_f64());
    ExitCode::SUCCESS
}

impl World {
    fn new(per_partition: i64) -> Self {
        let source =
            |_| Source { generation: Generation(0), next: 0, end: per_partition, paused: true };
        let mut world = Self {
            engine: Engine::new(Limits::default(), 7),
            sources: (0..PARTITIONS).map(source).collect(),
            open: VecDeque::new(),
            settled: 0,
        };
        let ids: Vec<PartitionId> = (0..PARTITIONS).map(PartitionId).collect();
        world.engine.handle_assigned(&ids, Time(0));
        world.obey(Time(0));
        world
    }

    /// The next block of each partition that may be read.
    fn deliver(&mut self, now: Time) {
        for id in (0..PARTITIONS).map(PartitionId) {
            let source = self.source(id);
            let (from, to) = (source.next, (source.next + ARRIVALS).min(source.end));
            if source.paused || from == to {
                continue;
            }
            source.next = to;
            let generation = source.generation;
            self.engine.handle_delivered(id, generation, (from..to).map(item), now);
            self.obey(now);
        }
    }

    fn finish_one(&mut self, now: Time) {
        let Some(batch) = self.open.pop_front() else { return };
        let applied = batch.items.len() as u64;
        self.settled += applied;
        let outcome = BatchOutcome::Committed(Tally { applied, ..Tally::default() });
        self.engine.handle_outcome(batch, outcome, now);
        self.obey(now);
    }

    fn obey(&mut self, now: Time) {
        while let Some(effect) = self.engine.poll_effect() {
            match effect {
                Effect::Start(batch) => self.open.push_back(batch),
                Effect::Pause(id) => self.source(id).paused = true,
                Effect::Resume(id) => self.source(id).paused = false,
                Effect::TakeOver(id, generation, _) => {
                    self.engine.handle_taken(id, generation, Ok(ownership()), now);
                }
                Effect::Seek(seek) => {
                    self.source(seek.partition).generation = seek.generation;
                    self.engine.handle_sought(seek.partition, seek.generation, Ok(()), now);
                }
                Effect::WriteWatermark(write) => {
                    self.engine.handle_watermark(&write, Written::Yes, now);
                }
                Effect::Commit(commits) => self.engine.handle_committed(&commits, &[]),
                _ => {}
            }
        }
    }

    fn source(&mut self, id: PartitionId) -> &mut Source {
        &mut self.sources[usize::try_from(id.0).unwrap_or(usize::MAX)]
    }
}

fn ownership() -> Ownership {
    let lane = LaneState { last: Offset(-1), leader_epoch: LeaderEpoch(0) };
    Ownership {
        epoch: Epoch(1),
        watermark: NextOffset(0),
        watermark_leader_epoch: LeaderEpoch(0),
        lanes: vec![lane; usize::from(LANES)],
        record: LogPoint::UNKNOWN,
        remapped_below: NextOffset(0),
        remap_waits: false,
        unclean: false,
        resume: NextOffset(0),
        resume_leader_epoch: LeaderEpoch(0),
    }
}

/// Aggregates come in an order that looks like none, and each has its lane.
fn item(offset: i64) -> Item<u64> {
    let event = offset.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let aggregate = event % AGGREGATES;
    let lane = u16::try_from(aggregate % u64::from(LANES)).unwrap_or_default();
    Item {
        offset: Offset(offset),
        leader_epoch: LeaderEpoch(0),
        lane: Lane(lane),
        id: u128::from(event).to_be_bytes(),
        fingerprint: [0; 16],
        aggregate: u128::from(aggregate).to_be_bytes(),
        kind: Kind { route: 0, whole_run: false, one_per_aggregate: false },
        bytes: 850,
        attempts: 0,
        doomed: None,
        bare: false,
        suspect: false,
        event,
    }
}
