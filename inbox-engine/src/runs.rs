//! Runs: which fresh events go to a handler in one call, so that nothing overtakes its aggregate.

use crate::{Kind, Lane, Rule};

/// What the cutting of runs needs to know of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunEntry {
    /// Which item of the batch it is.
    pub index: usize,
    /// Its lane.
    pub lane: Lane,
    /// Its event type.
    pub kind: Kind,
    /// Its aggregate.
    pub aggregate: [u8; 16],
}

/// One call: items of one kind, by (lane, offset).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// What they have in common.
    pub kind: Kind,
    /// Which items of the batch, in the order to run them.
    pub items: Vec<usize>,
}

/// Cuts events, given by (lane, offset), into runs.
///
/// Within a transaction there are rounds: a call takes, from each lane, the events of its type at the
/// lane's head; a lane goes on only after that. So an event is in a later run than every event before
/// it in its lane, unless both are in one run, in order (finding 6). Handlers that take events one by
/// one get the same rounds: an event of one lane never depends on another lane.
pub fn runs(entries: &[RunEntry]) -> Vec<Run> {
    if !Rule::RunsKeepLaneOrder.on() {
        return by_type(entries);
    }
    let mut lanes: Vec<&[RunEntry]> = entries.chunk_by(|a, b| a.lane == b.lane).collect();
    let mut runs = Vec::new();
    while let Some(kind) = lanes.iter().find_map(|lane| lane.first()).map(|entry| entry.kind) {
        let mut items = Vec::with_capacity(entries.len());
        for lane in &mut lanes {
            let taken = head(lane, kind);
            items.extend(lane[..taken].iter().map(|entry| entry.index));
            *lane = &lane[taken..];
        }
        runs.push(Run { kind, items });
    }
    runs
}

/// How many events at the head of a lane can join a call of this kind. Equal aggregates are always in
/// one lane, so looking along the lane is enough for `one_per_aggregate`.
fn head(lane: &[RunEntry], kind: Kind) -> usize {
    let equal = lane.iter().take_while(|entry| entry.kind == kind).count();
    if !kind.one_per_aggregate {
        return equal;
    }
    let mut seen = std::collections::HashSet::with_capacity(equal);
    lane[..equal].iter().take_while(|entry| seen.insert(entry.aggregate)).count()
}

/// What `Rule::RunsKeepLaneOrder` forbids.
fn by_type(entries: &[RunEntry]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for entry in entries {
        match runs.iter_mut().find(|run| run.kind == entry.kind) {
            Some(run) => run.items.push(entry.index),
            None => runs.push(Run { kind: entry.kind, items: vec![entry.index] }),
        }
    }
    runs
}
