//! What the database is asked for: no more than there is room for.

use crate::{
    planner::Planner,
    types::{Effect, PlannerSettings, ReadRequest, Time},
};

impl<T> Planner<T> {
    pub(crate) fn begin_read(&mut self, now: Time) -> Option<Effect> {
        if !self.reading.wants(now) {
            return None;
        }
        let PlannerSettings { batch_rows, batch_bytes, rows_max, bytes_max, .. } = self.settings;
        if self.known.len() + batch_rows > rows_max || self.bytes + batch_bytes > bytes_max {
            self.reading.stalled.get_or_insert(now);
            return None;
        }
        self.reading.begin();
        self.store.begin_ask();
        let read_to = self.reading.read_to;
        Some(Effect::Read(ReadRequest { read_to, rows_max: batch_rows, bytes_max: batch_bytes }))
    }

    pub(crate) fn begin_claim(&mut self, now: Time) -> Option<Effect> {
        if !self.reading.has_caught_up {
            return None;
        }
        for name in self.dues.due(now) {
            if self.store.is_parking(&name) {
                continue;
            }
            let rows = self.claimable(&name, now);
            if rows > 0 {
                self.dues.begin_claim(&name);
                self.store.begin_ask();
                return Some(Effect::Claim(name, rows, self.settings.batch_bytes));
            }
        }
        None
    }

    /// How many rows may be claimed under a name.
    pub(crate) fn claimable(&self, name: &str, now: Time) -> usize {
        let PlannerSettings { batch_rows, batch_bytes, rows_max, bytes_max, .. } = self.settings;
        // A reserve that reads do not use.
        let room = (rows_max + batch_rows).saturating_sub(self.known.len()).min(batch_rows);
        let room = if self.bytes >= bytes_max + batch_bytes { 0 } else { room };
        let base = name.split([':', '/']).next().unwrap_or_default();
        let at = self.settings.destinations.iter().position(|limits| limits.name == base);
        if at.is_some_and(|destination| self.destinations.down(destination).is_some()) {
            return 0;
        }
        let lane = self.lanes.iter().find(|(key, _)| self.name(key) == name);
        let Some((key, lane)) = lane else { return room };
        if lane.outage().is_some() {
            return usize::from(lane.lacks_probe(now)).min(room);
        }
        let most = if lane.is_limited { self.keeps(key, lane) } else { rows_max / 2 };
        // Not one by one.
        let is_large = lane.is_limited && lane.bytes * 4 >= bytes_max;
        if is_large || lane.rows * 2 > most { 0 } else { room.min(most - lane.rows) }
    }
}
