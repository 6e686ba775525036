//! What a destination is held to, and what is written about its events.

use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::{
    destination::Destination,
    port::{DESTINATION, Marks, RowFailure, RowId},
    routes::KAFKA,
};

/// The number of a destination, and what its events share outages with.
pub(crate) type LaneKey = (usize, String);

/// The longest part of a scope that is written on rows.
const SCOPE_CHARS: usize = 200;

/// How failed events are tried again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryRules {
    pub(crate) attempts_max: u32,
    pub(crate) delay_min: Duration,
    pub(crate) delay_max: Duration,
    /// Longest delay between two probes of what is out.
    pub(crate) outage_delay_max: Duration,
}

/// What bounds a destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    pub(crate) name: String,
    pub(crate) batch_max: usize,
    pub(crate) calls_max: usize,
}

impl Bounds {
    pub(crate) fn of(destination: &Destination) -> Self {
        let Destination { name, sink, .. } = destination;
        let (batch_max, calls_max) = (sink.batch_max().max(1), sink.calls_max().max(1));
        Self { name: name.clone(), batch_max, calls_max }
    }
}

/// What became of events, to be marked.
#[derive(Debug, Default)]
pub(crate) struct Concluded {
    pub(crate) sent: Vec<RowId>,
    pub(crate) late: Vec<RowId>,
    pub(crate) failed: Vec<RowFailure>,
}

/// What rows wait for: printable and of an index's size, whatever a scope is.
pub(crate) fn name(destination: &str, scope: &str) -> String {
    if scope.is_empty() {
        return format!("{DESTINATION}{destination}");
    }
    let plain: String = scope.chars().filter(|c| !c.is_control()).take(SCOPE_CHARS).collect();
    if plain == scope {
        return format!("{DESTINATION}{destination} ({scope})");
    }
    // The same in every build: a relay of the next one compares it with what this one has written.
    format!("{DESTINATION}{destination} ({plain}…{:x})", xxh3_64(scope.as_bytes()))
}

/// What rows wait for while Kafka is out, where they would hide those of others.
pub(crate) fn kafka() -> String {
    name(KAFKA, "")
}

/// Written on a row that waits though its destination works.
pub(crate) fn no_room(name: &str) -> String {
    format!("{name} has more events in flight than allowed; retried automatically")
}

impl Concluded {
    /// As the database is told.
    pub(crate) fn marks(&self) -> Marks<'_> {
        let Self { sent, late, failed } = self;
        Marks { sent, late, failed }
    }

    pub(super) fn len(&self) -> usize {
        self.sent.len() + self.late.len() + self.failed.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_scope_has_the_same_name_in_every_build() {
        let long = "x".repeat(SCOPE_CHARS + 1);
        let plain = &long[..SCOPE_CHARS];
        assert_eq!(name("shop", &long), format!("{DESTINATION}shop ({plain}…32df31caf6566da7)"));
        assert_eq!(name("shop", plain), format!("{DESTINATION}shop ({plain})"));
    }
}
