//! How a relay ends.

use std::fmt;

/// Why a relay ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Ended {
    /// As asked: the batch that was under way is marked, and the turn given up.
    Shutdown,
    /// As asked, but a batch took too long. Nothing is lost: whoever comes next reads its rows again.
    ShutdownCutShort,
    /// Kafka refuses for good: a person has to act.
    KafkaRefused(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shutdown => f.write_str("the relay has shut down"),
            Self::ShutdownCutShort => f.write_str(
                "the relay has shut down without waiting for its last batch; nothing is lost by that",
            ),
            Self::KafkaRefused(why) => write!(f, "Kafka refuses the relay: {why}"),
        }
    }
}
