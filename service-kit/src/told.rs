//! What goes wrong again and again: told once for each cause, now and then while it goes on, and once when it
//! is over.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

/// What goes on is told again after this long. What comes back within it has not been over.
pub const AGAIN_AFTER: Duration = Duration::from_secs(30);
/// What was not met for so long, and nobody said that it is over, is new when it comes again.
const LAPSE: Duration = Duration::from_mins(5);
/// So many causes are told apart; what comes beyond them counts as one.
const CAUSES_MAX: usize = 16;

/// What went wrong, as far as it matters for telling it: errors that differ in numbers, addresses, times or
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
pub struct Met {
    /// How often, this time included.
    pub times: u64,
    /// Seconds since it was met first.
    pub seconds: u64,
}

/// What is known of one cause.
#[derive(Debug)]
struct Known {
    /// `None`: those beyond the first [`CAUSES_MAX`].
    cause: Option<Cause>,
    began: Instant,
    last: Instant,
    times: u64,
    /// When it was told; `None` when that is due.
    told: Option<Instant>,
}

/// What goes wrong in one place, which of it was told, and when.
#[derive(Debug)]
pub struct Told {
    /// So long nothing may have been met before it is over; `None`: nobody says that it is.
    calm: Option<Duration>,
    causes: Vec<Known>,
    open: bool,
    began: Option<Instant>,
    last: Option<Instant>,
    said: Option<Instant>,
    over: Option<Instant>,
    /// It was said to be over, and came back soon.
    wavers: bool,
}

impl Told {
    /// An outage with all its causes, which is over when somebody says so and nothing was met for so long. While
    /// it goes on one of them is told for all.
    pub const fn outage(calm: Duration) -> Self {
        Self::new(Some(calm))
    }

    /// Things that have nothing to do with each other, and of which nobody says that they are over.
    pub const fn apart() -> Self {
        Self::new(None)
    }

    const fn new(calm: Option<Duration>) -> Self {
        Self {
            calm,
            causes: Vec::new(),
            open: false,
            began: None,
            last: None,
            said: None,
            over: None,
            wavers: false,
        }
    }

    /// Whether something was met that is not over.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// A cause was met: what is to be told of it, unless it was told a moment ago.
    pub fn met(&mut self, cause: Cause, now: Instant) -> Option<Met> {
        if !self.open {
            self.open = true;
            self.wavers = self.over.is_some_and(|over| now.duration_since(over) < AGAIN_AFTER);
            if self.wavers {
                self.causes.iter_mut().for_each(|known| known.told = None);
            } else {
                self.causes.clear();
                self.began = Some(now);
            }
        }
        self.last = Some(now);
        let (together, told) = (self.calm.is_some(), self.said);
        let known = self.known(cause, now);
        known.last = now;
        known.times += 1;
        let new = known.told.is_none();
        let told = if together { told } else { known.told };
        if !new && told.is_some_and(|told| now.duration_since(told) < AGAIN_AFTER) {
            return None;
        }
        known.told = Some(now);
        let met = Met { times: known.times, seconds: now.duration_since(known.began).as_secs() };
        self.said = Some(now);
        Some(if together && !new { self.all(now) } else { met })
    }

    /// Something is not over, and nothing was told of it for a while: what is to be told of all of it.
    pub fn goes_on(&mut self, now: Instant) -> Option<Met> {
        let told = self.said.filter(|_| self.open)?;
        if now.duration_since(told) < AGAIN_AFTER {
            return None;
        }
        self.said = Some(now);
        Some(self.all(now))
    }

    /// It works again: what is to be told of it, once. What has come back soon is over only when nothing was met
    /// for a while.
    pub fn over(&mut self, now: Instant) -> Option<Met> {
        let (last, calm) = (self.last.filter(|_| self.open)?, self.calm?);
        let calm = if self.wavers { calm.max(AGAIN_AFTER) } else { calm };
        if now.duration_since(last) < calm {
            return None;
        }
        (self.open, self.over) = (false, Some(now));
        Some(self.all(if self.wavers { last } else { now }))
    }

    fn all(&self, until: Instant) -> Met {
        let seconds = self.began.map_or(0, |began| until.duration_since(began).as_secs());
        Met { times: self.causes.iter().map(|known| known.times).sum(), seconds }
    }

    /// What is known of a cause. One that was not met for long makes room.
    fn known(&mut self, cause: Cause, now: Instant) -> &mut Known {
        let of = |known: &Known| known.cause == Some(cause);
        let lapsed = |known: &Known| now.duration_since(known.last) >= LAPSE;
        let place = self.causes.iter().position(of);
        let full = place.is_none() && self.causes.len() >= CAUSES_MAX;
        let place = place.or_else(|| self.causes.iter().position(lapsed).filter(|_| full));
        let named = Some(cause).filter(|_| !full || place.is_some());
        let place = place.or_else(|| self.causes.iter().position(|known| known.cause == named));
        let new = Known { cause: named, began: now, last: now, times: 0, told: None };
        match place {
            Some(place) => {
                let known = &mut self.causes[place];
                if known.cause != named || lapsed(known) {
                    *known = new;
                }
                known
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
    fn met(times: u64, seconds: u64) -> Option<Met> {
        Some(Met { times, seconds })
    }

    #[test]
    fn a_cause_is_told_at_once_then_every_30_s_with_a_count_and_once_when_it_is_over() {
        let (mut told, began) = (Told::outage(Duration::ZERO), Instant::now());
        let refused = Cause::of("outage", REFUSED);
        let mut lines = Vec::new();
        for half in 0..140 {
            let now = began + Duration::from_millis(500) * half;
            lines.extend(told.met(refused, now));
        }
        let line = |times, seconds| Met { times, seconds };
        assert_eq!(lines, [line(1, 0), line(61, 30), line(121, 60)]);
        assert!(told.is_open());
        assert_eq!(told.over(began + seconds(71)), met(140, 71));
        assert_eq!(told.over(began + seconds(72)), None, "once");
        assert!(!told.is_open());
        assert_eq!(told.met(refused, began + seconds(200)), met(1, 0), "another outage");
    }

    #[test]
    fn each_cause_is_told_when_it_comes_first() {
        let (mut told, began) = (Told::outage(Duration::ZERO), Instant::now());
        assert_eq!(told.met(Cause::of("outage", REFUSED), began), met(1, 0));
        assert_eq!(told.met(Cause::of("outage", "No space left on device"), began), met(1, 0));
        assert_eq!(told.met(Cause::of("commit", REFUSED), began), met(1, 0), "another kind");
        assert_eq!(told.met(Cause::of("outage", REFUSED), began + seconds(1)), None);
        assert_eq!(
            told.met(Cause::of("commit", REFUSED), began + seconds(30)),
            met(5, 30),
            "for all"
        );
        assert_eq!(told.met(Cause::of("outage", REFUSED), began + seconds(31)), None);
        assert_eq!(told.over(began + seconds(39)), met(6, 39), "all of it");
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
    fn what_goes_on_unmet_is_told_every_30_s_too() {
        let (mut told, began) = (Told::outage(Duration::ZERO), Instant::now());
        let refused = Cause::of("outage", REFUSED);
        assert_eq!(told.goes_on(began), None, "nothing goes on");
        told.met(refused, began);
        told.met(refused, began + seconds(1));
        assert_eq!(told.goes_on(began + seconds(29)), None);
        assert_eq!(told.goes_on(began + seconds(30)), met(2, 30));
        assert_eq!(told.goes_on(began + seconds(31)), None);
        assert_eq!(told.met(refused, began + seconds(32)), None, "told a moment ago");
        told.over(began + seconds(33));
        assert_eq!(told.goes_on(began + seconds(90)), None, "over");
    }

    #[test]
    fn what_has_nothing_to_do_with_each_other_is_counted_apart() {
        let (mut told, began) = (Told::apart(), Instant::now());
        for second in 0..30 {
            told.met(Cause::of("line", "one"), began + seconds(second));
            told.met(Cause::of("line", "other"), began + seconds(second));
        }
        assert_eq!(told.met(Cause::of("line", "one"), began + seconds(30)), met(31, 30));
        assert_eq!(told.met(Cause::of("line", "other"), began + seconds(30)), met(31, 30));
        assert_eq!(told.over(began + seconds(31)), None, "nobody knows");
    }

    /// A server that takes some connections and refuses others.
    #[test]
    fn what_comes_and_goes_is_over_when_it_has_not_come_for_30_s() {
        let (mut told, began) = (Told::outage(Duration::ZERO), Instant::now());
        let full = Cause::of("outage", "too many clients");
        assert_eq!(told.met(full, began), met(1, 0));
        assert_eq!(told.over(began + seconds(1)), met(1, 1));
        assert_eq!(told.met(full, began + seconds(2)), met(2, 2), "it was not over");
        let mut lines = 0;
        for second in 3..60 {
            lines += usize::from(told.over(began + seconds(second)).is_some());
            lines += usize::from(told.met(full, began + seconds(second)).is_some());
        }
        assert_eq!(lines, 1, "told once in 30 s");
        assert_eq!(told.over(began + seconds(80)), None, "it may come again");
        assert_eq!(told.over(began + seconds(89)), met(59, 59));
    }

    #[test]
    fn where_one_answer_proves_little_it_is_over_after_a_while_without_trouble() {
        let (mut told, began) = (Told::outage(seconds(5)), Instant::now());
        told.met(Cause::of("trouble", REFUSED), began);
        assert_eq!(told.over(began + seconds(4)), None);
        assert_eq!(told.over(began + seconds(6)), met(1, 6));
    }

    #[test]
    fn what_nobody_says_is_over_is_new_after_a_while() {
        let (mut told, began) = (Told::apart(), Instant::now());
        let missing = Cause::of("trouble", "unknown topic");
        told.met(missing, began);
        assert_eq!(told.met(missing, began + seconds(40)), met(2, 40));
        assert_eq!(told.met(missing, began + seconds(40) + LAPSE), met(1, 0));
    }

    #[test]
    fn causes_beyond_the_first_ones_are_told_as_one() {
        let (mut told, began) = (Told::apart(), Instant::now());
        let texts: Vec<String> = ('a'..='z').chain('A'..='Z').map(String::from).collect();
        let mut lines = 0;
        for second in 0..10 {
            for text in &texts {
                let cause = Cause::of("outage", text);
                lines += usize::from(told.met(cause, began + seconds(second)).is_some());
            }
        }
        assert_eq!(lines, CAUSES_MAX + 1);
        assert_eq!(told.causes.len(), CAUSES_MAX + 1);
        let later = began + seconds(10) + LAPSE;
        assert_eq!(
            told.met(Cause::of("outage", "another"), later),
            met(1, 0),
            "there is room again"
        );
    }
}
