//! What the brokers know of a topic, and what is said of one that is not there.

use outbox_core::TopicPartition;

/// What the brokers know of a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicState {
    /// Its id; all zero: the brokers do not tell it.
    pub id: [u8; 16],
    /// How many partitions it has, if the brokers tell.
    pub partitions: Option<usize>,
    /// The brokers say that the user may not read it.
    pub is_forbidden: bool,
}

impl TopicState {
    /// The brokers tell nothing.
    pub const UNKNOWN: Self = Self { id: [0; 16], partitions: None, is_forbidden: false };

    /// Whether it is another topic than one of this id. What is not known proves nothing.
    pub fn is_other(&self, id: [u8; 16]) -> bool {
        id != self.id && [id, self.id].iter().all(|known| *known != Self::UNKNOWN.id)
    }

    /// What is to be said of a partition that it does not have.
    pub fn lacks(&self, topic_partition: &TopicPartition) -> Option<String> {
        let count = self.partitions?;
        let there = usize::try_from(topic_partition.partition).is_ok_and(|number| number < count);
        (!there).then(|| {
            let TopicPartition { topic, partition } = topic_partition;
            format!(
                "topic {topic} has {count} partitions and no partition {partition}: it was \
                 deleted and re-created with fewer; create it with as many as before, or wait for \
                 the group to revoke the partition"
            )
        })
    }
}

/// What is to be said of a topic that is not there.
pub fn missing(topic: &str) -> String {
    format!(
        "topic {topic} does not exist: it was deleted, or never created; create it, or correct \
         `kafka.topics`"
    )
}
