//! Everything that goes wrong: outages, failovers, crashes, frozen processes, silent transactions.

use super::{
    log::Nature,
    parked::{Intent, NEVER},
    worker::{Open, OpenRelease, Pending, Worker},
    world::{PARTITIONS, Stray, World},
};
use crate::{BatchOutcome, ReleaseOutcome};

impl World {
    pub(super) fn fault(&mut self, w: usize) {
        match self.chance.below(100) {
            0..20 => self.database.down = true,
            20..30 => self.fail_over(),
            30..40 => self.crash(w),
            40..55 => {
                self.workers[w].frozen = !self.workers[w].frozen;
                let frozen = self.workers[w].frozen;
                self.note(|| format!("w{w} frozen: {frozen}"));
            }
            55..65 => self.expel(w),
            65..75 => {
                // Silent transactions are ended by the database.
                for pending in &mut self.workers[w].pending {
                    match pending {
                        Pending::Transaction(open) => open.dead = true,
                        Pending::Release(open) => open.dead = true,
                        _ => {}
                    }
                }
            }
            _ => {
                let logs = &self.logs;
                self.database.prune(logs);
            }
        }
    }

    pub(super) fn fail_over(&mut self) {
        self.see("failover");
        let commits = self.chance.index(6);
        self.note(|| format!("a failover loses {commits} commits"));
        self.database.fail_over(commits);
        self.strays.clear();
        for worker in &mut self.workers {
            for pending in &mut worker.pending {
                match pending {
                    Pending::Transaction(open) => open.dead = open.claimed.is_some(),
                    Pending::Release(open) => open.dead = open.begun.is_some(),
                    _ => {}
                }
            }
        }
    }

    /// A process ends; a new one takes its place. What it had sent may still arrive.
    pub(super) fn crash(&mut self, w: usize) {
        self.expel(w);
        self.see("crash");
        self.note(|| format!("w{w} crashes"));
        let seed = self.chance.next();
        let lanes = 1 + u16::try_from(self.chance.below(4)).unwrap();
        let fresh = Worker::new(PARTITIONS, seed, lanes);
        let old = std::mem::replace(&mut self.workers[w], fresh);
        for pending in old.pending {
            let (id, stray) = match pending {
                Pending::Transaction(open) => (open.batch.partition, Stray::Live(open)),
                Pending::Release(open) => (open.release.partition, Stray::Release(open)),
                _ => continue,
            };
            self.strays.push((old.places[usize::try_from(id.0).unwrap()], stray));
        }
    }

    /// A transaction that nobody waits for ends.
    pub(super) fn stray(&mut self) {
        if self.strays.is_empty() {
            return;
        }
        let which = self.chance.index(self.strays.len());
        match self.strays.swap_remove(which) {
            (p, Stray::Live(open)) => self.stray_live(p, open),
            (p, Stray::Release(open)) => self.stray_release(p, open),
        }
    }

    fn stray_release(&mut self, p: usize, open: OpenRelease) {
        let arrives = !open.dead && self.chance.one_in(2);
        let (now, log) = (self.now.0, &self.logs[p]);
        match open.begun {
            Some(begun) if arrives => {
                let released = self.database.end_release(p, &open.release, &begun, now, log);
                self.see(match released {
                    ReleaseOutcome::Done { .. } => "stray release",
                    ReleaseOutcome::Fault(_) => "fenced stray release",
                });
                self.note(|| format!("a stray release at {p}: {released:?} {:?}", open.release));
            }
            Some(begun) => self.database.roll_back_release(&begun),
            None => {}
        }
    }

    fn stray_live(&mut self, p: usize, open: Open) {
        let arrives = !open.dead && self.chance.one_in(2);
        let (now, log) = (self.now.0, &self.logs[p]);
        match open.claimed {
            Some(claimed) if arrives => {
                let outcome = self.database.advance(p, &open.batch, &claimed, now, log);
                self.see(match outcome {
                    BatchOutcome::Committed(_) => "stray commit",
                    _ => "fenced stray",
                });
                self.note(|| format!("a stray commits at {p}: {outcome:?} {:?}", open.batch.lanes));
            }
            Some(claimed) => self.database.roll_back(&claimed),
            None => {}
        }
    }

    /// A person wants something done with a parked event.
    pub(super) fn operate(&mut self) {
        let (p, number) = (self.chance.index(PARTITIONS), self.chance.index(self.aggregates()));
        let queue = self.database.queue(p, number);
        if !queue.is_empty() {
            let row = if self.chance.one_in(4) { self.chance.index(queue.len()) } else { 0 };
            let discard = self.chance.one_in(4);
            self.intend(p, number, row, if discard { Intent::Discard } else { Intent::Release });
        }
    }

    /// Somebody looks after everything that waits for a person: what no release can mend is discarded,
    /// what may succeed is released.
    pub(super) fn operate_calmly(&mut self) {
        let aggregates = self.aggregates();
        for (p, number) in (0..PARTITIONS * aggregates).map(|n| (n / aggregates, n % aggregates)) {
            let Some(head) = self.database.queue(p, number).first() else { continue };
            if head.due == Some(NEVER) && head.intent.is_none() {
                let mendable = matches!(head.event.nature, Nature::Good | Nature::Fails(_));
                let release = mendable || self.handlers.mended;
                self.intend(p, number, 0, if release { Intent::Release } else { Intent::Discard });
            }
        }
    }

    fn intend(&mut self, p: usize, number: usize, row: usize, intent: Intent) {
        if self.database.intend(p, number, row, intent) {
            self.steps += 1;
            self.see("intent");
            self.note(|| format!("somebody wants {intent:?} of row {row} of {number} in {p}"));
        }
    }

    fn aggregates(&self) -> usize {
        usize::from(self.shape.aggregates)
    }
}
