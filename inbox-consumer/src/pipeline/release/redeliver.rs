//! A parked event becomes a delivery again, read with today's rules and given to today's handlers.

use inbox_engine::{Doom, ParkReason, Release};

use crate::pipeline::{
    parked,
    port::{Arrival, Delivered, Store, TopicPartition, release::Queued},
    transaction::Work,
};

/// The item of a row: its lane and its aggregate are the queue's, whatever they would be today.
pub(super) fn item<DB: Store>(
    work: &Work<DB>,
    place: &TopicPartition,
    release: &Release,
    row: &Queued,
) -> Delivered {
    let record = parked::record(&row.record);
    let readable = record.is_some();
    let arrival = Arrival {
        offset: row.offset,
        leader_epoch: row.leader_epoch,
        record: record.unwrap_or_default(),
    };
    let at = (release.lane, release.aggregate);
    let mut item = work.intake.item(place, arrival, at, &work.routes);
    item.attempts = row.attempts;
    if !readable {
        let error = "its parked row holds no record that can be read: the column `record` was \
                     changed by hand; put it right, or discard the event";
        item.doomed = Some(Doom { reason: ParkReason::Undecodable, error: error.into() });
    }
    item
}
