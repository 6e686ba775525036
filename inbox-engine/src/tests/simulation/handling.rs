//! Handlers: what a transaction comes to before it commits.

use std::collections::HashMap;

use super::{
    chance::Chance,
    database::Verdict,
    log::{Event, Nature},
};
use crate::{
    Batch, BatchOutcome, Failure, HandlerFault, Mode, ReleaseOutcome, RunEntry, TransactionFault,
    runs,
};

/// How often events have failed so far.
#[derive(Default, Debug)]
pub(super) struct Handlers {
    failed: HashMap<u32, u8>,
    /// A deploy has mended them all.
    pub(super) mended: bool,
}

/// What a handler comes to when it does not succeed.
enum Trouble {
    Fault(HandlerFault),
    Conflict,
    Disconnect,
}

impl Handlers {
    /// Runs what is to be run, in the order of the runs, or one by one.
    pub(super) fn run(
        &mut self,
        batch: &Batch<Event>,
        verdicts: &[Verdict],
        chance: &mut Chance,
    ) -> Result<(), BatchOutcome> {
        let entries: Vec<RunEntry> = (0..verdicts.len())
            .filter(|&index| verdicts[index] == Verdict::Run)
            .map(|index| {
                let item = &batch.items[index];
                RunEntry { index, lane: item.lane, kind: item.kind, aggregate: item.aggregate }
            })
            .collect();
        match batch.mode {
            Mode::Together => {
                let mut handled = Vec::new();
                for run in runs(&entries) {
                    for index in run.items {
                        overtakes_none(batch, &handled, index);
                        handled.push(index);
                        self.call(batch, index, chance)?.map_or(Ok(()), |failure| {
                            let named = !run.kind.whole_run || chance.one_in(2);
                            let index = failure.index.filter(|_| named);
                            Err(BatchOutcome::Failed(vec![Failure { index, ..failure }]))
                        })?;
                    }
                }
            }
            Mode::Careful => self.run_carefully(batch, &entries, chance)?,
        }
        Ok(())
    }

    fn run_carefully(
        &mut self,
        batch: &Batch<Event>,
        entries: &[RunEntry],
        chance: &mut Chance,
    ) -> Result<(), BatchOutcome> {
        let mut failures: Vec<Failure> = Vec::new();
        for entry in entries {
            let lane = |f: &Failure| batch.items[f.index.unwrap()].lane == entry.lane;
            if !failures.iter().any(lane) {
                failures.extend(self.call(batch, entry.index, chance)?);
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        // At times nobody can tell (a failure at COMMIT that no savepoint showed).
        if chance.one_in(8) {
            failures.truncate(1);
            failures[0].index = None;
        }
        Err(BatchOutcome::Failed(failures))
    }

    fn call(
        &mut self,
        batch: &Batch<Event>,
        index: usize,
        chance: &mut Chance,
    ) -> Result<Option<Failure>, BatchOutcome> {
        let event = batch.items[index].event;
        assert!(event.nature != Nature::Undecodable, "it is parked, not run");
        let fault = match self.trouble(event) {
            None => return Ok(None),
            Some(Trouble::Fault(fault)) => fault,
            Some(Trouble::Conflict) => {
                return Err(BatchOutcome::Fault(TransactionFault::Conflict("deadlock".to_owned())));
            }
            Some(Trouble::Disconnect) => {
                return Err(BatchOutcome::Fault(TransactionFault::Outage("it crashed".to_owned())));
            }
        };
        let index = match event.nature {
            Nature::FailsUnnamed if batch.mode == Mode::Together || chance.one_in(4) => None,
            _ => Some(index),
        };
        if index.is_none() && batch.mode == Mode::Careful {
            return Err(BatchOutcome::Failed(vec![Failure { index, fault, error: String::new() }]));
        }
        Ok(Some(Failure { index, fault, error: "no such account".to_owned() }))
    }

    /// Runs the handler of a parked event.
    pub(super) fn call_parked(
        &mut self,
        event: Event,
    ) -> Result<Result<(), HandlerFault>, ReleaseOutcome> {
        match self.trouble(event) {
            None => Ok(Ok(())),
            Some(Trouble::Fault(fault)) => Ok(Err(fault)),
            Some(Trouble::Conflict) => {
                Err(ReleaseOutcome::Fault(TransactionFault::Conflict("deadlock".to_owned())))
            }
            Some(Trouble::Disconnect) => {
                Err(ReleaseOutcome::Fault(TransactionFault::Outage("it crashed".to_owned())))
            }
        }
    }

    fn trouble(&mut self, event: Event) -> Option<Trouble> {
        match event.nature {
            _ if self.mended => None,
            Nature::Good => None,
            Nature::Fails(times) => {
                let failed = self.failed.entry(event.number).or_default();
                let again = *failed < times;
                *failed += u8::from(again);
                again.then_some(Trouble::Fault(HandlerFault::Retry))
            }
            Nature::FailsUnnamed => Some(Trouble::Fault(HandlerFault::Retry)),
            Nature::Rejects | Nature::Undecodable => Some(Trouble::Fault(HandlerFault::Reject)),
            Nature::Conflicts => Some(Trouble::Conflict),
            Nature::Disconnects => Some(Trouble::Disconnect),
        }
    }
}

/// Handlers of one lane run in its order.
fn overtakes_none(batch: &Batch<Event>, handled: &[usize], index: usize) {
    let item = &batch.items[index];
    let later = |&other: &usize| {
        batch.items[other].lane == item.lane && batch.items[other].offset > item.offset
    };
    assert!(!handled.iter().any(later), "OVERTAKEN: {:?} in its transaction", item.event);
}
