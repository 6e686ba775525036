//! Everything that goes wrong: outages, failovers, crashes, frozen processes, silent transactions.

use super::{
    worker::{Pending, Worker},
    world::{PARTITIONS, World},
};
use crate::Outcome;

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
                    if let Pending::Transaction(open) = pending {
                        open.dead = true;
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
                if let Pending::Transaction(open) = pending {
                    open.dead = open.claimed.is_some();
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
        let old = std::mem::replace(&mut self.workers[w], Worker::new(PARTITIONS, seed));
        for pending in old.pending {
            if let Pending::Transaction(open) = pending {
                let p = old.places[usize::try_from(open.batch.partition.0).unwrap()];
                self.strays.push((p, open));
            }
        }
    }

    /// A transaction that nobody waits for ends.
    pub(super) fn stray(&mut self) {
        if self.strays.is_empty() {
            return;
        }
        let which = self.chance.index(self.strays.len());
        let (p, open) = self.strays.swap_remove(which);
        let arrives = !open.dead && self.chance.one_in(2);
        match open.claimed {
            Some(claimed) if arrives => {
                let outcome = self.database.advance(p, &open.batch, &claimed, &self.logs[p]);
                self.see(match outcome {
                    Outcome::Committed(_) => "stray commit",
                    _ => "fenced stray",
                });
                self.note(|| format!("a stray commits at {p}: {outcome:?} {:?}", open.batch.lanes));
            }
            Some(claimed) => self.database.roll_back(&claimed),
            None => {}
        }
    }
}
