//! A topic that was deleted and created again while it is read.
//!
//! librdkafka then goes on at the offset where it was, in the new topic (it says so itself, as a thing to be
//! mended, where it takes in the new id). Brokers and clients of Kafka 3.1 and later name topics by their ids when
//! they fetch, so nothing of the new topic arrives before the client has taken in that id, and it writes a line
//! for developers right before it does. That line is in the same queue, and so before any record of the new topic.
//! Brokers that fetch by name alone are seen by the watch of inbox-consumer, some seconds later.

use inbox_engine::internal::Rule;

use crate::poll_loop::PollLoop;

/// The kind of lines that librdkafka has to write.
pub(crate) const DEBUG: &str = "metadata";

/// The id of a topic that the client has not met before.
const NO_ID: &str = "AAAAAAAAAAAAAAAAAAAAAA";

impl PollLoop {
    /// Lets go of what is read of a topic that has another id now: the next take-over says so by name.
    pub(crate) fn notice_topic(&mut self, line: &str) {
        let Some(topic) = changed_topic(line).filter(|_| Rule::TopicIdWatched.on()) else { return };
        // What came before it is of the old one.
        self.flush();
        for number in self.states.ours() {
            if &*self.states.get(number).topic_partition.topic == topic {
                self.offset_gone(number, format!("topic {topic} has a different id than before"));
            }
        }
    }
}

/// The topic that a line says to have another id than before.
fn changed_topic(line: &str) -> Option<&str> {
    let (before, ids) = line.split_once(" changed id from ")?;
    let (_, topic) = before.rsplit_once("Topic ")?;
    let (from, _) = ids.split_once(" to ")?;
    (!from.starts_with(NO_ID)).then_some(topic)
}

#[cfg(test)]
mod tests {
    use super::changed_topic;

    #[test]
    fn the_line_about_another_id_names_its_topic() {
        let line = "[thrd:main]: Topic orders.v2 changed id from hMkNVcoxT6WsxpTEYEr3QQ to H3ozp1eBQ_1CFv4cKdC_8g";
        assert_eq!(changed_topic(line), Some("orders.v2"));
        let first = "[thrd:main]: Topic orders changed id from AAAAAAAAAAAAAAAAAAAAAA to H3ozp1eBQ_1CFv4cKdC_8g";
        assert_eq!(changed_topic(first), None, "the first one that it learns");
        assert_eq!(changed_topic("[thrd:main]: Topic orders [0] Leader 1 Epoch 0"), None);
    }
}
