//! What a consumer has done so far, in numbers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use inbox_engine::Outcome;

use crate::pipeline::release::Report;

macro_rules! counters {
    ($( $(#[doc = $doc:literal])+ $name:ident, )+) => {
        /// What a consumer has done so far. Written once per transaction, read at any time.
        #[derive(Debug, Default)]
        pub struct Counters {
            $( $name: AtomicU64, )+
        }

        /// The numbers of one moment.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
        #[non_exhaustive]
        pub struct Counts {
            $( $(#[doc = $doc])+ pub $name: u64, )+
        }

        impl Counts {
            /// Name and meaning of each.
            pub(super) const DOCS: &[(&str, &str)] =
                &[ $( (stringify!($name), concat!($( $doc ),+).trim_ascii()), )+ ];
        }

        impl Counters {
            /// The numbers as they are now. Each is exact; together they may be a moment apart.
            pub fn read(&self) -> Counts {
                Counts { $( $name: self.$name.load(Relaxed), )+ }
            }
        }
    };
}

counters! {
    /// Events whose handler ran and committed.
    applied,
    /// Deliveries that were settled already.
    duplicates,
    /// Events parked, followers included.
    parked,
    /// Events of an unknown type that the configuration ignores.
    ignored,
    /// Parked events that left their queue with their effect.
    released,
    /// Parked events that a person gave up.
    discarded,
    /// Releases of a parked event that failed; it has a new time, or waits for a person.
    release_failures,
    /// Transactions committed.
    batches,
    /// Handlers' failures; each is one attempt.
    failures,
    /// Transactions that met another and run again.
    conflicts,
    /// Transactions that found no database.
    outages,
    /// Transactions rolled back because their lanes moved, and COMMITs of unknown outcome; each takes the partition over anew.
    resyncs,
}

fn add(counter: &AtomicU64, n: u64) {
    if n > 0 {
        counter.fetch_add(n, Relaxed);
    }
}

impl Counters {
    /// Counts what a committed release did.
    pub(crate) fn count_release(&self, report: &Report) {
        add(&self.released, report.released);
        add(&self.discarded, report.discarded);
        add(&self.release_failures, report.failed.len() as u64);
    }

    /// Counts what a transaction did.
    pub(crate) fn count(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Committed(tally) => {
                add(&self.batches, 1);
                add(&self.applied, tally.applied);
                add(&self.duplicates, tally.duplicates);
                add(&self.parked, tally.parked);
                add(&self.ignored, tally.ignored);
            }
            Outcome::Failed(failures) => add(&self.failures, failures.len() as u64),
            Outcome::Conflict(_) => add(&self.conflicts, 1),
            Outcome::Outage(_) => add(&self.outages, 1),
            Outcome::Unknown(_) | Outcome::Fenced => add(&self.resyncs, 1),
            // The partition stands still for it: the signal tells.
            Outcome::Reused(_) | Outcome::Full(_) => {}
        }
    }
}
