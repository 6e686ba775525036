//! How much is in memory, and how much more may be.

use std::collections::HashSet;

use crate::types::PlannerSettings;

/// What is in memory, and its bounds.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    /// Rows, those included that are not stored yet.
    known: HashSet<i64>,
    /// The bytes of those that may go.
    pub(crate) bytes: usize,
    rows_max: usize,
    bytes_max: usize,
    batch_rows: usize,
    batch_bytes: usize,
}

impl Memory {
    pub(crate) fn new(settings: &PlannerSettings) -> Self {
        let PlannerSettings { rows_max, bytes_max, batch_rows, batch_bytes, .. } = *settings;
        Self { known: HashSet::new(), bytes: 0, rows_max, bytes_max, batch_rows, batch_bytes }
    }

    pub(crate) fn knows(&self, seq: i64) -> bool {
        self.known.contains(&seq)
    }

    pub(crate) fn know(&mut self, seq: i64) {
        self.known.insert(seq);
    }

    pub(crate) fn forget(&mut self, seq: i64) {
        self.known.remove(&seq);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(crate) fn fits_a_read(&self) -> bool {
        self.known.len() + self.batch_rows <= self.rows_max
            && self.bytes + self.batch_bytes <= self.bytes_max
    }

    /// The rows and bytes that may be claimed: there is a reserve that reads do not use.
    pub(crate) fn room_for_claim(&self) -> (usize, usize) {
        let rows = (self.rows_max + self.batch_rows).saturating_sub(self.known.len());
        let bytes = (self.bytes_max + self.batch_bytes).saturating_sub(self.bytes);
        let rows = if bytes == 0 { 0 } else { rows };
        (rows.min(self.batch_rows), bytes.min(self.batch_bytes))
    }

    #[cfg(test)]
    pub(crate) fn rows(&self) -> Vec<i64> {
        let mut rows: Vec<i64> = self.known.iter().copied().collect();
        rows.sort_unstable();
        rows
    }
}
