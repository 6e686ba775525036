//! Where to read from, and other decisions without state.

use crate::{
    LeaderEpoch, LogPoint, NextOffset, Settled, Standstill, Start, first_watermark, resume,
};

const N: fn(i64) -> NextOffset = NextOffset;

/// A watermark, and behind which record it was written, under leader epoch 3; -1: not known.
fn settled(watermark: i64, record: i64) -> Settled {
    let known = LogPoint { next: N(record), leader_epoch: LeaderEpoch(3) };
    let record = if record < 0 { LogPoint::UNKNOWN } else { known };
    Settled { watermark: N(watermark), record, log_end_seen: None }
}

/// `ResumeAtMinimum` (B1, D4, D16): the smaller of Kafka's offset and the watermark; a forward reset of
/// the group is ignored, a backward one is obeyed.
#[test]
fn processing_resumes_at_the_smaller_of_both() {
    for (watermark, committed, log_start, wanted) in [
        (5, Some(5), 0, 5),
        (5, Some(9), 0, 5),
        (5, Some(3), 0, 3),
        (5, None, 0, 5),
        // The log begins between the two: the watermark serves alone.
        (5, Some(3), 4, 5),
        (5, Some(3), 5, 5),
        (5, Some(4), 4, 4),
    ] {
        for (record, epoch) in [(-1, LeaderEpoch::UNKNOWN), (watermark, LeaderEpoch(3))] {
            let log = (N(log_start), N(9));
            let resumed = resume(settled(watermark, record), committed.map(N), log);
            let wanted = LogPoint { next: N(wanted), leader_epoch: epoch };
            assert_eq!(resumed, Ok(wanted), "{watermark} {record} {committed:?} {log_start}");
        }
    }
}

/// `RecordValidated` (finding 23): the broker is asked about the last record wherever one is known. It
/// answers where the record's leader epoch ends in its log: below the point, and the log was cut.
#[test]
fn the_last_record_is_validated_before_anything_is_read() {
    for (case, (record, watermark), committed, log, wanted) in [
        ("behind a marker", (11, 12), Some(12), (0, 20), 11),
        ("an idle log", (11, 12), Some(12), (0, 12), 11),
        ("behind aborted records", (11, 40), Some(40), (0, 40), 11),
        ("the group is behind", (11, 12), Some(8), (0, 20), 8),
        ("the group has nothing", (11, 12), None, (0, 20), 11),
        ("the group is ahead", (11, 12), Some(90), (0, 99), 11),
        ("retention took the last record", (11, 14), Some(14), (12, 20), 12),
        ("retention took everything", (11, 14), Some(14), (14, 14), 14),
        ("retention took all but the marker", (11, 12), Some(11), (11, 12), 11),
        ("retention took what the group points at", (11, 12), Some(3), (5, 20), 11),
        ("nothing between record and watermark", (12, 12), Some(12), (0, 12), 12),
    ] {
        let resumed = resume(settled(watermark, record), committed.map(N), (N(log.0), N(log.1)));
        let wanted = LogPoint { next: N(wanted), leader_epoch: LeaderEpoch(3) };
        assert_eq!(resumed, Ok(wanted), "{case}");
    }
    // A row that somebody changed by hand: a record above the watermark proves nothing below.
    let resumed = resume(settled(5, 9), None, (N(0), N(20))).unwrap();
    assert_eq!((resumed.next, resumed.leader_epoch), (N(5), LeaderEpoch::UNKNOWN));
}

/// `LogEndRemembered` (finding 23): a log that was seen to end below the watermark is not the same one
/// because it has grown; a validation of the last record shows whether it is.
#[test]
fn a_log_that_ended_below_the_watermark_is_remembered() {
    let seen =
        |watermark, record| Settled { log_end_seen: Some(N(7)), ..settled(watermark, record) };
    let log = (N(0), N(20));
    let stopped = resume(seen(12, -1), Some(N(12)), log).unwrap_err();
    assert!(matches!(stopped, Standstill::LogEndedBelow(_)), "{stopped:?}");
    assert!(stopped.needs_a_person() && stopped.may_pass(), "only `skip` ends it");
    assert_eq!(resume(seen(12, 11), Some(N(12)), log).map(|point| point.next), Ok(N(11)));
}

/// E4, D3: a log that begins above the watermark is a loss that a person has to know of.
#[test]
fn a_log_that_begins_above_the_watermark_stops() {
    for record in [-1, 5] {
        let stopped = resume(settled(5, record), Some(N(9)), (N(6), N(9)));
        assert!(matches!(stopped, Err(Standstill::LogStartsAbove(_))), "{stopped:?}");
    }
}

/// E4: a log that ends below the watermark has lost records; one that ends at it has not.
#[test]
fn a_log_that_ends_below_the_watermark_is_asked_again() {
    for record in [-1, 3, 5] {
        let stopped = resume(settled(5, record), Some(N(5)), (N(0), N(4))).unwrap_err();
        assert!(
            matches!(stopped, Standstill::LogEndsBelow(_)) && stopped.may_pass(),
            "{stopped:?}"
        );
        assert!(resume(settled(5, record), Some(N(5)), (N(0), N(5))).is_ok());
    }
}

/// `OwnOffsetIsNoStart` (finding 26): what this consumer itself has committed is history that the database
/// has lost, whatever the configuration says, and also for a topic that was added later.
#[test]
fn an_own_offset_is_no_start() {
    let log = (N(10), N(90));
    for start in [Start::Earliest, Start::Latest, Start::Error] {
        for first_start in [true, false] {
            let own = Some("with this inbox");
            let stopped = first_watermark(start, first_start, Some(N(40)), own, log).unwrap_err();
            assert!(matches!(stopped, Standstill::HistoryLost(_)), "{stopped:?}");
            assert!(stopped.needs_a_person() && stopped.may_pass(), "only `skip` ends it");
        }
    }
}

/// Finding 11: where a partition begins that the database does not know.
#[test]
fn a_first_start_follows_group_then_configuration() {
    let log = (N(10), N(90));
    for (start, first_start, committed, wanted) in [
        (Start::Earliest, true, None, Some(10)),
        (Start::Latest, true, None, Some(90)),
        (Start::Error, true, None, None),
        // The group's offset is history: it wins, as far as the log still has it.
        (Start::Latest, true, Some(40), Some(40)),
        (Start::Error, true, Some(40), Some(40)),
        (Start::Latest, true, Some(4), Some(10)),
        // A partition that was added later begins at its beginning.
        (Start::Latest, false, None, Some(10)),
        (Start::Error, false, None, Some(10)),
    ] {
        let next = first_watermark(start, first_start, committed.map(N), None, log);
        match wanted {
            Some(wanted) => {
                assert_eq!(next, Ok(N(wanted)), "{start:?} {first_start} {committed:?}");
            }
            None => assert!(matches!(next, Err(Standstill::StartUndecided(_))), "{next:?}"),
        }
    }
}
