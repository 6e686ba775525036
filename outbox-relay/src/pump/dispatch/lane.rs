//! What fails together: who waits for it, and whether it works.
//!
//! A failure is an event's own if others are delivered, and everybody's if three aggregates fail with no delivery
//! between them. Until that is known the event is in doubt: nothing of its aggregate goes, and nothing is written.

use std::{
    collections::{HashSet, VecDeque},
    time::{Duration, Instant},
};

use inbox_engine::internal::Rule;
use service_kit::throttle::REPEAT_AFTER;

use super::{AFTER_MAX, Item, RetryRules};
use crate::destination::Outcome;

/// So many aggregates that fail with no delivery between them are an outage.
const OUTAGE: usize = 3;
/// How long an event that fails alone is in doubt.
const DOUBT: Duration = Duration::from_secs(1);
/// How long a failure with no delivery after it counts.
const MEMORY: Duration = Duration::from_mins(1);
/// The delay before the first probe.
const PROBE_FIRST: Duration = Duration::from_millis(200);

/// An event whose failure is not judged yet, what was said, and what its destination asked for.
type Suspect = (Item, String, Option<Duration>);

/// What fails together.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Aggregates whose first event is next.
    ready: VecDeque<String>,
    /// Rows that are queued for it.
    rows: usize,
    /// Calls under way.
    calls: usize,
    /// Aggregates that failed since something was delivered, and when the last one did.
    failed: HashSet<String>,
    failed_at: Option<Instant>,
    /// Aggregates that failed in an outage. Others probe first, and once something is delivered these fail for
    /// themselves: a few that always fail cannot keep a destination out.
    blamed: HashSet<String>,
    suspects: Vec<(Instant, Suspect)>,
    out: Option<Outage>,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    why: String,
    /// When it was last reported.
    reported: Instant,
    tries: u32,
    probe_at: Instant,
    /// A probe is under way.
    probing: bool,
}

/// Something that should be told or counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::pump) enum News {
    /// A destination is down, since so long ago; reported again while it lasts.
    Out { sink: usize, destination: String, why: String, after: Duration },
    /// It works again.
    Works { sink: usize, destination: String, after: Duration },
    /// An event was delivered, so long after it was appended.
    Delivered { sink: usize, age: Duration },
}

/// What has changed about a lane.
pub(super) enum Change {
    /// It is down, why, and since how long ago.
    Out(String, Duration),
    /// It works, so long after it went out.
    Works(Duration),
}

/// What an outcome means.
pub(super) enum Verdict {
    /// The destination works. The event is delivered, or refused for good; suspects have failed for themselves.
    Works {
        item: Box<Item>,
        refused: Option<String>,
        suspects: Vec<Suspect>,
        change: Option<Change>,
    },
    /// Nobody knows yet.
    InDoubt,
    /// The destination is out: these go on waiting.
    Out { items: Vec<Item>, change: Option<Change> },
}

impl Lane {
    /// An aggregate has an event to send.
    pub(super) fn line_up(&mut self, aggregate: String) {
        // What failed probes last: another one may come through.
        if self.out.is_some() && !self.blamed.contains(&aggregate) {
            self.ready.push_front(aggregate);
        } else {
            self.ready.push_back(aggregate);
        }
    }

    /// So many rows more, or less, are queued for it.
    pub(super) fn count_rows(&mut self, more: usize, less: usize) {
        self.rows = (self.rows + more).saturating_sub(less);
    }

    /// Rows that are queued for it.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// How many events may go now.
    pub(super) fn lets_go(&self, now: Instant) -> usize {
        match &self.out {
            None => self.ready.len(),
            Some(out) => usize::from(!out.probing && now >= out.probe_at).min(self.ready.len()),
        }
    }

    /// Takes aggregates out of the line; each sends its first event.
    pub(super) fn take(&mut self, most: usize) -> Vec<String> {
        self.calls += 1;
        if let Some(out) = &mut self.out {
            out.probing = true;
        }
        let most = most.min(self.ready.len());
        self.ready.drain(..most).collect()
    }

    /// Calls under way.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    /// A call was not made: if it was a probe, another may go.
    pub(super) fn give_back(&mut self) {
        if let Some(out) = &mut self.out {
            out.probing = false;
        }
    }

    /// A call has ended.
    pub(super) fn call_ended(&mut self) {
        debug_assert!(self.calls > 0, "a call that ended was begun");
        self.calls = self.calls.saturating_sub(1);
    }

    /// Whether nothing is to be remembered of it.
    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty()
            && self.calls == 0
            && self.rows == 0
            && self.out.is_none()
            && self.failed.is_empty()
            && self.suspects.is_empty()
    }

    /// What failed long ago tells nothing of what fails now.
    pub(super) fn forget(&mut self, now: Instant) {
        if self.out.is_none() && self.failed_at.is_some_and(|at| now >= at + MEMORY) {
            self.failed_at = None;
            self.failed.clear();
            self.blamed.clear();
        }
    }

    /// What an outcome means.
    pub(super) fn judge(
        &mut self,
        item: Item,
        outcome: Outcome,
        rules: &RetryRules,
        now: Instant,
    ) -> Verdict {
        let (error, after, nobody) = match outcome {
            Outcome::Delivered => return self.works(item, None, now),
            Outcome::Refused { error } => return self.works(item, Some(error), now),
            Outcome::Retry { error, after } => (error, after, false),
            Outcome::Unknown { error } => (error, None, false),
            Outcome::Unavailable { error, after } => (error, after, true),
        };
        let after = after.map(|after| after.min(AFTER_MAX));
        if let Some(out) = &mut self.out {
            let mut change = None;
            // What was sent before it was known is no probe; it tells nothing new.
            if std::mem::take(&mut out.probing) {
                let delay = probe_delay(rules, out.tries);
                out.tries = out.tries.saturating_add(1);
                out.probe_at = now + after.map_or(delay, |after| after.max(delay));
                if now >= out.reported + REPEAT_AFTER {
                    out.reported = now;
                    change = Some(Change::Out(error.clone(), now.duration_since(out.since)));
                }
                out.why = error;
                self.blamed.insert(item.aggregate.clone());
            }
            return Verdict::Out { items: vec![item], change };
        }
        self.failed_at = Some(now);
        // What has failed while others failed, too, and fails once these do not, fails for itself.
        if nobody || !self.blamed.remove(&item.aggregate) {
            self.failed.insert(item.aggregate.clone());
        }
        let judged_alone = !Rule::OutageSpendsNoAttempt.on();
        if judged_alone || !(nobody || self.failed.len() >= OUTAGE) {
            self.suspects.push((now, (item, error, after)));
            return Verdict::InDoubt;
        }
        let delay = probe_delay(rules, 0);
        let probe_at = now + after.map_or(delay, |after| after.max(delay));
        self.out = Some(Outage {
            since: now,
            why: error.clone(),
            reported: now,
            tries: 1,
            probe_at,
            probing: false,
        });
        self.blamed.extend(self.failed.drain());
        let mut items: Vec<Item> = self.suspects.drain(..).map(|(_, (item, ..))| item).collect();
        items.push(item);
        Verdict::Out { items, change: Some(Change::Out(error, Duration::ZERO)) }
    }

    fn works(&mut self, item: Item, refused: Option<String>, now: Instant) -> Verdict {
        self.failed.clear();
        self.blamed.remove(&item.aggregate);
        let change = self.out.take().map(|out| Change::Works(now.duration_since(out.since)));
        let suspects = self.suspects.drain(..).map(|(_, suspect)| suspect).collect();
        Verdict::Works { item: Box::new(item), refused, suspects, change }
    }

    /// What was in doubt for too long: it failed alone.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Suspect> {
        let overdue = |(since, _): &mut (Instant, Suspect)| now >= *since + DOUBT;
        self.suspects.extract_if(.., overdue).map(|(_, suspect)| suspect).collect()
    }

    /// When there is something to do though nothing happens.
    pub(super) fn next_time(&self, is_free: bool) -> Option<Instant> {
        let doubt = self.suspects.first().map(|(since, _)| *since + DOUBT);
        let probe =
            self.out.as_ref().filter(|out| is_free && !out.probing && !self.ready.is_empty());
        doubt.into_iter().chain(probe.map(|out| out.probe_at)).min()
    }

    /// Takes all but some out of the line.
    pub(super) fn spill(&mut self, but: usize) -> Vec<String> {
        let from = but.min(self.ready.len());
        self.ready.drain(from..).collect()
    }

    /// Since when it is out, and why.
    pub(super) fn outage(&self) -> Option<(Instant, &str)> {
        self.out.as_ref().map(|out| (out.since, &*out.why))
    }
}

impl News {
    /// The number of the destination.
    pub(in crate::pump) fn sink(&self) -> usize {
        match self {
            Self::Out { sink, .. } | Self::Works { sink, .. } | Self::Delivered { sink, .. } => {
                *sink
            }
        }
    }
}

fn probe_delay(rules: &RetryRules, tries: u32) -> Duration {
    let first = PROBE_FIRST.min(rules.outage_delay_max);
    service_kit::backoff(first, rules.outage_delay_max, tries, service_kit::chance())
}
