//! What the receiver answers: mostly that it has the event, now and then any other answer that is met in the field.

use std::time::Duration;

use serde::Serialize;

use crate::relay_chaos::Dice;

/// Of so many calls, so many get another answer than the plain one.
const OF: u64 = 1_000;
/// A mood is this rare, and so many calls long: all get one answer.
const MOOD_OF: u64 = 1_500;
const MOOD_CALLS: u64 = 40;
/// The longest a relay waits for an answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// An answer to a call that came whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// 200 at once.
    Plain,
    /// 204 at once.
    NoContent,
    /// It has the event, and says so later.
    Slow,
    /// It has the event, and says so when nobody waits any more.
    TooLate,
    /// It has the event, and says so with a body that nobody wants to read.
    TooLong,
    /// It has the event, and closes the connection without a word.
    CutBeforeHead,
    /// It has the event, and closes the connection within the body of its answer.
    CutInBody,
    /// It has the event, and answers 500.
    TakenAndFailed,
    /// It closes the connection without having taken the event.
    Closed,
    /// 500.
    Failed,
    /// 500 with a body that nobody wants to read.
    FailedAtLength,
    /// 503 with `Retry-After`.
    Busy,
    /// 429 with `Retry-After`.
    TooMany,
    /// 408.
    TimedOut,
    /// 425.
    TooEarly,
    /// 403: said of who calls, or of the event.
    Forbidden,
    /// 401: an outage, for the relay.
    Unauthorized,
    /// 422: refused for good, until a person retries the row; unless other aggregates meet the same with no delivery
    /// between.
    Refused,
    /// 410 of an address that this event has: the same.
    Gone,
    /// 302: the same, since no relay follows it.
    Moved,
}

/// All but the plain one, and how often each comes.
const WEIGHTS: [(Answer, u64); 19] = [
    (Answer::NoContent, 50),
    (Answer::Slow, 10),
    (Answer::TooLate, 1),
    (Answer::TooLong, 5),
    (Answer::CutBeforeHead, 8),
    (Answer::CutInBody, 8),
    (Answer::TakenAndFailed, 8),
    (Answer::Closed, 8),
    (Answer::Failed, 8),
    (Answer::FailedAtLength, 2),
    (Answer::Busy, 5),
    (Answer::TooMany, 5),
    (Answer::TimedOut, 5),
    (Answer::TooEarly, 4),
    (Answer::Forbidden, 2),
    (Answer::Unauthorized, 1),
    (Answer::Refused, 1),
    (Answer::Gone, 1),
    (Answer::Moved, 1),
];

/// What a mood may be.
const MOODS: [Answer; 5] =
    [Answer::Failed, Answer::Busy, Answer::Closed, Answer::CutBeforeHead, Answer::Unauthorized];

impl Answer {
    /// Whether the receiver has the event.
    pub(super) fn accepts(self) -> bool {
        use Answer::{
            CutBeforeHead, CutInBody, NoContent, Plain, Slow, TakenAndFailed, TooLate, TooLong,
        };
        matches!(
            self,
            Plain
                | NoContent
                | Slow
                | TooLate
                | TooLong
                | CutBeforeHead
                | CutInBody
                | TakenAndFailed
        )
    }

    /// Whether the relay knows at once that the receiver has the event.
    pub(super) fn is_plain(self) -> bool {
        matches!(self, Self::Plain | Self::NoContent)
    }

    /// When it comes.
    pub(super) fn delay(self) -> Duration {
        match self {
            Self::Slow => Duration::from_millis(400),
            Self::TooLate => TIMEOUT + Duration::from_millis(500),
            _ => Duration::ZERO,
        }
    }
}

/// Answers that look random and come again with their seed.
#[derive(Clone, Debug)]
pub(super) struct Script {
    dice: Dice,
    mood: Option<(Answer, u64)>,
}

impl Script {
    pub(super) fn new(dice: Dice) -> Self {
        Self { dice, mood: None }
    }

    pub(super) fn next(&mut self) -> Answer {
        if let Some((answer, left)) = self.mood {
            self.mood = (left > 1).then(|| (answer, left - 1));
            return answer;
        }
        if self.dice.below(MOOD_OF) == 0 {
            let at = usize::try_from(self.dice.below(MOODS.len() as u64)).unwrap_or(0);
            self.mood = Some((MOODS[at], 1 + self.dice.below(MOOD_CALLS)));
        }
        let mut at = self.dice.below(OF);
        for (answer, weight) in WEIGHTS {
            if at < weight {
                return answer;
            }
            at -= weight;
        }
        Answer::Plain
    }
}

#[cfg(test)]
mod tests {
    use service_kit::Random;

    use super::*;

    #[test]
    fn every_answer_comes_and_most_are_plain() {
        let weights: u64 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        assert_eq!(weights, 133, "so many of a thousand");
        let mut script = Script::new(Dice(Random::new(1)));
        let answers: Vec<Answer> = (0..20_000).map(|_| script.next()).collect();
        let count = |wanted: Answer| answers.iter().filter(|answer| **answer == wanted).count();
        assert!(WEIGHTS.iter().all(|(answer, _)| count(*answer) > 0));
        assert!(count(Answer::Plain) > 15_000, "{}", count(Answer::Plain));
    }
}
