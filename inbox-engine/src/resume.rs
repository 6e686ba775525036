//! Where to read from after a take-over: a pure decision.

use crate::{LeaderEpoch, LogPoint, NextOffset, Rule, Standstill};

/// Where a consumer without history in database and group starts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Start {
    /// At the beginning of the log.
    #[default]
    Earliest,
    /// At its end.
    Latest,
    /// Nowhere: a person decides.
    Error,
}

/// The first watermark of a partition that the database does not know yet.
///
/// `own` says, in words, that this very consumer has committed the group's offset: then its database had a
/// row once, and has lost it. `first_start` is whether the topic had this partition when the consumer first started on it: one that
/// was added later begins at its beginning, whatever `start` says, or its first records would be skipped.
pub fn first_watermark(
    start: Start,
    first_start: bool,
    committed: Option<NextOffset>,
    own: Option<&str>,
    log: (NextOffset, NextOffset),
) -> Result<NextOffset, Standstill> {
    let (log_start, log_end) = log;
    if let (Some(next), Some(whose)) = (committed, own)
        && Rule::OwnOffsetIsNoStart.on()
    {
        return Err(Standstill::HistoryLost(format!(
            "the database has no row for this partition, but this consumer has committed offset \
             {} for it: {whose}. What was done below that offset is unknown: choose where to \
             continue with `skip --to committed`, `start`, `end` or an offset",
            next.0
        )));
    }
    match (committed, first_start, start) {
        (Some(next), true, _) => Ok(next.max(log_start)),
        (_, false, _) | (None, true, Start::Earliest) => Ok(log_start),
        (None, true, Start::Latest) => Ok(log_end),
        (None, true, Start::Error) => Err(Standstill::StartUndecided(
            "neither the database nor the group has an offset for this partition, and `start` is \
             \"error\"; set `start` to \"earliest\" or \"latest\", or commit an offset for the \
             group"
                .into(),
        )),
    }
}

/// What the database says of a partition's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settled {
    /// Everything below is settled.
    pub watermark: NextOffset,
    /// Behind the last record below it.
    pub record: LogPoint,
    /// The lowest end of the log that was seen below the watermark and not disproved since.
    pub log_end_seen: Option<NextOffset>,
}

/// Where to read on: behind the last record that is settled, or at Kafka's committed offset, if that is
/// smaller and the log still has it. A forward reset of the group's offset is ignored: the database knows
/// what is settled.
///
/// With the point goes the leader epoch of the last record. The broker knows where that epoch ends: before
/// the point, and the log was cut there. Otherwise everything below the point is the log that was
/// read, for leader epochs grow with offsets; and what lies between it and the last record is read again and
/// compared by its leader epoch. Where retention has removed the last record too, the point is the beginning of the log: that is no cut,
/// and the broker does not take it for one. Nothing is known to be there between the last record and the
/// watermark (transaction markers, records that were aborted or compacted away).
///
/// With no record known (a new partition, one that a person has skipped, a row of an older build) the smaller of
/// Kafka's offset and the watermark serves, without validation; but not once the log was seen to end below
/// the watermark.
pub fn resume(
    settled: Settled,
    committed: Option<NextOffset>,
    (log_start, log_end): (NextOffset, NextOffset),
) -> Result<LogPoint, Standstill> {
    let Settled { watermark, record, log_end_seen } = settled;
    if log_end < watermark {
        return Err(Standstill::LogEndsBelow(format!(
            "the log ends at {}, but everything below {} is settled: the brokers lost records \
             that they had acknowledged (an unclean leader election, a restored broker), or the \
             leader has not caught up yet; checking again",
            log_end.0, watermark.0
        )));
    }
    if log_start > watermark {
        return Err(Standstill::LogStartsAbove(format!(
            "the log begins at {}, but only events below {} are settled: retention deleted the \
             records in between before they were handled; to give them up, raise the partition's \
             watermark with `skip`",
            log_start.0, watermark.0
        )));
    }
    let proven = record.known() && record.next <= watermark && Rule::RecordValidated.on();
    let (most, leader_epoch) = match log_end_seen {
        _ if proven => (record.next.max(log_start), record.leader_epoch),
        Some(seen) if Rule::LogEndRemembered.on() => return Err(ended_below(watermark, seen)),
        _ => (watermark, LeaderEpoch::UNKNOWN),
    };
    let next = match committed {
        Some(kafka) if !Rule::ResumeAtMinimum.on() => kafka,
        // If the log begins between the two, Kafka's offset serves no more.
        Some(kafka) if kafka >= log_start => kafka.min(most),
        _ => most,
    };
    Ok(LogPoint { next, leader_epoch })
}

fn ended_below(watermark: NextOffset, seen: NextOffset) -> Standstill {
    Standstill::LogEndedBelow(format!(
        "the log once ended at {}, below {}, and has grown since; the record that was settled \
         last is unknown, so nothing can prove that it is the same log: find out whether the \
         brokers lost records, have producers send again what is missing, then continue with \
         `skip`",
        seen.0, watermark.0
    ))
}
