//! The group: it gives partitions, takes them back, and loses patience.

use super::{
    worker::News,
    world::{PARTITIONS, WORKERS, World},
};
use crate::PartitionId;

impl World {
    /// A worker answers revocations: each as a whole, exactly.
    pub(super) fn answer(&mut self, w: usize, let_go: Vec<Vec<PartitionId>>) {
        for ids in let_go {
            self.see(if ids.len() > 1 { "let go of several" } else { "let go of one" });
            let asked = self.revoked[w].iter().position(|asked| *asked == ids);
            if let Some(asked) = asked {
                self.revoked[w].remove(asked);
            } else {
                // The group had lost patience before the worker heard of the revocation.
                let late = !ids.iter().any(|id| self.workers[w].has(*id));
                let closing = self.workers[w].engine.closing;
                assert!(late || closing, "w{w} let {ids:?} go unasked");
            }
            for id in ids {
                let p = self.workers[w].place(id);
                if self.workers[w].has(id) {
                    self.workers[w].unassign(p);
                    self.owners[p] = None;
                }
            }
        }
    }

    /// The group gives, takes, or takes members back.
    pub(super) fn group(&mut self) {
        let w = self.chance.index(WORKERS);
        let closing = self.workers[w].engine.closing;
        if !self.workers[w].joined {
            self.workers[w].joined = !self.workers[w].frozen;
            return;
        }
        let wait = self.workers[w].frozen || !self.revoked[w].is_empty();
        let free = (0..PARTITIONS).filter(|p| self.owners[*p].is_none());
        let mut given: Vec<usize> = free.filter(|_| !wait && !closing).collect();
        given.retain(|_| !self.chance.one_in(3));
        if !given.is_empty() {
            let ids = given.iter().map(|&p| self.workers[w].assign(p)).collect();
            for p in given {
                self.owners[p] = Some(w);
            }
            self.workers[w].news.push_back(News::Assigned(ids));
        } else if !wait && !self.calm && self.chance.one_in(3) {
            let mut taken: Vec<usize> =
                (0..PARTITIONS).filter(|p| self.owners[*p] == Some(w)).collect();
            taken.retain(|_| self.chance.one_in(2));
            let ids: Vec<PartitionId> =
                taken.iter().filter_map(|&p| self.workers[w].assigned[p]).collect();
            if !ids.is_empty() {
                self.revoked[w].push(ids.clone());
                self.workers[w].news.push_back(News::Revoked(ids));
            }
        }
    }

    /// The group has not heard of a member in time: its partitions are others' now, and it will hear
    /// so when it listens.
    pub(super) fn expel(&mut self, w: usize) {
        self.note(|| format!("w{w} is expelled"));
        let mut ids = Vec::new();
        for p in 0..PARTITIONS {
            if self.owners[p] == Some(w) {
                self.owners[p] = None;
                ids.extend(self.workers[w].unassign(p));
            }
        }
        self.revoked[w].clear();
        self.workers[w].joined = false;
        if !ids.is_empty() {
            self.workers[w].news.push_back(News::Lost(ids));
        }
    }
}
