//! Assignment, take-over, resync: whose partition it is, and work of an earlier time.

use super::script::check;

/// `SeekConfirmed` (finding 16): assignment, take-over, seek; deliveries count only after its result.
#[test]
fn a_partition_is_taken_over_before_anything_is_read() {
    check(
        "
        assign p0 => p0 stands: taking_over, take p0
        taken p0 lanes=2 w=5 => seek p0@5
        deliver p0 9a
        sought p0 => resume p0, p0 moves
        deliver p0 5a 9a => start p0[5 9]
        ",
    );
}

/// B2, A4, finding 16: an unknown outcome forgets what memory says, asks the group, takes over, seeks.
/// `UnknownCommitResyncs`
#[test]
fn an_unknown_outcome_resyncs() {
    check(
        "
        own p0 lanes=2 w=5
        deliver p0 5a 6b => start p0[5 | 6]
        unknown p0@5 => pause p0, p0 stands: taking_over, confirm p0
        deliver p0 7a
        confirmed p0 yes => take p0
        taken p0 last=5,6 w=5 => seek p0@5
        sought p0 => resume p0, p0 moves
        deliver p0 5a 6b 7a => start p0[7]
        ",
    );
}

/// A4: an unknown outcome spends no attempt, however often.
#[test]
fn an_unknown_outcome_spends_no_attempt() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        unknown p0@0 => pause p0, p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=0 => seek p0@0
        sought p0 => resume p0, p0 moves
        deliver p0 0a => start p0[0]
        unknown p0@0 => pause p0, p0 stands: taking_over
        wait 100 => confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=0 => seek p0@0
        sought p0 => resume p0, p0 moves
        deliver p0 0a => start p0[0]
        unknown p0@0 => pause p0, p0 stands: taking_over
        wait 200 => confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=0 => seek p0@0
        sought p0 => resume p0, p0 moves
        deliver p0 0a => start p0[0]
        ",
    );
}

/// B1, C9: lanes that are not where this process left them: resync. The wait before it grows while
/// no watermark write holds (finding 17): two owners that both believe do not spin.
#[test]
fn resyncs_in_a_row_wait_longer() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        fenced p0@0 => pause p0, p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=0 => seek p0@0
        sought p0 => resume p0, p0 moves
        deliver p0 0a 1a => start p0[0 1]
        committed p0@0
        deliver p0 2a => start p0[2]
        fenced p0@2 => pause p0, p0 stands: taking_over
        wait 49
        wait 51 => confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=2 => seek p0@2
        sought p0 => resume p0, p0 moves
        wait 1000 => check p0 2, commit p0@2
        written p0
        deliver p0 2a => start p0[2]
        fenced p0@2 => pause p0, p0 stands: taking_over, confirm p0
        ",
    );
}

/// Finding 17: a partition that the group does not confirm is asked for again, with growing waits, and
/// is not taken over.
#[test]
fn a_partition_that_is_not_confirmed_is_not_taken() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        fenced p0@0 => pause p0, p0 stands: taking_over, confirm p0
        confirmed p0 no
        wait 49
        wait 51 => confirm p0
        confirmed p0 no
        wait 99
        wait 101 => confirm p0
        lost p0
        ",
    );
}

/// B15: a take-over that meets trouble is tried again with growing waits, and says so.
#[test]
fn a_take_over_is_tried_again() {
    check(
        "
        assign p0 => p0 stands: taking_over, take p0
        taken p0 again => p0 stands: outage, confirm p0
        confirmed p0 yes => take p0
        taken p0 again
        wait 100 => confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=2 w=5 => seek p0@5
        sought p0 => resume p0, p0 moves
        ",
    );
}

/// D13: who comes back under its instance id waits for its own past to be over, and that takes two
/// seconds: the waits do not grow.
#[test]
fn a_twin_that_may_be_gone_is_looked_for_again_soon() {
    check(
        "
        assign p0 => p0 stands: taking_over, take p0
        taken p0 twin => p0 stands: foreign_owner, confirm p0
        confirmed p0 yes => take p0
        taken p0 twin
        wait 200 => confirm p0
        confirmed p0 yes => take p0
        taken p0 twin
        wait 200 => confirm p0
        confirmed p0 yes => take p0
        taken p0 twin
        wait 200 => confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=2 w=5 => seek p0@5
        ",
    );
}

/// D3, C19: a take-over that only a person can help stands still, by name.
#[test]
fn a_take_over_that_needs_a_person_stands_still() {
    check(
        "
        assign p0 => p0 stands: taking_over, take p0
        taken p0 stop => p0 stands: lane_rule
        wait 100000
        revoke p0 => let go p0
        ",
    );
}

/// Finding 16: a seek that failed loses everything between; the partition is taken over anew.
#[test]
fn a_seek_that_failed_is_made_good() {
    check(
        "
        assign p0 => p0 stands: taking_over, take p0
        taken p0 lanes=2 w=5 => seek p0@5
        sought p0 fails => p0 stands: outage, confirm p0
        deliver p0 5a
        confirmed p0 yes => take p0
        taken p0 lanes=2 w=5 => seek p0@5
        sought p0 => resume p0, p0 moves
        deliver p0 5a => start p0[5]
        ",
    );
}

/// `GenerationChecked` (C10): a transaction of an earlier generation changes nothing, whether it
/// committed or not; what it carried is read again.
#[test]
fn an_outcome_of_an_earlier_generation_changes_nothing() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        fenced p0@0 => pause p0, p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=2 w=0 => abort p0, seek p0@0
        sought p0 => resume p0, p0 moves
        deliver p0 0a 1b => start p0[0 | 1]
        failed p0@1 p0@1 old
        see p0 => w=0 kafka=0 position=2 waiting=2 open=1 bytes=2
        committed p0@1
        see p0 => w=0 kafka=0 position=2 waiting=0 open=0 bytes=0
        ",
    );
}

/// C10: two faults of one generation are one resync; the second comes from the past.
#[test]
fn two_faults_of_one_generation_are_one_resync() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        unknown p0@0 => pause p0, p0 stands: taking_over, confirm p0
        unknown p0@1
        confirmed p0 yes => take p0
        ",
    );
}

/// C10: revoked and assigned to the same process again: transactions of before neither settle nor fail
/// anything of now.
#[test]
fn work_of_an_earlier_assignment_changes_nothing() {
    check(
        "
        limits drain=100
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        revoke p0 => pause p0
        wait 100 => abort p0, let go p0
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        committed p0@0 old
        see p0 => w=0 kafka=0 position=1 waiting=1 open=1 bytes=1
        ",
    );
}

/// C10: a delivery of an earlier generation is dropped.
#[test]
fn a_delivery_of_an_earlier_generation_is_dropped() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 old 0a
        deliver p0 0a => start p0[0]
        ",
    );
}

/// C10: a take-over that was asked for before the partition was lost is not taken for the one after.
#[test]
fn a_take_over_of_an_earlier_assignment_is_dropped() {
    check(
        "
        assign p0 => p0 stands: taking_over, take p0
        lost p0
        assign p0 => p0 stands: taking_over, take p0
        taken p0 lanes=2 w=5
        taken p0 lanes=2 w=7 => seek p0@7
        ",
    );
}

/// E4, D3: a log that no longer has the offset stops the partition by name; transactions that end
/// afterwards do not start it again, nor change the reason.
#[test]
fn a_stopped_partition_stays_stopped() {
    check(
        "
        own p0 lanes=3 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        gone p0 => pause p0, p0 stands: log_starts_above
        deliver p0 2c
        outage p0@0
        fenced p0@1
        wait 100000
        revoke p0 => let go p0
        ",
    );
}

/// D3: an offset that the client does not find is not believed at once: the partition is taken over
/// again, and that asks where the log begins.
#[test]
fn an_offset_that_is_not_found_is_looked_at_again() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        unreadable p0 => pause p0, p0 stands: taking_over, confirm p0
        ",
    );
}

/// E3: under a topic of another id nothing goes on; the take-over says so by name. One that does not work has its own
/// reason.
#[test]
fn a_topic_that_was_replaced_is_taken_over_again() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        replaced p0 => pause p0, p0 stands: taking_over, confirm p0
        replaced p0
        ",
    );
}

/// Nothing is missing of what cannot be read below the watermark, so another take-over begins behind it.
#[test]
fn a_batch_that_cannot_be_read_is_passed_over_below_the_watermark_only() {
    check(
        "
        own p0 lanes=1 w=5
        unread p0@5
        unread p0@4 => pause p0, p0 stands: taking_over, confirm p0
        unread p0@4
        ",
    );
}

/// Words about a seek of an earlier generation are not about this one (`GenerationChecked`).
#[test]
fn an_offset_that_an_earlier_generation_did_not_find_changes_nothing() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        unreadable p0 old
        committed p0@0
        ",
    );
}

/// D3: when the take-over changes nothing, because the broker says that the log has the offset, the
/// client's words are the reason that people see, and it is tried on.
#[test]
fn an_offset_that_is_not_found_again_is_told() {
    check(
        "
        own p0 lanes=1 w=0
        unreadable p0 => pause p0, p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=0 => seek p0@0
        sought p0 => resume p0, p0 moves
        unreadable p0 => pause p0, p0 stands: taking_over, p0 stands: offset_gone
        ",
    );
}

/// Finding 23: a seek that ended well says nothing yet, for the client's validation of the log may be under
/// way: the reason stays until something is read.
#[test]
fn a_cut_log_stands_still_until_something_is_read() {
    check(
        "
        own p0 lanes=1 w=0
        unreadable p0 => pause p0, p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=0 => seek p0@0
        sought p0 => resume p0, p0 moves
        unreadable p0 => pause p0, p0 stands: taking_over, p0 stands: offset_gone
        wait 10000 => confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=0 => seek p0@0
        sought p0 => resume p0
        deliver p0 0a => p0 moves, start p0[0]
        ",
    );
}

/// E4: a log that ends below the watermark is a reason by name, and the take-over is tried again.
#[test]
fn a_reason_that_may_pass_is_told_and_tried_again() {
    check(
        "
        assign p0 => p0 stands: taking_over, take p0
        taken p0 wait => p0 stands: log_ends_below, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=0 => seek p0@0
        sought p0 => resume p0, p0 moves
        ",
    );
}

/// A lost partition's releases are none of its business any more.
#[test]
fn a_release_of_a_lost_partition_changes_nothing() {
    check(
        "
        limits look=1000 transactions=1
        own p0 lanes=2 w=0
        own p1 lanes=2 w=0
        due p0 a => release p0 a:4
        due p1 b
        lost p0
        released p0 a more => release p1 b:4
        ",
    );
}

/// A queue in a lane that does not exist cannot be released: the partition stops by name.
#[test]
fn a_queue_in_no_lane_stops_the_partition() {
    check(
        "
        limits look=1000
        own p0 lanes=2 w=0
        due p0 a lane=2 => pause p0, p0 stands: lane_rule
        wait 5000
        ",
    );
}
