//! What a transaction that did not commit leads to: back-off, parking, smaller batches, a pause.

use super::script::check;

/// A failed event is tried again later; the other events of its batch go on at once.
#[test]
fn a_failure_delays_its_own_lane_only() {
    check(
        "
        limits transactions=1
        own p0 lanes=2 w=0
        deliver p0 0b => start p0[0]
        deliver p0 1a 2a 3b 4b
        committed p0@0 => start p0[1 2 | 3 4]
        failed p0@1 p0@2 => start p0[1 | 3 4]
        committed p0@1
        deliver p0 5b => start p0[5]
        committed p0@5
        wait 49
        wait 51 => careful p0[2]
        ",
    );
}

/// C6: what follows a failed event in its lane waits behind it, and nothing overtakes.
#[test]
fn what_follows_a_failed_event_waits() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a 1a 2a => start p0[0 1 2]
        failed p0@0 p0@0
        deliver p0 3a
        wait 100 => careful p0[0]
        committed p0@0 => start p0[1 2 3]
        ",
    );
}

/// C6, I1: after its last attempt an event comes back doomed, to be parked with what follows it.
#[test]
fn an_exhausted_event_is_handed_back_to_be_parked() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a 1a => start p0[0 1]
        failed p0@0 p0@0
        wait 100 => careful p0[0]
        failed p0@0 p0@0
        wait 200 => careful p0[0]
        failed p0@0 p0@0 => start p0[0:exhausted 1]
        committed p0@0
        ",
    );
}

/// The waits between attempts grow: the second is longer than the first can be.
#[test]
fn the_waits_between_attempts_grow() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        failed p0@0 p0@0
        wait 100 => careful p0[0]
        failed p0@0 p0@0
        wait 99
        wait 101 => careful p0[0]
        ",
    );
}

/// A rejected event is parked without another attempt.
#[test]
fn a_rejected_event_is_parked_at_once() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a 1a 2b => start p0[0 1 | 2]
        rejected p0@0 p0@0 => start p0[0:rejected 1 | 2]
        committed p0@0
        ",
    );
}

/// A conflict in front of a failed event does not shorten that event's wait.
#[test]
fn a_conflict_does_not_end_the_wait_of_a_failed_event() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a 1a 2a => start p0[0 1 2]
        failed p0@2 p0@2 => start p0[0 1]
        conflict p0@0
        wait 1 => start p0[0]
        committed p0@0 => start p0[1]
        committed p0@1
        wait 45
        wait 55 => careful p0[2]
        ",
    );
}

/// Two failures of one lane, named together by a batch handler: each keeps its own wait.
#[test]
fn two_failures_of_one_lane_keep_their_waits() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a 1a 2a => start p0[0 1 2]
        failed p0@0 p0@0 p0@2
        wait 40
        wait 60 => careful p0[0 1 2]
        committed p0@0
        ",
    );
}

/// `ConflictUncounted` (B14, finding 13): a deadlock spends no attempt, and is tried again at once with
/// half the events; commits bring the number back.
#[test]
fn a_conflict_halves_and_recovers() {
    check(
        "
        limits transactions=1
        own p0 lanes=1 w=0
        deliver p0 0a 1a 2a 3a 4a 5a 6a 7a => start p0[0 1 2 3 4 5 6 7]
        conflict p0@0
        wait 1 => start p0[0 1 2 3]
        conflict p0@0
        wait 2 => start p0[0 1]
        committed p0@0 => start p0[2 3 4 5]
        committed p0@2 => start p0[6 7]
        ",
    );
}

/// `ConflictUncounted`: however often, while nothing else commits.
#[test]
fn conflicts_alone_spend_no_attempt() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        conflict p0@0
        wait 10 => start p0[0]
        conflict p0@0
        wait 10 => start p0[0]
        conflict p0@0
        wait 10 => start p0[0]
        conflict p0@0
        wait 10 => start p0[0]
        committed p0@0
        ",
    );
}

/// A lane that always meets a conflict ends up alone, and the others of its batch go on in bigger
/// batches, however much commits in between.
#[test]
fn a_lane_of_conflicts_ends_up_alone() {
    check(
        "
        limits transactions=1
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b 2b 3a 4a
        conflict p0@0 => start p0[1 2]
        committed p0@1
        wait 1 => start p0[0]
        deliver p0 5b 6b 7b 8b
        conflict p0@0 => start p0[5 6 7 8]
        committed p0@5
        wait 2 => start p0[0]
        committed p0@0 => start p0[3 4]
        ",
    );
}

/// `OutageUncounted` (A10): an outage pauses the partition with growing waits, is reported, and spends
/// no attempt; the first commit ends it.
#[test]
fn an_outage_pauses_the_partition() {
    check(
        "
        limits transactions=1
        own p0 lanes=2 w=0
        deliver p0 0a 1b => start p0[0 | 1]
        outage p0@0 => p0 stands: outage
        deliver p0 2b
        wait 49
        wait 51 => check p0 0, start p0[0]
        outage p0@0
        wait 99
        wait 101 => start p0[1]
        ",
    );
}

/// A10: ten minutes without a database, and no event is nearer to being parked.
#[test]
fn a_long_outage_spends_no_attempt() {
    check(
        "
        limits transactions=1
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        outage p0@0 => p0 stands: outage
        wait 1000 => check p0 0, start p0[0]
        outage p0@0
        wait 1000 => start p0[0]
        outage p0@0
        wait 1000 => start p0[0]
        outage p0@0
        wait 1000 => start p0[0]
        outage p0@0
        written p0 outage
        wait 1000 => check p0 0, start p0[0]
        committed p0@0 => p0 moves
        ",
    );
}

/// Two transactions that meet one outage count as one.
#[test]
fn two_faults_of_one_outage_count_once() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        outage p0@0 => p0 stands: outage
        outage p0@1
        wait 100 => check p0 0, start p0[0], start p0[1]
        ",
    );
}

/// An outage of one partition holds back no other.
#[test]
fn an_outage_pauses_no_other_partition() {
    check(
        "
        own p0 lanes=1 w=0
        own p1 lanes=1 w=0
        deliver p0 0a => start p0[0]
        outage p0@0 => p0 stands: outage
        deliver p1 0a => start p1[0]
        committed p1@0
        ",
    );
}

/// An idle partition that met an outage says that it moves again when the database answers, though no
/// event comes.
#[test]
fn an_outage_of_an_idle_partition_ends() {
    check(
        "
        limits idle=5000 watermark=1000
        own p0 lanes=2 w=0
        wait 999
        wait 1 => check p0 0
        written p0 outage => p0 stands: outage
        wait 100 => check p0 0
        written p0 => p0 moves
        ",
    );
}

/// A commit that was under way ends no pause: what met the outage still waits.
#[test]
fn a_commit_under_way_does_not_end_the_report() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        outage p0@0 => p0 stands: outage
        committed p0@1
        wait 100 => check p0 0, start p0[0]
        written p0 => p0 moves
        ",
    );
}

/// `RepeatedAloneCounts` (finding 13b): an event that alone meets a fault again and again while others
/// commit is at fault itself: an attempt is spent, and in the end it is parked. From then on each further one
/// counts, so that it is known how long the event can hold its lane.
#[test]
fn a_fault_met_alone_while_others_commit_counts() {
    check(
        "
        limits transactions=1
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        conflict p0@0
        deliver p0 1b => start p0[1]
        committed p0@1
        wait 10 => start p0[0]
        conflict p0@0
        deliver p0 2b => start p0[2]
        committed p0@2
        wait 10 => start p0[0]
        conflict p0@0
        wait 10
        wait 90 => careful p0[0]
        deliver p0 3b
        conflict p0@0 => start p0[3]
        committed p0@3
        wait 10 => careful p0[0]
        conflict p0@0
        wait 10
        wait 190 => careful p0[0]
        ",
    );
}

/// A session that breaks under one event, while another one works: its lane alone waits, as long as for an outage,
/// and the event is blamed though nobody else commits.
#[test]
fn a_session_that_breaks_under_one_event_holds_up_no_other() {
    check(
        "
        limits transactions=1
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        broken p0@0
        deliver p0 1b => start p0[1]
        committed p0@1
        wait 49
        wait 51 => start p0[0]
        broken p0@0
        wait 99
        wait 101 => start p0[0]
        broken p0@0
        wait 100 => careful p0[0]
        ",
    );
}

/// Finding 13b: a commit ends the row of faults; the next one begins at one again, with a short wait.
#[test]
fn a_commit_ends_a_row_of_faults() {
    check(
        "
        limits transactions=1
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        conflict p0@0
        deliver p0 1b => start p0[1]
        committed p0@1
        wait 10 => start p0[0]
        conflict p0@0
        wait 10 => start p0[0]
        committed p0@0
        deliver p0 2a => start p0[2]
        conflict p0@2
        wait 1 => start p0[2]
        deliver p0 3b
        conflict p0@2 => start p0[3]
        committed p0@3
        wait 10 => start p0[2]
        ",
    );
}

/// Finding 13b: where nothing else happens, the watermark's writes show that the database is well.
#[test]
fn a_fault_met_alone_counts_beside_idle_checks() {
    check(
        "
        limits transactions=1 idle=50 watermark=50
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        conflict p0@0
        wait 50 => start p0[0], check p0 0
        written p0
        conflict p0@0
        wait 49 => start p0[0]
        wait 1 => check p0 0
        written p0
        conflict p0@0
        wait 49
        wait 1 => check p0 0
        wait 50 => careful p0[0]
        ",
    );
}

/// `LockMetBesideItsHandler`: a table that a migration has locked. That events of other handlers commit shows that
/// the database is well, not what this handler works on. Once its own are applied each time-out counts.
#[test]
fn a_lock_that_meets_every_event_of_a_handler_is_no_events_fault() {
    let round = |at: u32, route: u32| {
        format!(
            "deliver p0 {at}b/{route} => start p0[{at}]\ncommitted p0@{at}\nwait 1000 => start p0[0]\nlocked p0@0\n"
        )
    };
    let others: String = (1..9).map(|at| round(at, 1)).collect();
    let own = round(9, 0);
    check(&format!(
        "
        limits transactions=1
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        locked p0@0
        {others}
        {own}
        deliver p0 10b => start p0[10]
        committed p0@10
        wait 1000 => start p0[0]
        locked p0@0
        wait 100 => careful p0[0]
        "
    ));
}

/// The same of a release, which counts beside live events of its handler.
#[test]
fn a_lock_that_meets_a_release_counts_beside_its_handler() {
    let round = |at: u32, route: u32, end: &str| {
        format!(
            "deliver p0 {at}b/{route} => start p0[{at}]\ncommitted p0@{at}\nwait 1000 => {end}\n"
        )
    };
    let again = "release p0 a:1\nreleased p0 a locked";
    let others: String = (1..9).map(|at| round(at, 1, again)).collect();
    let own = round(9, 0, again);
    let last = round(10, 0, "release p0 a:1\nreleased p0 a locked\nwait 1000 => blame p0 a");
    check(&format!(
        "
        limits look=100000 transactions=1 release=1
        own p0 lanes=2 w=0
        due p0 a => release p0 a:1
        released p0 a locked
        {others}
        {own}
        {last}
        "
    ));
}

/// What cannot be parked while somebody has locked the runtime's own tables is not parked with less of it.
#[test]
fn a_lock_in_the_way_of_parking_takes_nothing_from_the_event() {
    let round = |at: u32| {
        format!(
            "deliver p0 {at}b => start p0[{at}]\ncommitted p0@{at}\nwait 1000 => start p0[0:undecodable]\nlocked p0@0\n"
        )
    };
    let rounds: String = (1..9).map(round).collect();
    check(&format!(
        "
        limits transactions=1
        own p0 lanes=2 w=0
        deliver p0 0a! => start p0[0:undecodable]
        locked p0@0
        {rounds}
        "
    ));
}

/// A10: one commit of others, then a long outage: the event that waits is not at fault.
#[test]
fn an_outage_after_a_commit_of_others_does_not_count() {
    check(
        "
        own p0 lanes=1 w=0
        own p1 lanes=1 w=0
        deliver p0 0a => start p0[0]
        deliver p1 0a => start p1[0]
        outage p0@0 => p0 stands: outage
        committed p1@0
        wait 100 => check p0 0, start p0[0]
        written p0 outage => p0 stands: outage
        outage p0@0
        wait 1000 => check p0 0, start p0[0]
        written p0 outage
        outage p0@0
        wait 1000 => check p0 0, start p0[0]
        written p0 outage
        outage p0@0
        wait 1000 => check p0 0, start p0[0]
        written p0 outage
        outage p0@0
        wait 1000 => check p0 0, start p0[0]
        ",
    );
}

/// Parking that fails is nobody's fault: it is tried again, with a reason that people see, and the
/// reason of the doomed event stays.
#[test]
fn parking_that_fails_is_tried_again() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a! => start p0[0:undecodable]
        failed p0@0 unnamed => p0 stands: outage
        wait 100 => check p0 0, start p0[0:undecodable]
        failed p0@0 p0@0
        wait 200 => start p0[0:undecodable]
        ",
    );
}

/// `RefusedIsParkedBare`: what is refused again and again while others commit is at fault itself, be it that the
/// session breaks under it or that the database says no: it is parked with less of it.
#[test]
fn what_cannot_be_parked_alone_again_and_again_is_parked_bare() {
    check(
        "
        limits transactions=1
        own p0 lanes=2 w=0
        deliver p0 0a! => start p0[0:undecodable]
        broken p0@0
        wait 100 => start p0[0:undecodable]
        broken p0@0
        deliver p0 1b => start p0[1]
        committed p0@1
        wait 200 => start p0[0:undecodable]
        failed p0@0 p0@0
        wait 10 => start p0[0:undecodable:bare]
        outage p0@0 => p0 stands: outage
        wait 100 => check p0 0, start p0[0:undecodable:bare]
        committed p0@0 => p0 moves
        ",
    );
}

/// `RefusedIsParkedBare`: while nobody commits it is an outage, however often.
#[test]
fn what_cannot_be_parked_in_an_outage_stays_as_it_is() {
    check(
        "
        limits transactions=1
        own p0 lanes=1 w=0
        deliver p0 0a! => start p0[0:undecodable]
        outage p0@0 => p0 stands: outage
        wait 100 => check p0 0, start p0[0:undecodable]
        outage p0@0
        wait 200 => start p0[0:undecodable]
        outage p0@0
        wait 400 => start p0[0:undecodable]
        outage p0@0
        wait 800 => start p0[0:undecodable]
        ",
    );
}

/// `FaultsBeforeHandlersUncounted` (finding 30): an id that another transaction holds, a database that refuses
/// the claim: nobody's fault, however often, alone, and beside commits of others.
#[test]
fn a_fault_before_the_first_handler_never_counts() {
    check(
        "
        limits transactions=1
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        blocked p0@0
        deliver p0 1b => start p0[1]
        committed p0@1
        wait 10 => start p0[0]
        blocked p0@0
        deliver p0 2b => start p0[2]
        committed p0@2
        wait 10 => start p0[0]
        blocked p0@0
        deliver p0 3b => start p0[3]
        committed p0@3
        wait 10 => start p0[0]
        unreached p0@0 => p0 stands: outage
        wait 100 => check p0 0, start p0[0]
        committed p0@0 => p0 moves
        ",
    );
}
