//! The machine: told what happened by `handle_*`, it answers with effects.
//!
//! One story: its files know each other.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    Effect, Generation, Limits, NextOffset, PartitionId, Standstill, Time,
    backoff::Jitter,
    drain::LeftBehind,
    partition::{Drain, Partition, Phase},
};

/// The rules of the inbox, as a state machine without input or output.
///
/// There are four kinds of method: getters; `handle_*`, which tell what happened (always with the
/// time, which the engine does not read itself); [`Engine::poll_effect`], which says what to do next;
/// and [`Engine::next_timeout`], which says when [`Engine::handle_timeout`] wants to be called. After
/// each `handle_*`, poll until there is nothing more to do.
///
/// One task owns it; nothing in it is shared or locked.
#[derive(Debug)]
pub struct Engine<T> {
    pub(crate) limits: Limits,
    pub(crate) partitions: BTreeMap<PartitionId, Partition<T>>,
    pub(crate) effects: VecDeque<Effect<T>>,
    pub(crate) jitter: Jitter,
    /// The generation given out last; one counter for all partitions.
    pub(crate) generation: Generation,
    /// Orders ready lanes over all partitions.
    pub(crate) sequence: u64,
    /// Transactions open, of whatever generation: each holds a connection.
    pub(crate) open: usize,
    /// Transactions that may be open, as the caller sees it.
    pub(crate) room: usize,
    /// Transactions of this process that committed, watermark writes included: a sign of life of the
    /// database.
    pub(crate) commits: u64,
    /// Handlers that have met a lock time-out, by route, and the number of the last commit since in which one of
    /// them applied events: a sign of life of what it works on, too.
    pub(crate) locked_out: BTreeMap<u32, u64>,
    /// Milliseconds that an event takes, the slowest of late; none before the first commit.
    pub(crate) event_time: Option<u64>,
    /// A Kafka commit is in flight.
    pub(crate) committing: bool,
    /// Revocations not yet answered, the shutdown's own included; each is answered as a whole. A
    /// partition is in one of them at most.
    pub(crate) revocations: Vec<Vec<PartitionId>>,
    /// Open transactions that nobody will hear of.
    pub(crate) left_behind: Vec<LeftBehind>,
    pub(crate) closing: bool,
    pub(crate) closed: bool,
}

/// What the engine knows of a partition, for `status` and metrics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Which partition.
    pub partition: PartitionId,
    /// Everything below is settled, as the database holds it.
    pub watermark: NextOffset,
    /// What Kafka acknowledged, if anything was committed in this process.
    pub committed: Option<NextOffset>,
    /// The next offset to arrive.
    pub position: NextOffset,
    /// Events that wait in lanes or are in open transactions.
    pub waiting: usize,
    /// Open transactions, releases included.
    pub open: usize,
    /// Parked queues that are known to be due and wait for their release.
    pub due: usize,
    /// Bytes of undone events.
    pub bytes: u64,
    /// Whether fetching is paused.
    pub paused: bool,
    /// Why it stands still, if it does.
    pub standstill: Option<Standstill>,
}

impl<T> Engine<T> {
    /// An engine without partitions. `seed` serves jitter only.
    pub fn new(limits: Limits, seed: u64) -> Self {
        assert!(
            limits.transactions_max > 0 && limits.batch_events_max > 0 && limits.attempts_max > 0
        );
        assert!(limits.events_at_first > 0);
        assert!(
            limits.due_max > 0 && limits.release_events_max > 0 && limits.releases_per_live > 0
        );
        Self {
            limits,
            partitions: BTreeMap::new(),
            effects: VecDeque::new(),
            jitter: Jitter::new(seed),
            generation: Generation(0),
            sequence: 0,
            open: 0,
            room: usize::MAX,
            commits: 0,
            locked_out: BTreeMap::new(),
            event_time: None,
            committing: false,
            revocations: Vec::new(),
            left_behind: Vec::new(),
            closing: false,
            closed: false,
        }
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect<T>> {
        self.effects.pop_front()
    }

    /// When [`Engine::handle_timeout`] is wanted next.
    pub fn next_timeout(&self) -> Option<Time> {
        let left_behind = self.left_behind.iter().map(|left| left.until);
        let partitions = self.partitions.values().filter_map(|it| it.next_timeout(&self.limits));
        partitions.chain(left_behind).min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        let ids: Vec<PartitionId> = self.partitions.keys().copied().collect();
        for id in ids {
            self.confirm_due(id, now);
            self.end_waits(id, now);
            self.drain_on(id, now);
        }
        self.abort_left_behind(now);
        self.write_watermarks(now);
        self.commit_offsets();
        self.let_go();
        self.start(now);
    }

    /// Every partition that this process has.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.partitions.values().map(Partition::snapshot).collect()
    }

    /// The limits it was made with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Transactions open now, releases included.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Transactions that may be open now: one at least, and never more than
    /// [`Limits::transactions_max`].
    pub fn permits(&self) -> usize {
        self.room.clamp(1, self.limits.transactions_max)
    }

    /// How many partitions this process has.
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// So many transactions may be open from now on; see [`Engine::room`]. Those that are open stay so.
    pub fn handle_permits(&mut self, room: usize, now: Time) {
        self.room = room;
        self.start(now);
    }

    /// Whether the engine has ended after [`Engine::handle_shutdown`].
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The partition, if the generation is still its own.
    pub(crate) fn current(
        &mut self,
        id: PartitionId,
        generation: Generation,
    ) -> Option<&mut Partition<T>> {
        let checked = crate::Rule::GenerationChecked.on();
        self.partitions.get_mut(&id).filter(|p| !checked || p.generation == generation)
    }

    pub(crate) fn next_generation(&mut self) -> Generation {
        self.generation = Generation(self.generation.0 + 1);
        self.generation
    }

    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Changes why a partition stands still, and reports it once.
    pub(crate) fn report(&mut self, id: PartitionId, standstill: Option<Standstill>) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        // Whatever else a partition meets that waits for a person, that is what it waits for.
        let passing = matches!(standstill, Some(Standstill::Outage(_) | Standstill::TakingOver));
        let standstill = match &partition.held {
            Some(held) if passing => Some(held.reason.clone()),
            _ => standstill,
        };
        if partition.standstill != standstill {
            partition.standstill.clone_from(&standstill);
            self.effects.push_back(Effect::Report(id, standstill));
        }
    }

    /// Clocks and offsets show that a partition stands still, or that it moves (`None`), whatever the engine
    /// believes. A reason that it knows itself says more, and stays.
    pub fn handle_observation(&mut self, id: PartitionId, seen: Option<Standstill>) {
        let Some(partition) = self.partitions.get(&id) else { return };
        let seen = seen.filter(|_| crate::Rule::StandstillSeenFromOutside.on());
        let stands = partition.standstill.as_ref();
        let name = |reason: &Standstill| reason.name();
        // What a take-over has found goes on until the next one.
        let own = stands
            .is_some_and(|reason| partition.phase != Phase::Live || !reason.seen_from_outside());
        if own || stands.map(name) == seen.as_ref().map(name) {
            return;
        }
        match seen {
            Some(_) => self.report(id, seen),
            None => self.report_parked_limit(id),
        }
    }

    /// Whether it still has the partition.
    pub fn has(&self, id: PartitionId) -> bool {
        self.partitions.contains_key(&id)
    }

    /// Stops a partition until a person acts. The first reason stays.
    pub(crate) fn stop(&mut self, id: PartitionId, reason: Standstill) {
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        if partition.phase == Phase::Stopped {
            return;
        }
        partition.phase = Phase::Stopped;
        if !partition.paused {
            partition.paused = true;
            self.effects.push_back(Effect::Pause(id));
        }
        self.report(id, Some(reason));
    }
}

impl<T> Partition<T> {
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            partition: self.id,
            watermark: self.watermark,
            committed: (self.kafka.0 != i64::MIN).then_some(self.kafka),
            position: self.position,
            waiting: self.undone,
            open: self.open,
            due: self.due,
            bytes: self.bytes,
            paused: self.paused,
            standstill: self.standstill.clone(),
        }
    }

    fn next_timeout(&self, limits: &Limits) -> Option<Time> {
        let drain = match self.drain {
            Drain::Finishing { deadline }
            | Drain::Writing { deadline }
            | Drain::Committing { deadline } => Some(deadline),
            _ => None,
        };
        let idle = self.drain == Drain::No;
        let phase = match self.phase {
            Phase::Waiting { at } if idle => Some(at),
            Phase::Live if idle && !self.writing => {
                Some(self.watermark_due.max(self.outage_until.unwrap_or_default()))
            }
            _ => None,
        };
        let look = self.look_due(limits);
        let waits = [drain, phase, look, self.wake, self.outage_until, self.full_until()];
        waits.into_iter().flatten().min()
    }
}
