//! What the engines asked for is done: late, in any order, and not always with an answer.

use super::{
    database::Claimed,
    log::Event,
    parked::Begun,
    worker::{Fetch, Open, OpenRelease, Pending},
    world::{Stray, World},
};
use crate::{
    Batch, BatchOutcome, Commit, Epoch, Generation, LaneMove, Mode, NextOffset, PartitionId,
    Release, ReleaseOutcome, Seek, TakeOverFault, TransactionFault, WatermarkWrite, Written,
};

impl World {
    pub(super) fn do_pending(&mut self, w: usize) {
        if self.workers[w].frozen || self.workers[w].pending.is_empty() {
            return;
        }
        let which = self.chance.index(self.workers[w].pending.len());
        let pending = self.workers[w].pending.swap_remove(which);
        self.note(|| format!("w{w} does {pending:?}"));
        match pending {
            Pending::Commit(commits) => self.commit(w, &commits),
            Pending::Confirm(id, generation) => {
                let p = self.workers[w].place(id);
                let ours = self.owners[p] == Some(w) && self.workers[w].has(id);
                self.workers[w].engine.handle_confirmed(id, generation, ours, self.now);
                self.see(if ours { "confirmed" } else { "not confirmed" });
            }
            Pending::FindDue(id, generation) => return self.find_due(w, id, generation),
            Pending::Found(id, generation, due) => {
                self.workers[w].engine.handle_due(id, generation, due, self.now);
            }
            Pending::Release(open) => return self.release(w, open),
            Pending::Seek(seek) => self.seek(w, seek),
            Pending::TakeOver(id, generation) => self.take_over(w, id, generation),
            Pending::Transaction(open) => return self.transact(w, open),
            Pending::Watermark(write) => self.write_watermark(w, &write),
        }
        self.heard(w);
    }

    /// Trouble on the way there, or on the way back.
    pub(super) fn trouble(&mut self) -> (bool, bool) {
        if self.calm {
            return (false, false);
        }
        (self.database.down || self.chance.one_in(20), self.chance.one_in(20))
    }

    pub(super) fn commit(&mut self, w: usize, commits: &[Commit]) {
        let (there, back) =
            (!self.calm && self.chance.one_in(8), !self.calm && self.chance.one_in(8));
        if !there {
            for commit in commits {
                let p = self.workers[w].place(commit.partition);
                // The broker refuses who is no member.
                if self.owners[p] == Some(w) && self.workers[w].has(commit.partition) {
                    self.committed[p] = Some(commit.next.0);
                }
            }
        }
        self.see(if there || back { "failed Kafka commit" } else { "Kafka commit" });
        let all: Vec<_> = commits.iter().map(|commit| commit.partition).collect();
        let refused: &[_] = if there || back { &all } else { &[] };
        self.workers[w].engine.handle_committed(commits, refused);
    }

    pub(super) fn seek(&mut self, w: usize, seek: Seek) {
        let p = self.workers[w].place(seek.partition);
        let has = self.workers[w].has(seek.partition);
        let fails = !self.calm && self.chance.one_in(20);
        let sought = if has && !fails {
            if seek.leader_epoch.known() {
                let end = self.logs[p].end_of_epoch(seek.leader_epoch.0);
                assert!(end >= seek.to.0, "FALSE STOP: the client takes {seek:?} for a cut log");
            }
            let NextOffset(from) = seek.to;
            let partition = self.workers[w].engine.partitions.get(&seek.partition);
            let lanes = partition.map_or(1, |it| it.lanes.len().max(1));
            let lanes = u16::try_from(lanes).unwrap();
            let fetch = Fetch { generation: seek.generation, from, position: from, lanes };
            self.workers[w].fetches[p] = Some(fetch);
            Ok(())
        } else {
            self.workers[w].fetches[p] = self.workers[w].fetches[p].filter(|_| !has);
            Err("the partition is not assigned".to_owned())
        };
        self.see(if sought.is_ok() { "seek" } else { "failed seek" });
        let engine = &mut self.workers[w].engine;
        engine.handle_sought(seek.partition, seek.generation, sought, self.now);
    }

    pub(super) fn take_over(&mut self, w: usize, id: PartitionId, generation: Generation) {
        let p = self.workers[w].place(id);
        let (there, back) = self.trouble();
        let again = generation.0 > 0;
        let taken = if there {
            Err(TakeOverFault::Again("no route".to_owned()))
        } else {
            let log = &self.logs[p];
            let wanted = self.workers[w].lanes_wanted;
            let before = self.database.partitions[p].lanes.len();
            let ownership = self.database.take_over(p, again, wanted, self.committed[p], log);
            if ownership.remap_waits {
                *self.seen.entry("remap that waits").or_default() += 1;
            } else if ownership.lanes.len() != before {
                *self.seen.entry("remap").or_default() += 1;
            }
            if back { Err(TakeOverFault::Again("no answer".to_owned())) } else { Ok(ownership) }
        };
        self.see(if taken.is_ok() { "take-over" } else { "failed take-over" });
        self.workers[w].engine.handle_taken(id, generation, taken, self.now);
    }

    pub(super) fn write_watermark(&mut self, w: usize, write: &WatermarkWrite) {
        let p = self.workers[w].place(write.partition);
        let (there, back) = self.trouble();
        let written = if there {
            Written::Outage("no route".to_owned())
        } else {
            let yes = self.database.write_watermark(p, write, &self.logs[p]);
            match (back, yes) {
                (true, _) => Written::Outage("no answer".to_owned()),
                (false, true) => Written::Yes,
                (false, false) => Written::Fenced,
            }
        };
        self.see(match &written {
            Written::Yes if write.old == write.new => "idle check",
            Written::Yes => "watermark",
            Written::Fenced => "fenced watermark",
            Written::Outage(_) => "watermark outage",
        });
        self.workers[w].engine.handle_watermark(write, written, self.now);
    }

    /// Claim and handlers at one moment, advance and COMMIT at a later one.
    pub(super) fn transact(&mut self, w: usize, mut open: Open) {
        let p = self.workers[w].place(open.batch.partition);
        let outcome = match open.claimed.take() {
            None if open.dead => BatchOutcome::Fault(TransactionFault::Unreached(
                "terminating connection".to_owned(),
            )),
            None => match self.begin(p, &open.batch) {
                Ok(claimed) => {
                    open.claimed = Some(claimed);
                    return self.workers[w].pending.push(Pending::Transaction(open));
                }
                Err(outcome) => outcome,
            },
            Some(claimed) if open.dead => {
                self.database.roll_back(&claimed);
                BatchOutcome::Fault(TransactionFault::Outage("terminating connection".to_owned()))
            }
            Some(claimed) => self.end(p, &open.batch, claimed),
        };
        self.note(|| format!("w{w} {outcome:?}"));
        self.see(match &outcome {
            BatchOutcome::Committed(_) if open.batch.mode == Mode::Careful => "careful commit",
            BatchOutcome::Committed(_) if open.batch.lanes.len() > 1 => "commit of several lanes",
            BatchOutcome::Committed(_) => "commit of one lane",
            BatchOutcome::Failed(failures) if failures[0].index.is_none() => "unnamed failure",
            BatchOutcome::Failed(_) => "named failure",
            BatchOutcome::Fault(TransactionFault::Blocked(_)) => {
                "claim that another transaction blocks"
            }
            BatchOutcome::Fault(TransactionFault::Conflict(_)) => "conflict",
            BatchOutcome::Fault(TransactionFault::Locked { .. }) => "locked",
            BatchOutcome::Fault(TransactionFault::Broken(_)) => "broken session",
            BatchOutcome::Fault(TransactionFault::Outage(_) | TransactionFault::Unreached(_)) => {
                "outage"
            }
            BatchOutcome::Fault(TransactionFault::Unknown(_)) => "unknown commit",
            BatchOutcome::Fault(TransactionFault::Fenced) => "fenced transaction",
            BatchOutcome::Full(_) => "full",
            BatchOutcome::Reused(_) => "reuse",
        });
        if open.batch.items.iter().any(|item| item.doomed.is_some()) {
            self.see("doomed event");
        }
        let passed = |step: &LaneMove| step.prev == step.new;
        if open.batch.lanes.iter().any(passed) {
            self.see("claim of a passed offset");
        }
        self.workers[w].engine.handle_outcome(open.batch, outcome, self.now);
        self.heard(w);
    }

    pub(super) fn begin(
        &mut self,
        p: usize,
        batch: &Batch<Event>,
    ) -> Result<Claimed, BatchOutcome> {
        let (there, _) = self.trouble();
        if there {
            return Err(BatchOutcome::Fault(TransactionFault::Unreached("no route".to_owned())));
        }
        let claimed = self.database.claim(p, batch)?;
        let conflict = !self.calm && self.chance.one_in(15);
        let locked = !self.calm && self.chance.one_in(15);
        let handled = if conflict {
            Err(BatchOutcome::Fault(TransactionFault::Conflict(
                "could not serialize access".to_owned(),
            )))
        } else if locked {
            Err(BatchOutcome::Fault(locked_out(batch.items.first())))
        } else {
            self.handlers.run(batch, &claimed.verdicts, &mut self.chance)
        };
        if handled.is_err() {
            self.database.roll_back(&claimed);
        }
        handled.map(|()| claimed)
    }

    pub(super) fn end(&mut self, p: usize, batch: &Batch<Event>, claimed: Claimed) -> BatchOutcome {
        if self.calm || !self.chance.one_in(12) {
            return self.database.advance(p, batch, &claimed, self.now.0, &self.logs[p]);
        }
        // The answer is lost: it committed, or not, or it will.
        match self.chance.below(3) {
            0 => _ = self.database.advance(p, batch, &claimed, self.now.0, &self.logs[p]),
            1 => self.database.roll_back(&claimed),
            _ => {
                let open = Open { batch: batch.clone(), claimed: Some(claimed), dead: false };
                self.strays.push((p, Stray::Live(open)));
            }
        }
        BatchOutcome::Fault(TransactionFault::Unknown("no answer to COMMIT".to_owned()))
    }

    /// The rows are read at one moment, and the engine hears of them at a later one.
    pub(super) fn find_due(&mut self, w: usize, id: PartitionId, generation: Generation) {
        let p = self.workers[w].place(id);
        let (there, back) = self.trouble();
        let due_max = self.workers[w].engine.limits().due_max;
        let due = if there || back {
            Err("no route".to_owned())
        } else {
            let partition = self.workers[w].engine.partitions.get(&id);
            let epoch = partition.map_or(Epoch(0), |partition| partition.epoch);
            Ok(self.database.find_due(p, epoch, self.now.0, due_max))
        };
        self.note(|| format!("w{w} finds {due:?}"));
        self.see(match &due {
            Ok(due) if due.is_empty() => "empty look",
            Ok(due) if due.len() < due_max => "look",
            Ok(_) => "full look",
            Err(_) => "failed look",
        });
        self.workers[w].pending.push(Pending::Found(id, generation, due));
    }

    /// The rows and their handlers at one moment, advance and COMMIT at a later one.
    pub(super) fn release(&mut self, w: usize, mut open: OpenRelease) {
        let p = self.workers[w].place(open.release.partition);
        let released = match open.begun.take() {
            None if open.dead => ReleaseOutcome::Fault(TransactionFault::Unreached(
                "terminating connection".to_owned(),
            )),
            None => match self.begin_release(p, &open.release) {
                Ok(begun) => {
                    open.begun = Some(begun);
                    return self.workers[w].pending.push(Pending::Release(open));
                }
                Err(released) => released,
            },
            Some(begun) if open.dead => {
                self.database.roll_back_release(&begun);
                ReleaseOutcome::Fault(TransactionFault::Outage("terminating connection".to_owned()))
            }
            Some(begun) => self.end_release(p, &open.release, begun),
        };
        self.note(|| format!("w{w} {released:?}"));
        self.see(match &released {
            ReleaseOutcome::Done { removed: 0, .. } => "release of nothing",
            ReleaseOutcome::Done { removed: 1, .. } => "release of one",
            ReleaseOutcome::Done { .. } => "release of several",
            ReleaseOutcome::Fault(TransactionFault::Blocked(_) | TransactionFault::Conflict(_)) => {
                "conflict of a release"
            }
            ReleaseOutcome::Fault(TransactionFault::Locked { .. }) => "locked release",
            ReleaseOutcome::Fault(TransactionFault::Broken(_)) => "broken session of a release",
            ReleaseOutcome::Fault(TransactionFault::Outage(_) | TransactionFault::Unreached(_)) => {
                "outage of a release"
            }
            ReleaseOutcome::Fault(TransactionFault::Unknown(_)) => "unknown release",
            ReleaseOutcome::Fault(TransactionFault::Fenced) => "fenced release",
        });
        self.workers[w].engine.handle_released(&open.release, released, self.now);
        self.heard(w);
    }

    fn begin_release(&mut self, p: usize, release: &Release) -> Result<Begun, ReleaseOutcome> {
        let (there, _) = self.trouble();
        if there {
            return Err(ReleaseOutcome::Fault(TransactionFault::Unreached("no route".to_owned())));
        }
        if !self.calm && self.chance.one_in(15) {
            return Err(ReleaseOutcome::Fault(TransactionFault::Conflict(
                "could not serialize access".to_owned(),
            )));
        }
        if !self.calm && self.chance.one_in(15) {
            return Err(ReleaseOutcome::Fault(locked_out(None)));
        }
        let handlers = &mut self.handlers;
        let call = |event| handlers.call_parked(event);
        let begun = self.database.begin_release(p, release, self.now.0, call)?;
        for (what, often) in [
            ("failed release", usize::from(begun.failed.is_some())),
            ("blamed head", usize::from(begun.failed.is_some() && release.blamed.is_some())),
            ("discard", begun.discarded.len()),
        ] {
            *self.seen.entry(what).or_default() += often as u64;
        }
        Ok(begun)
    }

    fn end_release(&mut self, p: usize, release: &Release, begun: Begun) -> ReleaseOutcome {
        let now = self.now.0;
        if self.calm || !self.chance.one_in(5) {
            return self.database.end_release(p, release, &begun, now, &self.logs[p]);
        }
        // The answer is lost: it committed, or not, or it will.
        match self.chance.below(6) {
            0 => _ = self.database.end_release(p, release, &begun, now, &self.logs[p]),
            1 => self.database.roll_back_release(&begun),
            _ => {
                let open =
                    OpenRelease { release: release.clone(), begun: Some(begun), dead: false };
                self.strays.push((p, Stray::Release(open)));
            }
        }
        ReleaseOutcome::Fault(TransactionFault::Unknown("no answer to COMMIT".to_owned()))
    }
}

/// Another session holds what the handler of an event works on.
fn locked_out(item: Option<&crate::Item<Event>>) -> TransactionFault {
    let route = item.map_or(0, |item| item.kind.route);
    TransactionFault::Locked { route, error: "canceling statement due to lock timeout".to_owned() }
}
