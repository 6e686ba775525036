//! A batch that the client cannot read, however often: damaged, or larger than it takes once it is decompressed.
//!
//! Nobody passes over it: what it holds would be lost without a word. It is read again and again, since its
//! replica may be whole, and has a name when that was in vain for a while: a person decides.

use std::time::{Duration, Instant};

use inbox_engine::internal::NextOffset;
use rdkafka::types::RDKafkaErrorCode;

use crate::health::Unread;

/// So often it is read in vain before it has a name: bytes that the network spoilt are whole the next time.
const TIMES_MAX: u32 = 5;
/// Or for so long, when each time takes long.
const TIME_MAX: Duration = Duration::from_secs(15);
/// Records that could not be read are asked for again after this long.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// And after this long once it has a name: each time costs what decompressing costs.
const NAMED_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// What was read in vain.
#[derive(Debug)]
pub(crate) struct FailedRead {
    /// Where it was read from.
    at: NextOffset,
    since: Instant,
    times: u32,
    why: String,
}

impl FailedRead {
    fn is_named(&self, now: Instant) -> bool {
        let long = now.saturating_duration_since(self.since) >= TIME_MAX;
        self.times >= TIMES_MAX || (self.times > 1 && long)
    }
}

/// Whether an error is about what a batch holds, and not about who is asked for it.
fn is_about_a_batch(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::BadCompression
            | RDKafkaErrorCode::BadMessage
            | RDKafkaErrorCode::CriticalSystemResource
            | RDKafkaErrorCode::InvalidMessage
            | RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::NotImplemented
    )
}

/// Notes what could not be read at an offset; returns when it is to be read again.
pub(crate) fn note(
    failed_read: &mut Option<FailedRead>,
    at: NextOffset,
    (code, why): (RDKafkaErrorCode, &str),
    now: Instant,
) -> Instant {
    if !is_about_a_batch(code) {
        return now + AGAIN_AFTER;
    }
    let before = failed_read.take().filter(|before| before.at == at);
    let (since, times) = before.map_or((now, 0), |before| (before.since, before.times));
    let next = FailedRead { at, since, times: times + 1, why: why.to_owned() };
    let again = if next.is_named(now) { NAMED_AGAIN_AFTER } else { AGAIN_AFTER };
    *failed_read = Some(next);
    now + again
}

impl FailedRead {
    /// What is to be said of a batch that was read in vain for long enough, until something behind it is read.
    pub(crate) fn unread(&self, next: NextOffset, now: Instant) -> Option<Unread> {
        if self.at != next || !self.is_named(now) {
            return None;
        }
        let sentence = format!(
            "the batch with offset {} cannot be read, after {} attempts: {}; it is damaged, or \
             larger than `receive.message.max.bytes` once it is decompressed",
            self.at.0, self.times, self.why
        );
        Some(Unread { at: self.at, sentence })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition_state::PartitionStates;

    #[test]
    fn a_batch_that_is_read_in_vain_has_a_name_after_some_times_or_some_seconds() {
        let mut states = PartitionStates::default();
        let number = states.number("orders", 0);
        let state = states.get_mut(number);
        let (begun, bad) = (Instant::now(), RDKafkaErrorCode::BadCompression);
        let at = |seconds| begun + Duration::from_secs(seconds);
        for second in 0..4 {
            assert_eq!(state.note_unread(bad, "bad", at(second)), at(second + 1));
            assert_eq!(state.unread(at(second)), None, "after {second} s");
        }
        assert_eq!(state.note_unread(bad, "bad", at(4)), at(14));
        let text = state.unread(at(4)).unwrap().sentence;
        assert!(text.contains("offset 0 cannot be read, after 5 attempts: bad"), "{text}");
        // Something behind it was read, or the partition begins elsewhere.
        state.next = NextOffset(7);
        assert_eq!(state.unread(at(5)), None);
        state.note_unread(bad, "bad", at(20));
        assert_eq!(state.unread(at(40)), None, "once proves nothing");
        state.note_unread(bad, "bad", at(40));
        assert!(state.unread(at(40)).is_some(), "each time takes long");
    }

    #[test]
    fn a_broker_that_refuses_is_no_unreadable_batch() {
        let mut states = PartitionStates::default();
        let number = states.number("orders", 0);
        let state = states.get_mut(number);
        let now = Instant::now();
        for _ in 0..100 {
            state.note_unread(RDKafkaErrorCode::NotLeaderForPartition, "not here", now);
        }
        assert_eq!(state.unread(now), None);
    }
}
