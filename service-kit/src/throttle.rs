//! Limits how often the log repeats a trouble: once for each cause, every 30 s while it goes on, and once when it
//! is over.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

/// What goes on is reported again after this long. What comes back within it has not been over.
pub const REPEAT_AFTER: Duration = Duration::from_secs(30);
/// What was not met for so long, and nobody said that it is over, is new when it comes again.
const LAPSE: Duration = Duration::from_mins(5);
/// So many causes are distinguished; what comes beyond them counts as one.
const CAUSES_MAX: usize = 16;

/// What went wrong, as far as it matters for reporting it: errors that differ in numbers, addresses, times or
/// partitions have one cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cause(u64);

/// What librdkafka adds when it has kept silent about the same.
const REPEATED: [&str; 3] = ["identical", "error(s", "suppressed"];

impl Cause {
    /// The cause of an error of a kind. Of its text the words count that have no digit in them, and the code that
    /// a database gave it; which connection of librdkafka's met it does not.
    pub fn of(kind: &str, text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        kind.hash(&mut hasher);
        let words = text.split_whitespace();
        let words = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
        let mut before = "";
        for word in words.filter(|word| !word.is_empty()) {
            let code = before == "code";
            before = word;
            let passing = word.contains(|c: char| c.is_ascii_digit())
                || word.contains("Coordinator")
                || word.starts_with("thrd:")
                || REPEATED.contains(&word);
            if code || !passing {
                word.hash(&mut hasher);
            }
        }
        Self(hasher.finish())
    }
}

/// How often something was met, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occurrences {
    /// How often, this time included.
    pub times: u64,
    /// Seconds since it was met first.
    pub seconds: u64,
}

/// What is known of one cause.
#[derive(Debug)]
struct Entry {
    /// `None`: those beyond the first [`CAUSES_MAX`].
    cause: Option<Cause>,
    began: Instant,
    last: Instant,
    times: u64,
    /// When it was reported; `None` when that is due.
    reported: Option<Instant>,
}

/// What goes wrong in one place, which of it was reported, and when.
#[derive(Debug)]
pub struct Throttle {
    /// So long nothing may have been met before it is over; `None`: nobody says that it is.
    quiet: Option<Duration>,
    causes: Vec<Entry>,
    open: bool,
    began: Option<Instant>,
    last: Option<Instant>,
    reported: Option<Instant>,
    resolved: Option<Instant>,
    /// It was said to be over, and came back soon.
    flapping: bool,
}

impl Throttle {
    /// An outage with all its causes, which is over when somebody says so and nothing was met for so long. While
    /// it goes on one report stands for all of them.
    pub const fn outage(quiet: Duration) -> Self {
        Self::new(Some(quiet))
    }

    /// Things that have nothing to do with each other, and of which nobody says that they are over.
    pub const fn by_cause() -> Self {
        Self::new(None)
    }

    const fn new(quiet: Option<Duration>) -> Self {
        Self {
            quiet,
            causes: Vec::new(),
            open: false,
            began: None,
            last: None,
            reported: None,
            resolved: None,
            flapping: false,
        }
    }

    /// Whether something was met that is not over.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// A cause was met: what is to be reported of it, unless it was reported a moment ago.
    pub fn record(&mut self, cause: Cause, now: Instant) -> Option<Occurrences> {
        if !self.open {
            self.open = true;
            self.flapping = self.resolved.is_some_and(|at| now.duration_since(at) < REPEAT_AFTER);
            if self.flapping {
                self.causes.iter_mut().for_each(|entry| entry.reported = None);
            } else {
                self.causes.clear();
                self.began = Some(now);
            }
        }
        self.last = Some(now);
        let (together, reported) = (self.quiet.is_some(), self.reported);
        let entry = self.entry(cause, now);
        entry.last = now;
        entry.times += 1;
        let new = entry.reported.is_none();
        let reported = if together { reported } else { entry.reported };
        if !new && reported.is_some_and(|at| now.duration_since(at) < REPEAT_AFTER) {
            return None;
        }
        entry.reported = Some(now);
        let alone =
            Occurrences { times: entry.times, seconds: now.duration_since(entry.began).as_secs() };
        self.reported = Some(now);
        Some(if together && !new { self.total(now) } else { alone })
    }

    /// Something is not over, and nothing was reported of it for a while: what is to be reported of all of it.
    pub fn repeat(&mut self, now: Instant) -> Option<Occurrences> {
        let reported = self.reported.filter(|_| self.open)?;
        if now.duration_since(reported) < REPEAT_AFTER {
            return None;
        }
        self.reported = Some(now);
        Some(self.total(now))
    }

    /// It works again: what is to be reported of it, once. What has come back soon is over only when nothing was met
    /// for a while.
    pub fn resolve(&mut self, now: Instant) -> Option<Occurrences> {
        let (last, quiet) = (self.last.filter(|_| self.open)?, self.quiet?);
        let quiet = if self.flapping { quiet.max(REPEAT_AFTER) } else { quiet };
        if now.duration_since(last) < quiet {
            return None;
        }
        // What was waited out ended when it was last met: a fault after the wait is another one.
        let ended = if self.flapping { last } else { now };
        (self.open, self.resolved) = (false, Some(ended));
        Some(self.total(ended))
    }

    fn total(&self, until: Instant) -> Occurrences {
        let seconds = self.began.map_or(0, |began| until.duration_since(began).as_secs());
        Occurrences { times: self.causes.iter().map(|entry| entry.times).sum(), seconds }
    }

    /// The entry of a cause. One that was not met for long makes room.
    fn entry(&mut self, cause: Cause, now: Instant) -> &mut Entry {
        let of = |entry: &Entry| entry.cause == Some(cause);
        let lapsed = |entry: &Entry| now.duration_since(entry.last) >= LAPSE;
        let place = self.causes.iter().position(of);
        let full = place.is_none() && self.causes.len() >= CAUSES_MAX;
        let place = place.or_else(|| self.causes.iter().position(lapsed).filter(|_| full));
        let named = Some(cause).filter(|_| !full || place.is_some());
        let place = place.or_else(|| self.causes.iter().position(|entry| entry.cause == named));
        let new = Entry { cause: named, began: now, last: now, times: 0, reported: None };
        match place {
            Some(place) => {
                let entry = &mut self.causes[place];
                if entry.cause != named || lapsed(entry) {
                    *entry = new;
                }
                entry
            }
            None => {
                self.causes.push(new);
                let end = self.causes.len() - 1;
                &mut self.causes[end]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: &str = "Connection refused (os error 111)";

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the answers are")]
    fn occurred(times: u64, seconds: u64) -> Option<Occurrences> {
        Some(Occurrences { times, seconds })
    }

    #[test]
    fn a_cause_is_reported_at_once_then_every_30_s_with_a_count_and_once_when_it_is_over() {
        let (mut throttle, began) = (Throttle::outage(Duration::ZERO), Instant::now());
        let refused = Cause::of("outage", REFUSED);
        let mut lines = Vec::new();
        for half in 0..140 {
            let now = began + Duration::from_millis(500) * half;
            lines.extend(throttle.record(refused, now));
        }
        let line = |times, seconds| Occurrences { times, seconds };
        assert_eq!(lines, [line(1, 0), line(61, 30), line(121, 60)]);
        assert!(throttle.is_open());
        assert_eq!(throttle.resolve(began + seconds(71)), occurred(140, 71));
        assert_eq!(throttle.resolve(began + seconds(72)), None, "once");
        assert!(!throttle.is_open());
        assert_eq!(
            throttle.record(refused, began + seconds(200)),
            occurred(1, 0),
            "another outage"
        );
    }

    #[test]
    fn each_cause_is_reported_when_it_comes_first() {
        let (mut throttle, began) = (Throttle::outage(Duration::ZERO), Instant::now());
        assert_eq!(throttle.record(Cause::of("outage", REFUSED), began), occurred(1, 0));
        assert_eq!(
            throttle.record(Cause::of("outage", "No space left on device"), began),
            occurred(1, 0)
        );
        assert_eq!(
            throttle.record(Cause::of("commit", REFUSED), began),
            occurred(1, 0),
            "another kind"
        );
        assert_eq!(throttle.record(Cause::of("outage", REFUSED), began + seconds(1)), None);
        assert_eq!(
            throttle.record(Cause::of("commit", REFUSED), began + seconds(30)),
            occurred(5, 30),
            "for all"
        );
        assert_eq!(throttle.record(Cause::of("outage", REFUSED), began + seconds(31)), None);
        assert_eq!(throttle.resolve(began + seconds(39)), occurred(6, 39), "all of it");
    }

    #[test]
    fn numbers_addresses_times_and_partitions_make_no_other_cause() {
        let same = |one, other| Cause::of("", one) == Cause::of("", other);
        assert!(same(
            "127.0.0.1:39001/1: Connect to ipv4#127.0.0.1:39001 failed: Connection refused (after 0ms in \
             state CONNECT)",
            "127.0.0.1:40/12: Connect to ipv4#127.0.0.1:40 failed: Connection refused (after 17ms in \
             state CONNECT, 30 identical error(s) suppressed)",
        ));
        assert!(same(
            "FAIL [thrd:TxnCoordinator]: TxnCoordinator: b:1: Connection refused (after 0ms)",
            "FAIL [thrd:b:1/bootstrap]: b:1/bootstrap: Connection refused (after 2ms)",
        ));
        assert!(same("orders/3: no answer within 5s", "orders/11: no answer within 12.5s"));
        assert!(same("timed out (3 in-flight)", "timed out (12 in-flight)"));
        assert!(!same(
            "Connection refused (os error 111)",
            "Connection reset by peer (os error 104)"
        ));
    }

    #[test]
    fn what_goes_on_without_being_met_is_reported_every_30_s_too() {
        let (mut throttle, began) = (Throttle::outage(Duration::ZERO), Instant::now());
        let refused = Cause::of("outage", REFUSED);
        assert_eq!(throttle.repeat(began), None, "nothing goes on");
        throttle.record(refused, began);
        throttle.record(refused, began + seconds(1));
        assert_eq!(throttle.repeat(began + seconds(29)), None);
        assert_eq!(throttle.repeat(began + seconds(30)), occurred(2, 30));
        assert_eq!(throttle.repeat(began + seconds(31)), None);
        assert_eq!(throttle.record(refused, began + seconds(32)), None, "reported a moment ago");
        throttle.resolve(began + seconds(33));
        assert_eq!(throttle.repeat(began + seconds(90)), None, "over");
    }

    #[test]
    fn what_has_nothing_to_do_with_each_other_is_counted_apart() {
        let (mut throttle, began) = (Throttle::by_cause(), Instant::now());
        for second in 0..30 {
            throttle.record(Cause::of("line", "one"), began + seconds(second));
            throttle.record(Cause::of("line", "other"), began + seconds(second));
        }
        assert_eq!(
            throttle.record(Cause::of("line", "one"), began + seconds(30)),
            occurred(31, 30)
        );
        assert_eq!(
            throttle.record(Cause::of("line", "other"), began + seconds(30)),
            occurred(31, 30)
        );
        assert_eq!(throttle.resolve(began + seconds(31)), None, "nobody knows");
    }

    /// A server that takes some connections and refuses others.
    #[test]
    fn what_comes_and_goes_is_over_when_it_has_not_come_for_30_s() {
        let (mut throttle, began) = (Throttle::outage(Duration::ZERO), Instant::now());
        let full = Cause::of("outage", "too many clients");
        assert_eq!(throttle.record(full, began), occurred(1, 0));
        assert_eq!(throttle.resolve(began + seconds(1)), occurred(1, 1));
        assert_eq!(throttle.record(full, began + seconds(2)), occurred(2, 2), "it was not over");
        let mut lines = 0;
        for second in 3..60 {
            lines += usize::from(throttle.resolve(began + seconds(second)).is_some());
            lines += usize::from(throttle.record(full, began + seconds(second)).is_some());
        }
        assert_eq!(lines, 1, "reported once in 30 s");
        assert_eq!(throttle.resolve(began + seconds(80)), None, "it may come again");
        assert_eq!(throttle.resolve(began + seconds(89)), occurred(59, 59));
    }

    /// A stale error after an outage joins it; the next outage, within 30 s of the late end, is another one.
    #[test]
    fn two_outages_with_a_good_while_between_them_are_not_added_up() {
        let (mut throttle, began) = (Throttle::outage(Duration::ZERO), Instant::now());
        let down = Cause::of("outage", "all brokers are down");
        throttle.record(down, began);
        assert_eq!(throttle.resolve(began + seconds(50)), occurred(1, 50));
        throttle.record(down, began + seconds(50));
        assert_eq!(throttle.resolve(began + seconds(80)), occurred(2, 50));
        assert_eq!(throttle.record(down, began + seconds(105)), occurred(1, 0));
        assert_eq!(throttle.resolve(began + seconds(155)), occurred(1, 50));
    }

    #[test]
    fn where_one_answer_proves_little_it_is_over_after_a_while_without_trouble() {
        let (mut throttle, began) = (Throttle::outage(seconds(5)), Instant::now());
        throttle.record(Cause::of("trouble", REFUSED), began);
        assert_eq!(throttle.resolve(began + seconds(4)), None);
        assert_eq!(throttle.resolve(began + seconds(6)), occurred(1, 6));
    }

    #[test]
    fn what_nobody_says_is_over_is_new_after_a_while() {
        let (mut throttle, began) = (Throttle::by_cause(), Instant::now());
        let missing = Cause::of("trouble", "unknown topic");
        throttle.record(missing, began);
        assert_eq!(throttle.record(missing, began + seconds(40)), occurred(2, 40));
        assert_eq!(throttle.record(missing, began + seconds(40) + LAPSE), occurred(1, 0));
    }

    #[test]
    fn causes_beyond_the_first_ones_are_reported_as_one() {
        let (mut throttle, began) = (Throttle::by_cause(), Instant::now());
        let texts: Vec<String> = ('a'..='z').chain('A'..='Z').map(String::from).collect();
        let mut lines = 0;
        for second in 0..10 {
            for text in &texts {
                let cause = Cause::of("outage", text);
                lines += usize::from(throttle.record(cause, began + seconds(second)).is_some());
            }
        }
        assert_eq!(lines, CAUSES_MAX + 1);
        assert_eq!(throttle.causes.len(), CAUSES_MAX + 1);
        let later = began + seconds(10) + LAPSE;
        assert_eq!(
            throttle.record(Cause::of("outage", "another"), later),
            occurred(1, 0),
            "there is room again"
        );
    }
}
