//! A partition of a topic, by its name and number.

use std::sync::Arc;

/// A partition of a topic.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TopicPartition {
    /// The topic's name; clones share it.
    pub topic: Arc<str>,
    /// The partition, from 0.
    pub partition: i32,
}
