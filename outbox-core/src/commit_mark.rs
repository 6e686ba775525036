//! Whose an offset of a consumer group is.

use std::fmt;

use uuid::Uuid;

/// Whose an offset of the group is: this goes into the metadata of every commit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommitMark {
    /// The inbox: the consumer's row in one database.
    pub inbox_id: Uuid,
    /// The consumer's name.
    pub consumer: String,
}

impl CommitMark {
    /// Behind it: the inbox id, a space, the consumer's name.
    const BEGINNING: &str = "inbox/1 ";

    /// Reads the metadata of a commit; `None` when it is somebody else's.
    pub fn read(metadata: &str) -> Option<Self> {
        let (inbox_id, consumer) = metadata.strip_prefix(Self::BEGINNING)?.split_once(' ')?;
        Some(Self { inbox_id: inbox_id.parse().ok()?, consumer: consumer.to_owned() })
    }
}

impl fmt::Display for CommitMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {}", Self::BEGINNING, self.inbox_id, self.consumer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let (inbox_id, consumer) = (Uuid::from_bytes([7; 16]), "bills of \u{fc}ber".to_owned());
        let mark = CommitMark { inbox_id, consumer };
        let text = "inbox/1 07070707-0707-0707-0707-070707070707 bills of \u{fc}ber";
        assert_eq!(mark.to_string(), text);
        assert_eq!(CommitMark::read(text), Some(mark));
        for foreign in ["", "inbox/1", "inbox/1 x billing", "inbox/2 y", "my loop"] {
            assert_eq!(CommitMark::read(foreign), None, "{foreign:?}");
        }
    }
}
