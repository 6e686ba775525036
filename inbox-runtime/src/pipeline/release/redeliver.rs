//! A parked event becomes a delivery again, read with today's rules and given to today's handlers.

use inbox_engine::internal::{Doom, ParkReason, Release};
use inbox_store::internal::port::{Transactions, release::Queued};
use kafka_kit::internal::{Arrival, Broker, Excerpts};
use outbox_core::{ReadError, Record, TopicPartition, internal::Excerpt};

use super::{ReleaseJob, execute::JobOutcome, plan::ReleasePlan};
use crate::pipeline::{Delivered, document, transaction::Work};

/// The item of a row: its lane and its aggregate are the queue's, whatever they would be today.
pub(super) fn item<DB: Transactions>(
    work: &Work<DB>,
    job: ReleaseJob<'_>,
    row: &Queued,
) -> Delivered {
    let ReleaseJob { place, release, .. } = job;
    let arrival = document::arrival(&row.record, row.offset, row.leader_epoch);
    let readable = arrival.is_some();
    let arrival = arrival.unwrap_or_else(|| Arrival {
        offset: row.offset,
        leader_epoch: row.leader_epoch,
        record: Record::default(),
        flaw: None,
    });
    let at = (release.lane, release.aggregate);
    let mut item = work.intake.item(place, arrival, at, &work.routes);
    item.attempts = row.attempts;
    if !readable {
        let error = "its parked row contains no readable record: the column `record` was changed \
                     by hand; repair it, or discard the event";
        item.doomed = Some(Doom { reason: ParkReason::Undecodable, error: error.into() });
    }
    if let Some((offset, Err(error))) = job.whole
        && *offset == row.offset
    {
        item.doomed = Some(Doom { reason: ParkReason::Undecodable, error: error.clone() });
    }
    item
}

/// The text that the row of a record would have which is kept in part, with all of it: it is read from its log once
/// more. Or why that cannot be.
pub(super) async fn read_whole<DB: Transactions>(
    work: &Work<DB>,
    broker: &dyn Broker,
    place: &TopicPartition,
    release: &Release,
    (row, excerpt): (&Queued, &Excerpt),
) -> Result<String, String> {
    let max = work.intake.excerpts.bytes_max();
    if excerpt.bytes > max {
        return Err(ReadError::TooLarge { bytes: excerpt.bytes, max }.to_string());
    }
    let part = "its parked row has only a part of the record";
    let found = broker.record(place, row.offset).await.map_err(|error| {
        format!(
            "{part}, and reading the record from Kafka failed: {error}; release it again once \
                 Kafka works"
        )
    })?;
    let arrival = found.ok_or_else(|| {
        format!(
            "{part}, and the log no longer has it; have its producer send it again, and discard \
             this one"
        )
    })?;
    let epochs = [arrival.leader_epoch, row.leader_epoch];
    let other = epochs.iter().all(|epoch| epoch.known()) && epochs[0] != epochs[1];
    if other || (arrival.flaw.is_none() && !Excerpts::is_of(excerpt, &arrival.record)) {
        return Err(format!(
            "{part}, and the log holds a different record at its offset now: the log was \
             rewritten; have the producer send the event again, and discard this one"
        ));
    }
    if let Some(flaw) = &arrival.flaw {
        return Err(flaw.error(max).to_string());
    }
    let at = (release.lane, release.aggregate);
    Ok(document::document(&work.intake.item(place, arrival, at, &work.routes), ""))
}

impl ReleasePlan {
    /// An event whose row has only a part of its record goes alone, when all of it is at hand.
    pub(super) fn with_whole_record(mut self, job: ReleaseJob<'_>) -> Result<Self, JobOutcome> {
        let part = |row: &Queued| document::excerpt(&row.record);
        let first = self.run.iter().enumerate().find_map(|(at, row)| Some((at, part(row)?)));
        let (excerpt, head) = match (first, self.run.first_mut()) {
            (Some((0, excerpt)), Some(head)) if job.release.blamed.is_none() => (excerpt, head),
            (Some((at, _)), _) => return Ok(self.cut(at.max(1))),
            _ => return Ok(self),
        };
        match job.whole {
            Some((offset, Ok(document))) if *offset == head.offset => {
                head.record.clone_from(document);
            }
            Some((offset, Err(_))) if *offset == head.offset => {}
            _ => return Err(JobOutcome::Part(Box::new(head.clone()), excerpt)),
        }
        Ok(self.cut(1))
    }
}
