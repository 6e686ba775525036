//! Holding a partition for a moment without losing what was fetched of it.
//!
//! A pause throws away what was fetched and not yet polled, and going on asks the broker for it again:
//! 15 to 19 ms to the first record while a backlog is drained, 100 ms at worst. Most holds last as long as a
//! transaction. So a partition that reads is dammed first: its own queue no longer flows into the
//! consumer's, and fills up to what `queued.min.messages` and `queued.max.messages.kbytes` let it. A
//! hold that lasts becomes a pause, which costs no memory and no looking whether there is room.
//!
//! librdkafka takes a queue that was led by hand once for the application's, for good: it does not lead
//! it anywhere at the next assignment, and ends its flow at each unassignment. So it is led by hand at
//! each confirmed seek, before which nothing of the partition matters. What is left in a partition's own
//! queue refers to the partition and keeps it from being freed (as librdkafka remarks at
//! `rd_kafka_toppar_purge_internal_fetch_queue_maybe`): a partition that is given back is not dammed.

use std::time::{Duration, Instant};

use rdkafka::types::RDKafkaErrorCode;

use crate::{poll_loop::PollLoop, slot::Flow};

/// A hold that lasts longer becomes a pause.
const HOLD_MAX: Duration = Duration::from_secs(1);
/// Partitions dammed at once: each may have a few MB. Further ones are paused.
const DAMS_MAX: usize = 16;

/// The dams of a client.
#[derive(Debug, Default)]
pub(crate) struct Dams {
    since: Vec<(usize, Instant)>,
}

impl PollLoop {
    /// Holds a partition back in its own queue. False when it has to be paused instead.
    pub(crate) fn dam(&mut self, number: usize) -> bool {
        if self.slots.get(number).flow == Flow::Dammed {
            return true;
        }
        if self.dams.since.len() >= DAMS_MAX || !self.lead(number, false) {
            return false;
        }
        self.slots.get_mut(number).flow = Flow::Dammed;
        self.dams.since.push((number, Instant::now()));
        true
    }

    /// What was held back flows again.
    pub(crate) fn undam(&mut self, number: usize) {
        if self.slots.get(number).flow == Flow::Dammed {
            self.slots.get_mut(number).flow = Flow::ByHand;
            self.dams.since.retain(|(dammed, _)| *dammed != number);
            self.lead(number, true);
        }
    }

    /// All of them flow.
    pub(crate) fn undam_all(&mut self) {
        while let Some((number, _)) = self.dams.since.first() {
            self.undam(*number);
        }
    }

    /// librdkafka may have ended the flow of a queue, or not begun it.
    pub(crate) fn lead_again(&mut self, number: usize) {
        if self.slots.get(number).flow == Flow::ByHand {
            self.lead(number, true);
        }
    }

    /// Pauses what has been held for long.
    pub(crate) fn pause_dammed(&mut self, now: Instant) {
        // They are in the order in which they began.
        while let Some((number, since)) = self.dams.since.first()
            && now.saturating_duration_since(*since) > HOLD_MAX
        {
            self.pause_slot(*number);
        }
    }

    /// Leads a partition's queue into the consumer's, or nowhere. False when librdkafka has no such
    /// partition.
    fn lead(&mut self, number: usize, flows: bool) -> bool {
        let place = &self.slots.get(number).place;
        let led = self.queue.lead(&place.topic, place.partition, flows);
        if !led && flows {
            let why = "a partition's queue is gone while it is assigned";
            self.tell_trouble(RDKafkaErrorCode::UnknownPartition, why);
        }
        led
    }
}
