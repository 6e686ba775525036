//! Properties of the pure functions, and of the watermark, for whatever proptest comes up with.

use std::collections::HashMap;

use proptest::{collection::vec, prelude::*};

use crate::{
    Batch, BatchOutcome, Effect, Engine, Epoch, Item, Kind, Lane, LaneState, LeaderEpoch, Limits,
    LogPoint, NextOffset, Offset, Ownership, PartitionId, RunEntry, Settled, Standstill, Start,
    Tally, Time, distinct, first_watermark, resume, runs,
};

fn item(offset: i64, lane: u16, id: u8) -> Item<()> {
    Item {
        offset: Offset(offset),
        leader_epoch: LeaderEpoch(0),
        lane: Lane(lane),
        id: [id; 16],
        fingerprint: [0; 16],
        aggregate: [0; 16],
        kind: Kind { route: 0, whole_run: false, one_per_aggregate: false },
        bytes: 1,
        attempts: 0,
        doomed: None,
        bare: false,
        suspect: false,
        event: (),
    }
}

/// Entries by (lane, offset); an aggregate is always in one lane.
fn entries() -> impl Strategy<Value = Vec<RunEntry>> {
    vec((0..4_u16, 0..3_u8, 0..3_u32), 0..60).prop_map(|mut all| {
        all.sort_by_key(|(lane, _, _)| *lane);
        let entry = |(index, (lane, aggregate, route)): (usize, (u16, u8, u32))| RunEntry {
            index,
            lane: Lane(lane),
            kind: Kind { route, whole_run: route > 0, one_per_aggregate: route > 1 },
            aggregate: [u8::try_from(lane).unwrap() * 8 + aggregate; 16],
        };
        all.into_iter().enumerate().map(entry).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// `RunsKeepLaneOrder` (finding 6): no event overtakes an earlier one of its lane, and so none of
    /// its aggregate; every one runs exactly once.
    #[test]
    fn runs_keep_the_order_of_lanes(entries in entries()) {
        let order: Vec<usize> = runs(&entries).into_iter().flat_map(|run| run.items).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..entries.len()).collect::<Vec<_>>());
        let mut last: HashMap<Lane, usize> = HashMap::new();
        for index in order {
            let before = last.insert(entries[index].lane, index);
            prop_assert!(before.is_none_or(|before| before < index), "{:?}", runs(&entries));
        }
    }

    /// A run is of one kind, not empty, and has each aggregate once where its route wants that
    /// (finding 7); events that could join the run before do.
    #[test]
    fn runs_are_of_one_kind(entries in entries()) {
        for run in runs(&entries) {
            prop_assert!(!run.items.is_empty());
            prop_assert!(run.items.iter().all(|index| entries[*index].kind == run.kind));
            let mut aggregates: Vec<_> =
                run.items.iter().map(|index| entries[*index].aggregate).collect();
            aggregates.sort_unstable();
            let all = aggregates.len();
            aggregates.dedup();
            prop_assert!(!run.kind.one_per_aggregate || aggregates.len() == all);
        }
    }

    /// Events of one kind without further wishes are one run, whatever their lanes.
    #[test]
    fn one_kind_is_one_run(lanes in vec(0..4_u16, 1..60)) {
        let mut lanes = lanes;
        lanes.sort_unstable();
        let kind = Kind { route: 0, whole_run: true, one_per_aggregate: false };
        let entry = |(index, lane)| RunEntry { index, lane: Lane(lane), kind, aggregate: [0; 16] };
        let entries: Vec<RunEntry> = lanes.into_iter().enumerate().map(entry).collect();
        prop_assert_eq!(runs(&entries).len(), 1);
    }

    /// `DistinctIds` (finding 8): each id is claimed once, by its lowest offset over all lanes, and
    /// every other delivery of it points there. What is not wanted is left out.
    #[test]
    fn ids_are_claimed_once(ids in vec((0..6_u8, 0..3_u16), 0..40), left_out in 0..6_u8) {
        let mut items: Vec<Item<()>> =
            (0..).zip(&ids).map(|(offset, (id, lane))| item(offset, *lane, *id)).collect();
        items.sort_by_key(|item| (item.lane, item.offset));
        let wanted = |item: &Item<()>| item.id != [left_out; 16];
        let found = distinct(&items, wanted);
        let mut first: HashMap<[u8; 16], Offset> = HashMap::new();
        for item in items.iter().filter(|item| wanted(item)) {
            let lowest = first.entry(item.id).or_insert(item.offset);
            *lowest = (*lowest).min(item.offset);
        }
        prop_assert_eq!(found.claimed.len(), first.len());
        for index in &found.claimed {
            prop_assert_eq!(first[&items[*index].id], items[*index].offset);
        }
        let all = items.iter().filter(|item| wanted(item)).count();
        prop_assert_eq!(found.claimed.len() + found.copies.len(), all);
        for (copy, first) in &found.copies {
            prop_assert_eq!(items[*copy].id, items[*first].id);
            prop_assert!(found.claimed.contains(first) && items[*first].offset < items[*copy].offset);
        }
    }

    /// `ClaimSorted` (B14): claims lock ids in one order.
    #[test]
    fn ids_are_claimed_in_the_order_of_their_bytes(ids in vec((0..40_u8, 0..3_u16), 0..40)) {
        let items: Vec<Item<()>> =
            (0..).zip(&ids).map(|(offset, (id, lane))| item(offset, *lane, *id)).collect();
        let found = distinct(&items, |_| true);
        prop_assert!(found.claimed.is_sorted_by_key(|index| items[*index].id));
    }

    /// B1, D15, E4: never above the watermark, never where the log has nothing any more, never above the last
    /// record while the log has what follows it, and lower only because the group says so.
    #[test]
    fn processing_never_resumes_above_the_watermark(
        watermark in 0..20_i64,
        record in proptest::option::of(0..20_i64),
        committed in proptest::option::of(0..20_i64),
        log_start in 0..20_i64,
        records in 0..20_i64,
        seen: bool,
    ) {
        let log_end = log_start + records;
        let log = (NextOffset(log_start), NextOffset(log_end));
        let point = |next: i64| LogPoint { next: NextOffset(next), leader_epoch: LeaderEpoch(3) };
        let record = record.filter(|next| *next <= watermark);
        let settled = Settled {
            watermark: NextOffset(watermark),
            record: record.map_or(LogPoint::UNKNOWN, point),
            log_end_seen: seen.then_some(NextOffset(0)),
        };
        match resume(settled, committed.map(NextOffset), log) {
            Ok(LogPoint { next, leader_epoch }) => {
                prop_assert!(next.0 <= watermark && next.0 >= log_start);
                prop_assert!(next.0 <= record.unwrap_or(watermark).max(log_start));
                let unmoved = next.0 == record.unwrap_or(watermark).max(log_start);
                prop_assert!(unmoved || Some(next.0) == committed);
                prop_assert_eq!(leader_epoch.known(), record.is_some());
            }
            Err(Standstill::LogEndedBelow(_)) => prop_assert!(seen && record.is_none()),
            Err(_) => prop_assert!(log_start > watermark || log_end < watermark),
        }
    }

    /// Finding 11: a first watermark is in the log, or a person decides.
    #[test]
    fn a_first_watermark_is_in_the_log(
        start in prop_oneof![Just(Start::Earliest), Just(Start::Latest), Just(Start::Error)],
        first_start: bool,
        committed in proptest::option::of(0..30_i64),
        (log_start, records) in (0..20_i64, 0..10_i64),
    ) {
        let log = (NextOffset(log_start), NextOffset(log_start + records));
        let committed = committed.map(|it| NextOffset(it.min(log.1.0)));
        match first_watermark(start, first_start, committed, None, log) {
            Ok(next) => prop_assert!(next >= log.0 && next <= log.1),
            Err(_) => prop_assert!(start == Start::Error && first_start && committed.is_none()),
        }
    }

    /// `WatermarkIsPrefix`, `WatermarkPassesGaps` (C1, E1): whatever commits when, the watermark never
    /// passes a delivery that is not settled, never goes back, and is at the end when all is done.
    #[test]
    fn the_watermark_never_passes_an_unsettled_delivery(
        steps in vec((1..4_i64, 0..4_u16, any::<bool>(), 0..8_usize), 1..80),
    ) {
        let mut track = Track::new(4);
        for (skip, lane, deliver, which) in steps {
            if deliver {
                track.deliver(skip, lane);
            } else {
                track.commit(which);
            }
            track.check()?;
        }
        while !track.open.is_empty() {
            track.commit(0);
            track.check()?;
        }
        prop_assert_eq!(track.settled, track.next);
    }
}

/// One partition of the real engine, and what was delivered to it.
struct Track {
    engine: Engine<()>,
    open: Vec<Batch<()>>,
    undone: Vec<i64>,
    next: i64,
    settled: i64,
}

const P: PartitionId = PartitionId(0);
const NOW: Time = Time(0);

impl Track {
    fn new(lanes: usize) -> Self {
        let limits = Limits { batch_events_max: 3, ..Limits::default() };
        let mut engine = Engine::new(limits, 1);
        engine.handle_assigned(&[P], NOW);
        let mut track = Self { engine, open: Vec::new(), undone: Vec::new(), next: 0, settled: 0 };
        let state = LaneState { last: Offset(-1), leader_epoch: LeaderEpoch::UNKNOWN };
        let ownership = Ownership {
            epoch: Epoch(1),
            lanes: vec![state; lanes],
            watermark: NextOffset(0),
            watermark_leader_epoch: LeaderEpoch::UNKNOWN,
            record: LogPoint::UNKNOWN,
            remapped_below: NextOffset(0),
            remap_waits: false,
            unclean: false,
            resume: NextOffset(0),
            resume_leader_epoch: LeaderEpoch::UNKNOWN,
        };
        let generation = track.engine.generation;
        track.engine.handle_taken(P, generation, Ok(ownership), NOW);
        track.engine.handle_sought(P, generation, Ok(()), NOW);
        track.poll();
        track
    }

    fn deliver(&mut self, skip: i64, lane: u16) {
        let offset = self.next + skip - 1;
        self.next = offset + 1;
        self.undone.push(offset);
        let generation = self.engine.generation;
        self.engine.handle_delivered(P, generation, [item(offset, lane, 0)], NOW);
        self.poll();
    }

    fn commit(&mut self, which: usize) {
        if self.open.is_empty() {
            return;
        }
        let batch = self.open.remove(which % self.open.len());
        self.undone.retain(|offset| !batch.items.iter().any(|item| item.offset.0 == *offset));
        self.engine.handle_outcome(batch, BatchOutcome::Committed(Tally::default()), NOW);
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(effect) = self.engine.poll_effect() {
            if let Effect::Start(batch) = effect {
                self.open.push(batch);
            }
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let partition = self.engine.partitions.get_mut(&P).unwrap();
        partition.settle_prefix();
        let settled = partition.settled.0;
        prop_assert!(settled >= self.settled, "it went back from {} to {settled}", self.settled);
        let first = self.undone.first().copied().unwrap_or(i64::MAX);
        prop_assert!(settled <= first, "it passed {first}: {settled}");
        self.settled = settled;
        Ok(())
    }
}
