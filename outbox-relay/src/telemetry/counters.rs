//! What a relay has done so far, in numbers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($( $(#[doc = $doc:literal])+ $name:ident, )+) => {
        /// What a relay has done so far. Written once per batch, read at any time.
        #[derive(Debug, Default)]
        pub struct Counters {
            $( pub(crate) $name: Count, )+
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
                Counts { $( $name: self.$name.0.load(Relaxed), )+ }
            }
        }
    };
}

/// One number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        if n > 0 {
            self.0.fetch_add(n, Relaxed);
        }
    }
}

counters! {
    /// Rows that were acknowledged by the brokers and marked as sent.
    sent,
    /// Batches that went through.
    batches,
    /// Batches of unknown outcome: purged, aborted and read from the database again.
    unknown,
    /// Rows that were set aside.
    failed,
    /// Looks at the database for rows that wait.
    looks,
    /// Attempts that found no database or no Kafka.
    outages,
    /// Turns that were taken.
    turns,
    /// Rows that were removed after their retention.
    pruned,
}
