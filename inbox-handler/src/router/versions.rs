//! What becomes of events whose aggregate counts its versions.

use std::time::Duration;

/// What a route does with the versions of its aggregates ([`Event::aggregate_version`](crate::Event::aggregate_version)).
///
/// The last version that was applied is kept for each consumer and aggregate (type and id), in the transaction of the
/// event. All routes with a policy share it: give one to every type of event that counts the aggregate's versions.
///
/// ```
/// use inbox_consumer::VersionPolicy;
///
/// use inbox_consumer::GapEnd;
/// use std::time::Duration;
///
/// // Late events are skipped; every event has to have a version.
/// let latest = VersionPolicy::stale().required();
/// // Events are run in the order of their versions, from 1 on.
/// let ordered = VersionPolicy::gap(Duration::from_secs(30), GapEnd::Park).first(1);
/// # let _ = (latest, ordered);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionPolicy {
    gap: Option<Gap>,
    first: Option<i64>,
    required: bool,
}

/// What becomes of an event behind a version that is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Gap {
    wait: Duration,
    end: GapEnd,
}

/// What becomes of an event whose predecessor has not come in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapEnd {
    /// It waits on: until its predecessor is applied after all, or a person releases or discards it.
    Park,
    /// It is run as it is. What is missing is stale from then on.
    Run,
}

impl VersionPolicy {
    /// An event at or below the last version that was applied is stale: it is settled and counted, and its handler is
    /// not called. Every later one is applied, whatever is missing before it.
    pub fn stale() -> Self {
        Self { gap: None, first: None, required: false }
    }

    /// As [`stale`](Self::stale); besides, an event that is not the next version after the last one that was applied
    /// waits until that is. It is parked meanwhile (`gap`), and holds nobody: other aggregates go on, and later events
    /// of its own are judged by their versions. When its predecessor has not come for so long, it goes as `end` says.
    ///
    /// Say where versions begin ([`first`](Self::first)): otherwise the first event of an aggregate is taken for
    /// its beginning, and what should have been before it is stale.
    pub fn gap(wait: Duration, end: GapEnd) -> Self {
        Self { gap: Some(Gap { wait, end }), ..Self::stale() }
    }

    /// The version that an aggregate begins with. An aggregate that was never seen is taken to be right before it, so
    /// that what is below is stale. Without it the first event that is seen is applied, whatever its version.
    #[must_use]
    pub fn first(self, version: i64) -> Self {
        Self { first: Some(version), ..self }
    }

    /// An event without a version is parked (`rejected`). Otherwise it is run as if there were no policy, and
    /// changes no version.
    #[must_use]
    pub fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// What an event without a version is parked with, if it is.
    #[doc(hidden)]
    pub fn refusal(&self, version: Option<i64>) -> Option<&'static str> {
        (self.required && version.is_none()).then_some(
            "it has no aggregate version, and its route requires one: have the producer send it, \
             or remove `required` from the route's versions",
        )
    }

    /// What an event of this version is, behind the `last` one that was applied.
    #[doc(hidden)]
    pub fn place(&self, version: i64, last: Option<i64>) -> VersionPlace {
        let last = last.or(self.first.map(|first| first.saturating_sub(1)));
        match last {
            Some(last) if version <= last => VersionPlace::Stale(last),
            Some(last) if self.gap.is_some() && version - 1 > last => VersionPlace::Gap(last),
            _ => VersionPlace::Next,
        }
    }

    /// How long an event waits for its predecessor, and what becomes of it then.
    #[doc(hidden)]
    pub fn wait(&self) -> Option<(Duration, GapEnd)> {
        self.gap.map(|gap| (gap.wait, gap.end))
    }
}

/// Where an event stands among those of its aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VersionPlace {
    /// It is run.
    Next,
    /// It is at or below this one, the last that was applied.
    Stale(i64),
    /// It is above the one that comes after this one, the last that was applied.
    Gap(i64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_at_or_below_the_last_version_is_stale() {
        let policy = VersionPolicy::stale();
        for (version, last, place) in [
            (1, None, VersionPlace::Next),
            (i64::MIN, None, VersionPlace::Next),
            (5, Some(5), VersionPlace::Stale(5)),
            (4, Some(5), VersionPlace::Stale(5)),
            (6, Some(5), VersionPlace::Next),
            (9, Some(5), VersionPlace::Next),
            (i64::MAX, Some(i64::MAX), VersionPlace::Stale(i64::MAX)),
        ] {
            assert_eq!(policy.place(version, last), place, "{version} behind {last:?}");
        }
    }

    #[test]
    fn what_is_not_the_next_version_waits() {
        let policy = VersionPolicy::gap(Duration::from_secs(1), GapEnd::Run);
        for (version, last, place) in [
            (7, None, VersionPlace::Next),
            (5, Some(5), VersionPlace::Stale(5)),
            (6, Some(5), VersionPlace::Next),
            (7, Some(5), VersionPlace::Gap(5)),
            (i64::MAX, Some(i64::MIN), VersionPlace::Gap(i64::MIN)),
            (i64::MIN + 1, Some(i64::MIN), VersionPlace::Next),
            (i64::MAX, Some(i64::MAX - 1), VersionPlace::Next),
        ] {
            assert_eq!(policy.place(version, last), place, "{version} behind {last:?}");
        }
        assert_eq!(policy.first(1).place(2, None), VersionPlace::Gap(0));
        assert_eq!(policy.first(1).place(1, None), VersionPlace::Next);
    }

    #[test]
    fn an_aggregate_begins_with_its_first_version() {
        let policy = VersionPolicy::stale().first(1);
        assert_eq!(policy.place(0, None), VersionPlace::Stale(0));
        assert_eq!(policy.place(1, None), VersionPlace::Next);
        assert_eq!(policy.place(7, Some(3)), VersionPlace::Next);
        // What was applied before the policy had a first version counts.
        assert_eq!(policy.place(-1, Some(-2)), VersionPlace::Next);
        assert_eq!(
            VersionPolicy::stale().first(i64::MIN).place(i64::MIN, None),
            VersionPlace::Stale(i64::MIN)
        );
    }

    #[test]
    fn a_version_may_be_required() {
        assert!(VersionPolicy::stale().refusal(None).is_none());
        assert!(VersionPolicy::stale().required().refusal(Some(1)).is_none());
        assert!(VersionPolicy::stale().required().refusal(None).is_some());
    }
}
