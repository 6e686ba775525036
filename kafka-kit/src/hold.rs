//! Holding a partition for a moment without losing what was fetched of it.
//!
//! A pause throws away what was fetched and not yet polled, and going on asks the broker for it again:
//! 15 to 19 ms to the first record while a backlog is drained, 100 ms at worst. Most holds last as long as a
//! transaction. So a partition that reads is held first: its own queue is no longer forwarded to the
//! consumer's, and fills up to what `queued.min.messages` and `queued.max.messages.kbytes` let it. A
//! hold that lasts becomes a pause, which costs no memory and no looking whether there is room.
//!
//! librdkafka takes a queue that was forwarded by hand once for the application's, for good: it does not
//! forward it at the next assignment, and ends the forwarding at each unassignment. So it is forwarded by hand at
//! each confirmed seek, before which nothing of the partition matters. What is left in a partition's own
//! queue refers to the partition and keeps it from being freed (as librdkafka remarks at
//! `rd_kafka_toppar_purge_internal_fetch_queue_maybe`): a partition that is given back is not held.

use std::time::{Duration, Instant};

use rdkafka::types::RDKafkaErrorCode;

use crate::{partition_state::Flow, poll_loop::PollLoop};

/// A hold that lasts longer becomes a pause.
const HOLD_MAX: Duration = Duration::from_secs(1);
/// Partitions held at once: each may have a few MB. Further ones are paused.
const HOLDS_MAX: usize = 16;

/// The holds of a client.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    since: Vec<(usize, Instant)>,
}

impl PollLoop {
    /// Holds a partition back in its own queue. False when it has to be paused instead.
    pub(crate) fn hold(&mut self, number: usize) -> bool {
        if self.states.get(number).flow == Flow::Held {
            return true;
        }
        if self.holds.since.len() >= HOLDS_MAX || !self.forward_queue(number, false) {
            return false;
        }
        self.states.get_mut(number).flow = Flow::Held;
        self.holds.since.push((number, Instant::now()));
        true
    }

    /// Ends a hold: what was held back flows again.
    pub(crate) fn resume(&mut self, number: usize) {
        if self.states.get(number).flow == Flow::Held {
            self.states.get_mut(number).flow = Flow::ByHand;
            self.holds.since.retain(|(held, _)| *held != number);
            self.forward_queue(number, true);
        }
    }

    /// All of them flow.
    pub(crate) fn resume_all(&mut self) {
        while let Some((number, _)) = self.holds.since.first() {
            self.resume(*number);
        }
    }

    /// Forwards a queue anew: librdkafka may have ended that, or not begun it.
    pub(crate) fn restore_forwarding(&mut self, number: usize) {
        if self.states.get(number).flow == Flow::ByHand {
            self.forward_queue(number, true);
        }
    }

    /// Pauses what has been held for long.
    pub(crate) fn pause_long_holds(&mut self, now: Instant) {
        // They are in the order in which they began.
        while let Some((number, since)) = self.holds.since.first()
            && now.saturating_duration_since(*since) > HOLD_MAX
        {
            self.pause_partition(*number);
        }
    }

    /// Forwards a partition's queue to the consumer's, or nowhere. False when librdkafka has no such
    /// partition.
    fn forward_queue(&mut self, number: usize, flows: bool) -> bool {
        let topic_partition = &self.states.get(number).topic_partition;
        let forwarded =
            self.queue.forward_partition(&topic_partition.topic, topic_partition.partition, flows);
        if !forwarded && flows {
            let why = "a partition's queue is gone while it is assigned";
            self.tell_trouble(RDKafkaErrorCode::UnknownPartition, why);
        }
        forwarded
    }
}
