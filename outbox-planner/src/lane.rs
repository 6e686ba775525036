//! What fails together: what stands in line for it, and whether it works.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::types::{Item, PlannerSettings, Time};

/// How long a failure is in doubt that nothing else explains.
const DOUBT: Duration = Duration::from_secs(1);
/// How long a failure with no delivery after it counts.
const MEMORY: Duration = Duration::from_mins(1);
/// The delay before the first probe.
const PROBE_FIRST: Duration = Duration::from_millis(200);
/// An outage is reported again after this time.
const REPEAT_AFTER: Duration = Duration::from_secs(30);
/// An event that was under way when this many outages began goes alone.
const SUSPECT: u8 = 2;

/// How an event failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FailureKind {
    /// It may be tried again.
    Failed,
    /// It may be tried again, and others would fail, too.
    Unavailable,
    /// No repetition can help.
    Refused,
}

/// A failure, and what was said.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) error: String,
    pub(crate) after: Option<Duration>,
}

/// An event whose failure is its own.
pub(crate) type OwnFailure<T> = (Item<T>, Failure);

/// What an outcome means.
#[derive(Clone, Debug)]
pub(crate) enum Verdict<T> {
    /// These failures are events' own.
    Own(Vec<OwnFailure<T>>),
    /// The lane is out: these events go on waiting.
    Out(Vec<Item<T>>),
}

#[derive(Clone, Debug)]
struct Outage {
    since: Time,
    why: String,
    reported: Time,
    tries: u32,
    probe_at: Time,
    probing: bool,
}

/// What fails together.
#[derive(Clone, Debug)]
pub(crate) struct Lane<T> {
    /// Aggregates whose next event goes here.
    ready: VecDeque<Arc<str>>,
    /// Rows in memory, and their bytes.
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    /// Calls under way.
    pub(crate) calls: usize,
    /// One call goes alone.
    alone: bool,
    /// It keeps few rows in memory: it filled it while others could go.
    pub(crate) is_limited: bool,
    /// Aggregates that failed since something was delivered, and when the last one did.
    failed: HashSet<Arc<str>>,
    failed_at: Option<Time>,
    /// Aggregates that failed in an outage. Others probe first, and once something is delivered these fail for themselves.
    blamed: HashSet<Arc<str>>,
    /// In how many outages' beginnings an event was under way.
    suspects: HashMap<i64, u8>,
    doubts: Vec<(Time, OwnFailure<T>)>,
    out: Option<Outage>,
    /// What should be reported: out, why and since how long; or that it works, and after how long.
    pub(crate) change: Option<(Option<String>, Duration)>,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            rows: 0,
            bytes: 0,
            calls: 0,
            alone: false,
            is_limited: false,
            failed: HashSet::new(),
            failed_at: None,
            blamed: HashSet::new(),
            suspects: HashMap::new(),
            doubts: Vec::new(),
            out: None,
            change: None,
        }
    }
}

impl<T> Lane<T> {
    /// An aggregate has an event to send.
    pub(crate) fn line_up(&mut self, aggregate: Arc<str>) {
        // What failed probes last: another one may come through.
        if self.out.is_some() && !self.blamed.contains(&aggregate) {
            self.ready.push_front(aggregate);
        } else {
            self.ready.push_back(aggregate);
        }
    }

    /// How many aggregates may go now.
    pub(crate) fn may_go(&self, now: Time) -> usize {
        match &self.out {
            _ if self.alone => 0,
            None => self.ready.len(),
            Some(out) => usize::from(!out.probing && now >= out.probe_at).min(self.ready.len()),
        }
    }

    /// The aggregate that goes next. One whose `first` event is suspect goes alone, when nothing else is under way.
    pub(crate) fn next(
        &mut self,
        first: impl Fn(&str) -> Option<i64>,
        may_be_alone: bool,
    ) -> Option<(Arc<str>, bool)> {
        let (out, suspects) = (self.out.is_some(), &self.suspects);
        let suspect = |aggregate: &Arc<str>| {
            !out && !suspects.is_empty()
                && first(aggregate)
                    .is_some_and(|seq| suspects.get(&seq).is_some_and(|count| *count >= SUSPECT))
        };
        if let Some(at) = self.ready.iter().position(|aggregate| !suspect(aggregate)) {
            return self.ready.remove(at).map(|aggregate| (aggregate, false));
        }
        if self.calls > 0 || !may_be_alone {
            return None;
        }
        Some((self.ready.pop_front()?, true))
    }

    pub(crate) fn begin_call(&mut self, alone: bool) {
        self.calls += 1;
        self.alone = alone;
        if let Some(out) = &mut self.out {
            out.probing = true;
        }
    }

    /// A call has ended; answers whether it went alone, and whether it was a probe.
    pub(crate) fn end_call(&mut self) -> (bool, bool) {
        debug_assert!(self.calls > 0, "a call that ended was begun");
        self.calls -= 1;
        let probe = self.out.as_mut().is_some_and(|out| std::mem::take(&mut out.probing));
        (std::mem::take(&mut self.alone), probe)
    }

    /// An event was delivered: what was in doubt has failed for itself.
    pub(crate) fn delivered(&mut self, item: &Item<T>, now: Time) -> Vec<OwnFailure<T>> {
        self.failed.clear();
        self.blamed.remove(&item.aggregate);
        self.suspects.remove(&item.key.seq);
        self.works(now);
        self.doubts.drain(..).map(|(_, failure)| failure).collect()
    }

    /// It is out no more. What failed while it was is remembered for a while from now on.
    fn works(&mut self, now: Time) {
        if let Some(out) = self.out.take() {
            self.change = Some((None, now.saturating_sub(out.since)));
            self.failed_at = Some(now);
        }
    }

    /// An event failed. `alone`: nothing else was under way; `probe`: the lane was out.
    pub(crate) fn failed(
        &mut self,
        item: Item<T>,
        failure: Failure,
        (alone, probe): (bool, bool),
        settings: &PlannerSettings,
        now: Time,
    ) -> Verdict<T> {
        if let Some(out) = &mut self.out {
            if probe {
                let delay = probe_delay(settings, out.tries, failure.after);
                out.tries = out.tries.saturating_add(1);
                out.probe_at = now + delay;
                if now >= out.reported + REPEAT_AFTER {
                    out.reported = now;
                    let lasts = now.saturating_sub(out.since);
                    self.change = Some((Some(failure.error.clone()), lasts));
                }
                out.why = failure.error;
            } else {
                suspect(&mut self.suspects, item.key.seq);
            }
            self.blamed.insert(Arc::clone(&item.aggregate));
            return Verdict::Out(vec![item]);
        }
        if alone {
            return Verdict::Own(vec![(item, failure)]);
        }
        self.failed_at = Some(now);
        // What failed in an outage and fails once others are delivered fails for itself.
        if !self.blamed.contains(&item.aggregate) {
            self.failed.insert(Arc::clone(&item.aggregate));
        }
        self.doubts.push((now, (item, failure)));
        if self.failed.len() < settings.outage_of {
            return Verdict::Own(Vec::new());
        }
        Verdict::Out(self.go_out(settings, now))
    }

    /// What is in doubt is not to blame: the lane is out.
    fn go_out(&mut self, settings: &PlannerSettings, now: Time) -> Vec<Item<T>> {
        let doubts = std::mem::take(&mut self.doubts);
        let asked = doubts.iter().filter_map(|(_, (_, failure))| failure.after).max();
        let why = doubts.last().map_or_else(String::new, |(_, (_, failure))| failure.error.clone());
        self.change = Some((Some(why.clone()), Duration::ZERO));
        let probe_at = now + probe_delay(settings, 0, asked);
        self.out =
            Some(Outage { since: now, why, reported: now, tries: 1, probe_at, probing: false });
        self.blamed.extend(self.failed.drain());
        let mut items = Vec::with_capacity(doubts.len());
        for (_, (item, _)) in doubts {
            self.blamed.insert(Arc::clone(&item.aggregate));
            suspect(&mut self.suspects, item.key.seq);
            items.push(item);
        }
        items
    }

    /// Time has passed: what was in doubt for too long failed for itself, unless nobody could be reached.
    pub(crate) fn tick(&mut self, settings: &PlannerSettings, now: Time) -> Option<Verdict<T>> {
        // Nothing is left that could tell that it works.
        if self.rows == 0 && self.out.as_ref().is_some_and(|out| now >= out.probe_at + MEMORY) {
            self.works(now);
        }
        if self.out.is_none() && self.failed_at.is_some_and(|at| now >= at + MEMORY) {
            self.failed_at = None;
            self.failed.clear();
            self.blamed.clear();
            self.suspects.clear();
        }
        let (since, (item, failure)) = self.doubts.first()?;
        if now < *since + DOUBT {
            return None;
        }
        if failure.kind == FailureKind::Unavailable && !self.blamed.contains(&item.aggregate) {
            return Some(Verdict::Out(self.go_out(settings, now)));
        }
        let overdue = |(since, _): &mut (Time, OwnFailure<T>)| now >= *since + DOUBT;
        let overdue = self.doubts.extract_if(.., overdue).map(|(_, failure)| failure);
        Some(Verdict::Own(overdue.collect()))
    }

    /// When there is something to do though nothing happens.
    pub(crate) fn next_time(&self, is_free: bool, may_claim: bool) -> Option<Time> {
        let doubt = self.doubts.first().map(|(since, _)| *since + DOUBT);
        let waits = may_claim || !self.ready.is_empty();
        let probe = self.out.as_ref().filter(|out| is_free && !out.probing && waits);
        doubt.into_iter().chain(probe.map(|out| out.probe_at)).min()
    }

    /// Whether a probe may go and nothing in memory can be one.
    pub(crate) fn lacks_probe(&self, now: Time) -> bool {
        let due = |out: &Outage| !out.probing && now >= out.probe_at;
        self.out.as_ref().is_some_and(due) && self.ready.is_empty() && self.rows == 0
    }

    /// Takes all aggregates out of the line.
    pub(crate) fn take_ready(&mut self) -> VecDeque<Arc<str>> {
        std::mem::take(&mut self.ready)
    }

    /// The events in doubt.
    pub(crate) fn doubted(&mut self) -> impl Iterator<Item = &mut Item<T>> {
        self.doubts.iter_mut().map(|(_, (item, _))| item)
    }

    #[cfg(test)]
    pub(crate) fn in_doubt(&self) -> impl Iterator<Item = &Item<T>> {
        self.doubts.iter().map(|(_, (item, _))| item)
    }

    #[cfg(test)]
    pub(crate) fn fingerprint(&self) -> String
    where
        T: std::fmt::Debug,
    {
        use std::collections::BTreeSet;
        let sets = (
            self.failed.iter().collect::<BTreeSet<_>>(),
            self.blamed.iter().collect::<BTreeSet<_>>(),
        );
        let suspects: BTreeSet<_> = self.suspects.iter().collect();
        let rest = (&self.ready, self.calls, self.alone, self.is_limited, self.failed_at);
        format!("{sets:?}{suspects:?}{rest:?}{:?}{:?}", self.doubts, self.out)
    }

    /// Takes an aggregate out of the line.
    pub(crate) fn leave(&mut self, aggregate: &str) {
        self.ready.retain(|other| **other != *aggregate);
    }

    /// Forgets the line, and what is in doubt, which is answered: these are read again.
    pub(crate) fn forget_rows(&mut self) -> Vec<Item<T>> {
        self.ready.clear();
        self.doubts.drain(..).map(|(_, (item, _))| item).collect()
    }

    /// Since when it is out, and why.
    pub(crate) fn outage(&self) -> Option<(Time, &str)> {
        self.out.as_ref().map(|out| (out.since, &*out.why))
    }

    /// Whether nothing is to be remembered of it.
    pub(crate) fn is_idle(&self) -> bool {
        self.rows == 0
            && self.calls == 0
            && self.out.is_none()
            && self.failed.is_empty()
            && self.blamed.is_empty()
            && self.suspects.is_empty()
            && !self.is_limited
            && self.change.is_none()
    }
}

fn suspect(suspects: &mut HashMap<i64, u8>, seq: i64) {
    let count = suspects.entry(seq).or_default();
    *count = count.saturating_add(1);
}

fn probe_delay(settings: &PlannerSettings, tries: u32, asked: Option<Duration>) -> Duration {
    let most = settings.outage_delay_max;
    let delay = (settings.backoff)(PROBE_FIRST.min(most), most, tries);
    asked.map_or(delay, |asked| asked.min(most).max(delay))
}
