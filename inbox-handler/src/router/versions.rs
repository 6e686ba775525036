//! What becomes of events whose aggregate counts its versions.

/// What a route does with the versions of its aggregates ([`Event::aggregate_version`](crate::Event::aggregate_version)).
///
/// The last version that was applied is kept for each consumer and aggregate (type and id), in the transaction of the
/// event. All routes with a policy share it: give one to every type of event that counts the aggregate's versions.
///
/// ```
/// use inbox_consumer::VersionPolicy;
///
/// // Late events are skipped; every event has to have a version.
/// let latest = VersionPolicy::stale().required();
/// # let _ = latest;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionPolicy {
    first: Option<i64>,
    required: bool,
}

impl VersionPolicy {
    /// An event at or below the last version that was applied is stale: it is settled and counted, and its handler is
    /// not called. Every later one is applied, whatever is missing before it.
    pub fn stale() -> Self {
        Self { first: None, required: false }
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
            "it has no aggregate version, and its route requires one: let the producer send it, or take `required` \
             from the route's versions",
        )
    }

    /// What an event of this version is, behind the `last` one that was applied.
    #[doc(hidden)]
    pub fn place(&self, version: i64, last: Option<i64>) -> VersionPlace {
        let last = last.or(self.first.map(|first| first.saturating_sub(1)));
        match last {
            Some(last) if version <= last => VersionPlace::Stale(last),
            _ => VersionPlace::Next,
        }
    }
}

/// Where an event stands among those of its aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VersionPlace {
    /// It is run.
    Next,
    /// It is at or below this one, the last that was applied.
    Stale(i64),
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
