//! The careful run: it names the event that failed, so that only that one pays.

use super::script::check;

/// Finding 14, `Mode::Careful`: a failure that names no event leads to a run with savepoints.
#[test]
fn an_unnamed_failure_is_run_carefully() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a 1a 2b => start p0[0 1 | 2]
        failed p0@0 unnamed => careful p0[0 1 | 2]
        committed p0@0
        deliver p0 3a 4b => start p0[3 | 4]
        ",
    );
}

/// The careful run names one culprit per lane; the others go on without them.
#[test]
fn a_careful_run_names_each_culprit() {
    check(
        "
        own p0 lanes=3 w=0
        deliver p0 0a 1a 2b 3c => start p0[0 1 | 2 | 3]
        failed p0@0 unnamed => careful p0[0 1 | 2 | 3]
        failed p0@0 p0@1 p0@3 => careful p0[0 | 2]
        committed p0@0
        wait 100 => careful p0[3], careful p0[1]
        ",
    );
}

/// G6: a careful transaction has at most 32 savepoints, and each chunk is a prefix of its lanes
/// (finding 18).
#[test]
fn a_careful_run_goes_in_chunks() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a 1b 2a 3a 4a 5a 6a 7a 8a 9a 10a 11a 12a 13a 14a 15a 16a 17a 18a 19a 20a 21a 22a 23a 24a 25a 26a 27a 28a 29a 30a 31a 32a 33a 34a => start p0[0 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 | 1]
        failed p0@0 unnamed => careful p0[0 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32], careful p0[1]
        committed p0@0 => careful p0[33 34]
        ",
    );
}

/// A lane in a careful stretch does not make the others careful.
#[test]
fn careful_lanes_and_others_do_not_mix() {
    check(
        "
        limits transactions=1
        own p0 lanes=2 w=0
        deliver p0 0a 1a => start p0[0 1]
        deliver p0 2b 3a
        failed p0@0 unnamed => start p0[2]
        committed p0@2 => careful p0[0 1]
        committed p0@0 => start p0[3]
        ",
    );
}

/// Alone in its batch, an event that fails without a name is known.
#[test]
fn an_unnamed_failure_of_one_event_is_its_own() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        rejected p0@0 unnamed => start p0[0:rejected]
        ",
    );
}

/// A careful run that names nobody (a failure at COMMIT that no savepoint showed) gets smaller until
/// the event is alone; it neither spins nor blames the wrong one.
#[test]
fn a_careful_run_that_names_nobody_gets_smaller() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a 1a 2a => start p0[0 1 2]
        failed p0@0 unnamed => careful p0[0 1 2]
        failed p0@0 unnamed
        wait 10 => careful p0[0]
        committed p0@0 => careful p0[1 2]
        failed p0@1 unnamed
        wait 10 => careful p0[1]
        rejected p0@1 unnamed => start p0[1:rejected]
        committed p0@1 => careful p0[2]
        ",
    );
}

/// A doomed event inside a careful stretch is parked with it.
#[test]
fn a_doomed_event_joins_a_careful_run() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a 1a 2a => start p0[0 1 2]
        failed p0@0 unnamed => careful p0[0 1 2]
        rejected p0@0 p0@1 => careful p0[0 1:rejected 2]
        committed p0@0
        ",
    );
}

/// Conflict in a careful run: smaller, still careful.
#[test]
fn a_conflict_in_a_careful_run_stays_careful() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a 1a 2a 3a => start p0[0 1 2 3]
        failed p0@0 unnamed => careful p0[0 1 2 3]
        conflict p0@0
        wait 10 => careful p0[0 1]
        committed p0@0 => careful p0[2 3]
        ",
    );
}
