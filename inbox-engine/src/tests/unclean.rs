//! After an owner that ended without a word: events that it may have died of.

use super::script::check;

/// The first events of each lane, as many as a transaction may have.
#[test]
fn the_first_events_of_each_lane_are_marked() {
    check(
        "
        limits batch=2
        own p0 lanes=2 w=0 unclean
        deliver p0 0a 1a 2a 3b => marked start p0[0 1], marked start p0[3]
        committed p0@3
        committed p0@0 => start p0[2]
        committed p0@2
        deliver p0 4a => start p0[4]
        committed p0@4
        deliver p0 5b => marked start p0[5]
        committed p0@5
        deliver p0 6b => start p0[6]
        ",
    );
}

#[test]
fn after_a_clean_end_nothing_is_marked() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a 1a => start p0[0 1]
        ",
    );
}

/// What a process has died with goes by itself, and nothing of its lane passes it.
#[test]
fn a_suspect_has_a_transaction_of_its_own() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a 1a? 2a 3b => start p0[0 | 3]
        committed p0@0 => marked start p0[1]
        committed p0@1 => start p0[2]
        ",
    );
}

/// A release may end a process, too: the first ones of each lane are tried, one event at a time.
#[test]
fn the_first_releases_of_each_lane_are_unproven() {
    check(
        "
        limits look=1000 release=2
        own p0 lanes=1 w=0 unclean
        due p0 a => unproven release p0 a:1
        released p0 a more => unproven release p0 a:1
        released p0 a more => release p0 a:2
        ",
    );
}

#[test]
fn a_crash_is_parked_at_once() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a? 1a => marked start p0[0]
        crashed p0@0 p0@0 => start p0[0:crashed 1]
        committed p0@0
        ",
    );
}
