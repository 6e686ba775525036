//! A change of the lanes that waits: settled up to a barrier, then taken over anew.

use super::script::check;

/// Finding 24: the partition that is taken over has lanes ahead of its watermark. What is before the
/// furthest of them is delivered and settled, what is behind is left out and read again.
#[test]
fn a_change_of_lanes_comes_about_under_load() {
    check(
        "
        own p0 last=4,9 le=0 w=5 remap
        deliver p0 5a 6b 8a 9b => start p0[5 8]
        deliver p0 10a 11b 12a => pause p0
        deliver p0 13b
        see p0 => w=5 kafka=5 position=10 waiting=2 open=1 bytes=2
        committed p0@5
        wait 1 => write p0 5>10
        written p0 => p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 last=9,9,9 le=-1 w=10 => seek p0@10~-1
        sought p0 => resume p0, p0 moves
        ",
    );
}

/// Without anything behind it, what was read tells that all before the barrier has arrived.
#[test]
fn a_change_of_lanes_comes_about_at_the_end_of_the_log() {
    check(
        "
        own p0 last=4,9 le=0 w=5 remap
        deliver p0 5a => start p0[5]
        committed p0@5
        position p0@12
        wait 1 => write p0 5>12~-1 record 6
        written p0 => pause p0, p0 stands: taking_over, confirm p0
        ",
    );
}

/// A client that has read on does not make the watermark pass what was left out.
#[test]
fn what_is_left_out_is_not_passed() {
    check(
        "
        own p0 last=4,9 le=0 w=5 remap
        deliver p0 5a 9b 10a => pause p0, start p0[5]
        position p0@20
        see p0 => w=5 kafka=5 position=10 waiting=1 open=1 bytes=1
        revoke p0
        committed p0@5 => write p0 5>10
        written p0 => commit p0@10
        acked => let go p0
        ",
    );
}
