//! The limit on parked events: what a partition does that may park no more.

use super::script::check;

/// `ParkedLimitWaits` (I4): a transaction that would park too much comes back with nothing spent; live
/// transactions wait, longer each time, and the partition says why it stands still.
#[test]
fn at_the_limit_live_transactions_wait() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a 1a => start p0[0 1]
        full p0@0 => p0 stands: parked_limit
        deliver p0 2b
        wait 49
        wait 51 => start p0[0], start p0[2]
        committed p0@2
        full p0@0
        deliver p0 3b
        wait 99
        wait 101 => start p0[0], start p0[3]
        committed p0@3
        committed p0@0 => p0 moves, start p0[1]
        ",
    );
}

/// `ParkedLimitWaits`: nothing is spent: after the limit an event has the attempts it had.
#[test]
fn at_the_limit_no_attempt_is_spent() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        failed p0@0 p0@0
        wait 100 => careful p0[0]
        full p0@0 => p0 stands: parked_limit
        wait 100 => careful p0[0]
        full p0@0
        wait 200 => careful p0[0]
        failed p0@0 p0@0
        wait 200 => careful p0[0]
        failed p0@0 p0@0 => start p0[0:exhausted]
        full p0@0
        wait 400 => start p0[0:exhausted]
        committed p0@0 => p0 moves
        ",
    );
}

/// Releases go on at the limit, as many as there are: they make room.
#[test]
fn releases_go_on_at_the_limit() {
    check(
        "
        limits look=1000 transactions=1
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        due p0 a
        full p0@0 => p0 stands: parked_limit, release p0 a:4
        released p0 a more => release p0 a:4
        released p0 a more => release p0 a:4
        released p0 a more => release p0 a:4
        released p0 a
        wait 100 => start p0[0]
        committed p0@0 => p0 moves
        ",
    );
}

/// When a release has made room, live transactions are tried soon, however long they were to wait.
#[test]
fn room_is_noticed_soon() {
    check(
        "
        limits look=100
        own p0 lanes=2 w=0
        due p0
        deliver p0 0a => start p0[0]
        full p0@0 => p0 stands: parked_limit
        wait 100 => start p0[0], look p0
        full p0@0
        wait 200 => start p0[0]
        full p0@0
        wait 400 => start p0[0]
        full p0@0
        due p0 b => release p0 b:4, look p0
        released p0 b
        wait 100 => start p0[0]
        full p0@0
        wait 100 => start p0[0]
        ",
    );
}

/// Two transactions that meet the limit at once are one reason to wait, and one commit beside them is
/// no sign of room: those that met it have to commit.
#[test]
fn the_lanes_that_met_the_limit_say_when_there_is_room() {
    check(
        "
        limits transactions=3
        own p0 lanes=3 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        deliver p0 2c => start p0[2]
        full p0@0 => p0 stands: parked_limit
        full p0@1
        committed p0@2
        wait 100 => start p0[0], start p0[1]
        committed p0@0
        committed p0@1 => p0 moves
        ",
    );
}

/// The limit of one partition holds back no other.
#[test]
fn a_full_partition_holds_back_no_other() {
    check(
        "
        limits transactions=1
        own p0 lanes=1 w=0
        own p1 lanes=1 w=0
        deliver p0 0a => start p0[0]
        deliver p1 0a
        full p0@0 => p0 stands: parked_limit, start p1[0]
        committed p1@0
        ",
    );
}

/// An outage at the limit is told, and after it the limit is again.
#[test]
fn after_an_outage_the_limit_is_told_again() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        full p0@0 => p0 stands: parked_limit
        outage p0@1 => p0 stands: outage
        wait 100 => check p0 0, start p0[0], start p0[1]
        written p0 => p0 stands: parked_limit
        committed p0@0 => p0 moves
        ",
    );
}

/// The limit is no news while an outage is.
#[test]
fn an_outage_outranks_the_limit() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        outage p0@1 => p0 stands: outage
        full p0@0
        wait 100 => check p0 0, start p0[1], start p0[0]
        committed p0@1 => p0 stands: parked_limit
        ",
    );
}

/// A full partition drains as any other; a resync forgets that it was full.
#[test]
fn a_full_partition_is_let_go() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        full p0@0 => p0 stands: parked_limit
        revoke p0 => pause p0
        committed p0@1 => check p0 0
        ",
    );
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        full p0@0 => p0 stands: parked_limit
        fenced p0@1 => pause p0, p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=2 w=0 => seek p0@0
        sought p0 => resume p0, p0 moves
        deliver p0 0a => start p0[0]
        ",
    );
}
