//! Faults that an event meets alone, live or parked.

/// Faults in a row, each after a commit of others since the one before: so no outage is ever counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LoneFaults {
    count: u32,
    /// The engine's commits at the last of them.
    since: u64,
}

impl LoneFaults {
    /// Counts one more if it is the first, or there was a commit that counts since the one before: `latest` is the
    /// number of the last such commit, `commits` that of all. Answers whether the event is at fault by now.
    pub(crate) fn count(&mut self, latest: u64, commits: u64, max: u32) -> bool {
        if self.count == 0 || self.since < latest {
            self.count += 1;
            self.since = commits;
        }
        self.count >= max
    }

    /// One more and the event is at fault again.
    pub(crate) fn count_soon(&mut self, max: u32) {
        self.count = max - 1;
    }
}
