//! Deliveries come in: settled already, or into their lane. Intake never waits.

use crate::{
    Effect, Engine, Generation, Item, Lane, LeaderEpoch, LogPoint, NextOffset, PartitionId, Rule,
    Standstill, Time,
    partition::{Arrived, Drain, Partition, Phase},
};

/// What memory knows of a delivery before any database is asked.
enum Recognition {
    New,
    /// Its lane has passed it, but the leader epoch cannot prove that it is the same record.
    Again,
    Settled,
    Rewritten,
}

impl<T> Engine<T> {
    /// Deliveries of one partition, in offset order.
    pub fn handle_delivered(
        &mut self,
        id: PartitionId,
        generation: Generation,
        items: impl IntoIterator<Item = Item<T>>,
        now: Time,
    ) {
        let mut sequence = self.sequence;
        let Some(partition) = self.current(id, generation) else { return };
        let seeking = partition.phase == Phase::Seeking && !Rule::SeekConfirmed.on();
        if partition.phase != Phase::Live && !seeking {
            return;
        }
        let mut rewritten = None;
        for item in items {
            sequence += 1;
            rewritten = partition.take_in(item, sequence);
            if rewritten.is_some() {
                break;
            }
        }
        self.sequence = sequence;
        match rewritten {
            Some(reason) => self.hold(id, reason, now),
            None => {
                self.believe(id);
                self.limit_intake(id);
            }
        }
        self.start(now);
    }

    /// The partition was read up to `position`; nothing below is still to come.
    pub fn handle_position(
        &mut self,
        id: PartitionId,
        generation: Generation,
        position: NextOffset,
    ) {
        if let Some(partition) = self.current(id, generation)
            && partition.phase == Phase::Live
        {
            partition.position = partition.readable(position);
            partition.hasten_remap();
            self.believe(id);
        }
    }

    /// Pauses above the limits, resumes below half of them.
    pub(crate) fn limit_intake(&mut self, id: PartitionId) {
        let (bytes, events) = (self.limits.partition_bytes_max, self.limits.partition_events_max);
        let Some(partition) = self.partitions.get_mut(&id) else { return };
        let open = partition.phase == Phase::Live && partition.drain == Drain::No;
        partition.settle_prefix();
        partition.hasten_remap();
        let arrived = partition.arrived.len();
        let at_barrier = partition.at_barrier();
        let above = partition.bytes > bytes || arrived > events || at_barrier;
        let below = partition.bytes <= bytes / 2 && arrived <= events / 2 && !at_barrier;
        if !partition.paused && above && Rule::IntakePauses.on() {
            partition.paused = true;
            self.effects.push_back(Effect::Pause(id));
        } else if partition.paused && open && below {
            partition.paused = false;
            self.effects.push_back(Effect::Resume(id));
        }
    }
}

impl<T> Partition<T> {
    fn take_in(&mut self, item: Item<T>, sequence: u64) -> Option<Standstill> {
        let lane = item.lane;
        if item.offset.0 < self.position.0 {
            // Read twice by the client (a pause and a refetch): the first copy is on its way.
            return None;
        }
        if self.leaves_out(item.offset) {
            return None;
        }
        self.position = item.offset.next();
        match self.recognize(&item) {
            Recognition::Settled => {
                // It arrived all the same: the watermark may pass it, with its leader epoch.
                self.arrive(&item);
                return None;
            }
            Recognition::Rewritten => return Some(self.rewritten(&item)),
            Recognition::Again => {
                self.reclaims.insert(item.offset);
            }
            Recognition::New => {}
        }
        self.arrive(&item);
        self.undone += 1;
        self.bytes += u64::from(item.bytes);
        self.lane(lane).queue.push_back(item);
        self.queue_lane(lane, sequence);
        None
    }

    fn arrive(&mut self, item: &Item<T>) {
        let Item { offset, leader_epoch, lane, .. } = *item;
        self.arrived.push_back(Arrived { offset, leader_epoch, lane });
    }

    /// What the lanes prove about a delivery. An offset alone proves nothing: a log that was cut and
    /// written again uses offsets twice, and only the leader epoch tells (finding 2).
    fn recognize(&self, item: &Item<T>) -> Recognition {
        let lane = &self.lanes[usize::from(item.lane.0)].state;
        if item.offset > lane.last {
            return Recognition::New;
        }
        let below = item.offset.0 < self.watermark.0;
        if !Rule::SkipComparesLeaderEpoch.on() {
            return Recognition::Settled;
        }
        if self.overwrites(item) {
            return Recognition::Rewritten;
        }
        match (item.leader_epoch.known(), lane.leader_epoch.known()) {
            (true, true) if item.leader_epoch <= lane.leader_epoch => Recognition::Settled,
            (true, true) => Recognition::Rewritten,
            _ if below && Rule::SkipBelowWatermark.on() => Recognition::Settled,
            _ if Rule::ClaimWhenEpochUnknown.on() => Recognition::Again,
            _ => Recognition::Settled,
        }
    }

    /// Leader epochs grow with offsets, so nothing below the last record has a newer one than that,
    /// whatever its lane knows.
    fn overwrites(&self, item: &Item<T>) -> bool {
        let LogPoint { next, leader_epoch } = self.record;
        let below = item.offset.0 < next.0 && leader_epoch.known();
        below && item.leader_epoch > leader_epoch && Rule::RecordValidated.on()
    }

    fn rewritten(&self, item: &Item<T>) -> Standstill {
        let Lane(lane) = item.lane;
        let known = self.lanes[usize::from(lane)].state.leader_epoch;
        let LeaderEpoch(stored) = known.max(self.record.leader_epoch);
        Standstill::Rewritten(format!(
            "the record at offset {} has leader epoch {}, but lane {lane} settled that offset \
             under epoch {stored}: the log was truncated and rewritten; compare the topic with \
             the database before you continue",
            item.offset.0, item.leader_epoch.0
        ))
    }
}
