//! Intake: limits instead of waits, and deliveries that come twice.

use super::script::check;

/// `IntakePauses` (C3, C14): above the byte limit the partition is paused, below half it goes on; what
/// still arrives is taken.
#[test]
fn intake_pauses_above_the_byte_limit() {
    check(
        "
        limits transactions=1 bytes=10 batch=1
        own p0 lanes=2 w=0
        deliver p0 0a:4 1a:4 2b:2 => start p0[0]
        deliver p0 3a:1 => pause p0
        deliver p0 4b:1
        committed p0@0 => start p0[2]
        committed p0@2 => start p0[1]
        committed p0@1 => resume p0, start p0[4]
        ",
    );
}

/// C3: a blocked lane pins the watermark; what piles up above it is bounded too, though it is done.
#[test]
fn intake_pauses_when_a_lane_pins_the_watermark() {
    check(
        "
        limits events=4
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b 2b 3b => start p0[1 2 3]
        committed p0@1
        deliver p0 4b => pause p0, start p0[4]
        committed p0@4
        see p0 => w=0 kafka=0 position=5 waiting=1 open=1 bytes=1
        committed p0@0 => resume p0
        ",
    );
}

/// C14: a partition is paused on its own; the others go on.
#[test]
fn a_full_partition_pauses_no_other() {
    check(
        "
        limits transactions=1 bytes=10
        own p0 lanes=1 w=0
        own p1 lanes=1 w=0
        deliver p0 0a:20 => pause p0, start p0[0]
        deliver p1 0a
        committed p0@0 => resume p0, start p1[0]
        ",
    );
}

/// A resync forgets what was paused for: the partition goes on when it is sought.
#[test]
fn a_resync_resumes_what_was_paused() {
    check(
        "
        limits bytes=10
        own p0 lanes=1 w=0
        deliver p0 0a:20 => pause p0, start p0[0]
        fenced p0@0 => p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=0 => seek p0@0
        sought p0 => resume p0, p0 moves
        see p0 => w=0 kafka=0 position=0 waiting=0 open=0 bytes=0
        ",
    );
}

/// B3, C14: the client delivers twice (a pause and a fetch again): the first copy is on its way.
#[test]
fn a_delivery_that_comes_twice_is_taken_once() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a 1b => start p0[0 | 1]
        deliver p0 0a 1b 2b
        committed p0@0 => start p0[2]
        deliver p0 1b 2b
        committed p0@2
        see p0 => w=0 kafka=0 position=3 waiting=0 open=0 bytes=0
        ",
    );
}

/// Deliveries of a draining partition wait; nothing starts.
#[test]
fn deliveries_of_a_draining_partition_start_nothing() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        revoke p0 => pause p0
        deliver p0 1b
        committed p0@0 => write p0 0>1
        ",
    );
}
