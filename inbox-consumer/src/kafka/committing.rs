//! Committing offsets: asked for in one round, answered as an event of a later one.

use inbox_engine::{LeaderEpoch, NextOffset, Rule};
use rdkafka::types::RDKafkaErrorCode;

use super::{
    client::{list_marked, named},
    command::Reply,
    ffi::Event,
    owner::Owner,
};
use crate::pipeline::port::{BrokerError, TopicPartition};

impl Owner {
    /// The broker would take offsets of partitions that are not ours, or that were lost and came back
    /// meanwhile, so they are refused here.
    pub(super) fn commit(
        &mut self,
        offsets: &[(TopicPartition, NextOffset, LeaderEpoch)],
        reply: Reply<()>,
    ) {
        let foreign = offsets.iter().find(|(place, ..)| {
            let settles = self.slots.of(place).is_some_and(|(_, slot)| slot.settles());
            !settles && Rule::LostCommitsNothing.on()
        });
        let submitted = match foreign {
            Some((place, ..)) => Err(BrokerError(format!(
                "offsets were not committed: the assignment of {} that they are of has ended",
                named(place)
            ))),
            None => self.submit(offsets),
        };
        match submitted {
            Ok(ticket) => drop(self.commits.insert(ticket, reply)),
            // The pipeline may have ended meanwhile.
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    fn submit(
        &mut self,
        offsets: &[(TopicPartition, NextOffset, LeaderEpoch)],
    ) -> Result<usize, BrokerError> {
        let offsets = offsets.iter().map(|(place, next, epoch)| (place, *next, *epoch));
        let list = list_marked(offsets, &self.mark)?;
        self.tickets += 1;
        let ticket = usize::try_from(self.tickets).unwrap_or(usize::MAX);
        self.queue
            .commit(&list, ticket)
            .map_err(|code| BrokerError(format!("offsets cannot be committed to Kafka: {code}")))?;
        Ok(ticket)
    }

    pub(super) fn handle_committed(&mut self, event: &Event<'_>) {
        let Some(reply) = self.commits.remove(&event.ticket()) else { return };
        let whole = Some(event.code()).filter(|code| *code != RDKafkaErrorCode::NoError);
        let part = || {
            let places = event.places();
            places.into_iter().map(|p| p.error).find(|code| *code != RDKafkaErrorCode::NoError)
        };
        let answer = match whole.or_else(part) {
            None => Ok(()),
            Some(code) => Err(BrokerError(format!("committing offsets to Kafka failed: {code}"))),
        };
        // The pipeline may have ended meanwhile.
        let _ = reply.send(answer);
    }
}
