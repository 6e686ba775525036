//! The turns of a release's events: in the order of the queue, and of versions, up to the first failure.

use std::collections::{BTreeMap, VecDeque};

use inbox_engine::internal::{Doom, Failure, Rule};
use inbox_store::internal::{
    port::{Transactions, release::Queued},
    record_text,
};

use super::plan::ReleasePlan;
use crate::pipeline::{
    disposition::Disposition,
    fault_point,
    handling::EventEnd,
    intake::IGNORED,
    transaction::{EarlyEnd, Transaction},
};

/// How the turn of an event went.
pub(super) enum Turn {
    /// It leaves its queue.
    Done,
    /// It leaves its queue for another one, until a version before its own is applied.
    Waits,
    /// It stays.
    Failed(ReleaseFailure),
}

/// A failure that stays in its transaction.
pub(super) struct ReleaseFailure {
    pub(super) at: usize,
    /// Why it stays parked.
    pub(super) doom: Doom,
    /// A handler was called.
    pub(super) attempted: bool,
}

impl<DB: Transactions> Transaction<'_, DB> {
    /// Runs events up to the first failure; answers how the turns went of those that had one. One that waits has
    /// another turn as soon as the version before its own is applied here.
    pub(super) async fn run_in_order(
        &mut self,
        plan: &ReleasePlan,
    ) -> Result<BTreeMap<usize, Turn>, EarlyEnd> {
        let mut anew = self.claim_new_ids(plan).await?;
        self.read_versions().await?;
        let mut places: VecDeque<usize> = (0..plan.run.len()).collect();
        let mut turns = BTreeMap::new();
        while let Some(at) = places.pop_front() {
            let row = &plan.run[at];
            let disposition = anew.remove(&at).unwrap_or(Disposition::Run);
            // A row without its record is for a person to put right.
            let readable = || record_text::record(&row.record).is_some();
            let readable = self.batch.items[at].doomed.is_none() || readable();
            self.tried.push(at);
            let turn = self.run_one(row, at, disposition, readable).await?;
            if let Turn::Waits = turn {
                self.tried.pop();
                self.versions.wait(at);
            }
            let failed = matches!(turn, Turn::Failed(_));
            turns.insert(at, turn);
            if failed && Rule::ReleaseStopsAtFailure.on() {
                break;
            }
            for ready in self.versions.ready() {
                turns.remove(&ready);
                places.push_front(ready);
            }
        }
        Ok(turns)
    }

    async fn run_one(
        &mut self,
        row: &Queued,
        at: usize,
        disposition: Disposition,
        readable: bool,
    ) -> Result<Turn, EarlyEnd> {
        let item = &self.batch.items[at];
        let without = |doom| Turn::Failed(ReleaseFailure { at, doom, attempted: false });
        if let Some(doom) = item.doomed.clone() {
            let stays = if readable { self.give_up(at, doom).await? } else { Some(doom) };
            return Ok(stays.map_or(Turn::Done, without));
        }
        match disposition {
            Disposition::Park(doom) => return Ok(without(doom)),
            Disposition::Duplicate => return Ok(Turn::Done),
            _ if item.kind.route == IGNORED.route => return Ok(Turn::Done),
            _ => {}
        }
        if let Some(turn) = self.turn_by_version(row, at) {
            return Ok(turn);
        }
        let end = self.handle_single(at).await?;
        fault_point::pass("release.after_handler");
        Ok(match end {
            EventEnd::Applied => {
                self.versions.pass(at);
                Turn::Done
            }
            EventEnd::Doomed(doom) => match self.give_up(at, doom).await? {
                Some(doom) => without(doom),
                None => {
                    self.versions.pass(at);
                    Turn::Done
                }
            },
            EventEnd::Failed(Failure { fault, error, .. }) => {
                let doom = Doom { reason: fault.park_reason(), error };
                Turn::Failed(ReleaseFailure { at, doom, attempted: true })
            }
        })
    }
}
