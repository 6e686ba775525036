//! Where to read from after a take-over: a pure decision.

use crate::{NextOffset, Rule, Standstill};

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
/// `first_start` is whether the consumer has no partition of this topic yet: one that is found later
/// begins at its beginning, whatever `start` says, or its first records would be skipped.
pub fn first_watermark(
    start: Start,
    first_start: bool,
    committed: Option<NextOffset>,
    log: (NextOffset, NextOffset),
) -> Result<NextOffset, Standstill> {
    let (log_start, log_end) = log;
    match (committed, first_start, start) {
        (Some(next), true, _) => Ok(next.max(log_start)),
        (_, false, _) | (None, true, Start::Earliest) => Ok(log_start),
        (None, true, Start::Latest) => Ok(log_end),
        (None, true, Start::Error) => Err(Standstill::StartUndecided(
            "neither the database nor the group has an offset for this partition, and `start` is \
             \"error\"; set `start` to \"earliest\" or \"latest\", or commit an offset for the group"
                .into(),
        )),
    }
}

/// Where to read on: the smaller of Kafka's committed offset and the watermark, if the log still has it.
///
/// A forward reset of the group's offset is ignored: the database knows what is settled.
pub fn resume(
    watermark: NextOffset,
    committed: Option<NextOffset>,
    (log_start, log_end): (NextOffset, NextOffset),
) -> Result<NextOffset, Standstill> {
    if log_end < watermark {
        return Err(Standstill::LogEndsBelow(format!(
            "the log ends at {}, but everything below {} is settled: the brokers lost records that they \
             had acknowledged (an unclean leader election, a restored broker), or the leader has not \
             caught up yet; it is asked again. If the records are gone for good, what is written in \
             their place cannot be told from them: move the producers to a new topic",
            log_end.0, watermark.0
        )));
    }
    if log_start > watermark {
        return Err(Standstill::LogStartsAbove(format!(
            "the log begins at {}, but everything below {} only is settled: the records between were \
             removed by retention before they were handled; if they are to be given up, raise the \
             partition's watermark with `skip`",
            log_start.0, watermark.0
        )));
    }
    let kafka = committed.unwrap_or(watermark);
    if !Rule::ResumeAtMinimum.on() {
        return Ok(kafka);
    }
    // If the log begins between Kafka's offset and the watermark, the watermark serves alone.
    let smaller = kafka.min(watermark);
    Ok(if smaller < log_start { watermark } else { smaller })
}
