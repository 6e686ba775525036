//! Where to read from, and other decisions without state.

use crate::{NextOffset, Standstill, Start, first_watermark, resume};

const N: fn(i64) -> NextOffset = NextOffset;

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
        let next = resume(N(watermark), committed.map(N), (N(log_start), N(9)));
        assert_eq!(next, Ok(N(wanted)), "{watermark} {committed:?} {log_start}");
    }
}

/// E4, D3: a log that begins above the watermark is a loss that a person has to know of.
#[test]
fn a_log_that_begins_above_the_watermark_stops() {
    let stopped = resume(N(5), Some(N(9)), (N(6), N(9)));
    assert!(matches!(stopped, Err(Standstill::LogStartsAbove(_))), "{stopped:?}");
}

/// E4: a log that ends below the watermark has lost records; one that ends at it has not.
#[test]
fn a_log_that_ends_below_the_watermark_is_asked_again() {
    let stopped = resume(N(5), Some(N(5)), (N(0), N(4))).unwrap_err();
    assert!(matches!(stopped, Standstill::LogEndsBelow(_)) && stopped.may_pass(), "{stopped:?}");
    assert_eq!(resume(N(5), Some(N(5)), (N(0), N(5))), Ok(N(5)));
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
        let next = first_watermark(start, first_start, committed.map(N), log);
        match wanted {
            Some(wanted) => {
                assert_eq!(next, Ok(N(wanted)), "{start:?} {first_start} {committed:?}");
            }
            None => assert!(matches!(next, Err(Standstill::StartUndecided(_))), "{next:?}"),
        }
    }
}
