//! Rule 1: what is settled is known from the lanes' offsets and leader epochs, and an offset that is
//! used twice is proved, never guessed (findings 2 and 3, E2, E3).

use super::script::check;

/// B3: at or below its lane, under the same leader epoch or an older one: settled, no database asked.
#[test]
fn what_its_lane_has_passed_is_settled() {
    check(
        "
        own p0 last=6,8 le=3 w=5
        deliver p0 5a~2 6a~3 7b~3 8b~3 9a~3 => start p0[9]
        ",
    );
}

/// `SkipComparesLeaderEpoch` (E2): a newer leader epoch at an offset that is settled is a record that
/// was written over another: the partition stops by name, and nothing is skipped.
#[test]
fn a_rewritten_record_stops_the_partition() {
    check(
        "
        limits watermark=1000
        own p0 last=6,8 le=3 w=5
        deliver p0 5a~3 6a~4 7b~4 => p0 stands: rewritten, pause p0, confirm p0
        deliver p0 7b~4
        confirmed p0 yes => take p0 above 5
        wait 10000
        revoke p0 => let go p0
        ",
    );
}

/// `RecordValidated` (finding 23): a lane that knows no leader epoch (a remap, a skip) settles what lies
/// below the watermark, but nothing that is newer than the last record below it.
#[test]
fn a_record_newer_than_the_last_one_is_not_settled_below_it() {
    check(
        "
        limits watermark=1000
        own p0 last=6,8 le=-1 w=7 record=7 re=3 resume=4
        deliver p0 4a~3 5a~4 6b~4 => p0 stands: rewritten, pause p0, confirm p0
        ",
    );
}

/// A partition that waits for a person is asked about again, with growing waits, under the same name whatever
/// else it meets, and is taken over only once its watermark was moved: the record may lie below the one that
/// it had, and would not be seen again.
#[test]
fn a_rewritten_partition_goes_on_when_its_watermark_was_moved() {
    check(
        "
        limits watermark=1000
        own p0 last=6,8 le=3 w=5
        deliver p0 5a~3
        wait 1000 => write p0 5>6~3
        deliver p0 6a~4 => p0 stands: rewritten, pause p0, confirm p0
        written p0
        confirmed p0 yes => take p0 above 6
        taken p0 held => p0 stands: reused
        wait 100 => confirm p0
        confirmed p0 yes => take p0 above 6
        taken p0 again => p0 stands: rewritten
        wait 200 => confirm p0
        confirmed p0 no
        wait 400 => confirm p0
        confirmed p0 yes => take p0 above 6
        taken p0 last=8,8 le=-1 w=9 => seek p0@9~-1
        sought p0 => resume p0, p0 moves
        ",
    );
}

/// `ClaimWhenEpochUnknown` (finding 2b): with an unknown leader epoch, at or above the watermark, the
/// database is asked: the delivery is claimed again, and moves its lane nowhere.
#[test]
fn an_unknown_leader_epoch_is_claimed_again() {
    check(
        "
        limits watermark=1000
        own p0 last=6,8 le=-1 w=5
        deliver p0 5a 6a 9a => start p0[5 6 9]
        wait 1000 => check p0 5
        written p0
        committed p0@5
        wait 1000 => write p0 5>10
        ",
    );
}

/// The same when the record's own leader epoch is unknown.
#[test]
fn a_record_without_leader_epoch_is_claimed_again() {
    check(
        "
        own p0 last=6,8 le=3 w=5
        deliver p0 5a~-1 => start p0[5]
        committed p0@5
        ",
    );
}

/// `SkipBelowWatermark`: below the watermark, where rows may be pruned, it is settled without a claim.
#[test]
fn an_unknown_leader_epoch_below_the_watermark_is_settled() {
    check(
        "
        own p0 last=6,8 le=-1 w=5 resume=3
        deliver p0 3a 4b 5a => start p0[5]
        ",
    );
}

/// Finding 2b: a fresh id at an offset that its lane has passed is proof of reuse.
#[test]
fn a_reused_offset_stops_the_partition() {
    check(
        "
        own p0 last=6,8 le=-1 w=5
        deliver p0 5a 7b => start p0[5 | 7]
        reused p0@5 => p0 stands: reused, pause p0, confirm p0
        confirmed p0 yes => take p0 above 5
        wait 100000
        taken p0 again
        ",
    );
}

/// Finding 3: below a remap the torn check does not apply; every transaction says where.
#[test]
fn a_batch_says_where_lanes_were_remapped() {
    check(
        "
        own p0 last=4,4 le=-1 w=5 remapped=9
        deliver p0 5a => start p0[5] remapped below 9
        ",
    );
}

/// The first reason stays: it is the one that a person has to look into.
#[test]
fn the_first_reason_to_stop_stays() {
    check(
        "
        own p0 last=6,8 le=-1 w=5
        deliver p0 5a 7b => start p0[5 | 7]
        gone p0 => pause p0, p0 stands: log_starts_above
        reused p0@5
        ",
    );
}

/// A claim that is repeated is not settled until it has committed: it holds the watermark back.
#[test]
fn a_repeated_claim_holds_the_watermark_back() {
    check(
        "
        limits watermark=1000
        own p0 last=6,8 le=-1 w=5
        deliver p0 5a => start p0[5]
        failed p0@5 p0@5
        wait 1000 => careful p0[5], check p0 5
        ",
    );
}
