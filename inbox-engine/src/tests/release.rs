//! Releases: looking for due queues, the lane they reserve, their turn beside live transactions.

use super::script::check;

/// Finding 4: a queue that is due is released, in its lane, by the owner.
#[test]
fn a_due_queue_is_released() {
    check(
        "
        limits look=1000
        own p0 lanes=2 w=0
        due p0 a b => release p0 a:4, release p0 b:4
        released p0 a
        released p0 b
        wait 999
        wait 1 => look p0
        ",
    );
}

/// Nothing is looked for while that is switched off, and nothing but the owner looks.
#[test]
fn who_does_not_own_or_shall_not_look_does_not() {
    check(
        "
        own p0 lanes=1 w=0
        wait 5000
        limits look=1000
        assign p1 => p1 stands: taking_over, take p1
        wait 0 => look p0
        wait 5000
        taken p1 lanes=1 w=0 => seek p1@0
        wait 1000
        sought p1 => resume p1, p1 moves
        wait 0 => commit p1@0, look p1
        ",
    );
}

/// The first look is made as soon as the partition is at work; one look at a time.
#[test]
fn one_look_is_under_way() {
    check(
        "
        limits look=1000
        assign p0 => p0 stands: taking_over, take p0
        taken p0 lanes=1 w=0 => seek p0@0
        sought p0 => resume p0, p0 moves
        wait 0 => commit p0@0, look p0
        wait 10000
        due p0 => look p0
        ",
    );
}

/// `ReleaseReservesLane` (engine rule 2, finding 4): while a release is open no live transaction has its lane;
/// other lanes go on.
#[test]
fn a_release_reserves_its_lane() {
    check(
        "
        limits look=1000 transactions=4
        own p0 lanes=2 w=0
        due p0 a => release p0 a:4
        deliver p0 0a
        deliver p0 1b => start p0[1]
        released p0 a => start p0[0]
        ",
    );
}

/// Engine rule 2: and a release waits for the live transaction of its lane.
#[test]
fn a_release_waits_for_its_lane() {
    check(
        "
        limits look=1000 transactions=4
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        due p0 a b => release p0 b:4
        committed p0@0 => release p0 a:4
        ",
    );
}

/// Queues of one lane are released one after the other, each in its turn.
#[test]
fn queues_of_a_lane_take_turns() {
    check(
        "
        limits look=1000 transactions=4
        own p0 lanes=1 w=0
        due p0 a a2 a3 => release p0 a:4
        released p0 a more => release p0 a2:4
        released p0 a2 => release p0 a3:4
        released p0 a3 more => release p0 a:4
        released p0 a => release p0 a3:4
        released p0 a3
        ",
    );
}

/// `ReleaseDrains` (finding 19): two releases to each live transaction, which takes no more events of
/// the lane than one release does; when the queue is empty, everything goes at once.
#[test]
fn a_queue_empties_under_load() {
    check(
        "
        limits look=1000 transactions=1 release=2
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        due p0 a
        deliver p0 1a 2a 3a 4a 5a 6a
        committed p0@0 => release p0 a:2
        released p0 a more => release p0 a:2
        released p0 a more => start p0[1 2]
        committed p0@1 => release p0 a:2
        released p0 a more => release p0 a:2
        released p0 a => start p0[3 4 5 6]
        ",
    );
}

/// Finding 19: only the draining lane's part of a transaction is small.
#[test]
fn a_draining_lane_makes_no_other_small() {
    check(
        "
        limits look=1000 transactions=1 release=1
        own p0 lanes=2 w=0
        deliver p0 0b => start p0[0]
        due p0 a
        deliver p0 1a 2a 3b 4b 5b
        committed p0@0 => release p0 a:1
        released p0 a more => start p0[3 4 5]
        committed p0@3 => release p0 a:1
        deliver p0 6b 7b
        released p0 a more => start p0[1 | 6 7]
        committed p0@1 => release p0 a:1
        ",
    );
}

/// Releases are transactions: together with live ones there are as many as there are connections.
#[test]
fn releases_count_as_transactions() {
    check(
        "
        limits look=1000 transactions=2
        own p0 lanes=4 w=0
        deliver p0 0a => start p0[0]
        due p0 b c d => release p0 b:4
        released p0 b => release p0 c:4
        committed p0@0 => release p0 d:4
        ",
    );
}

/// A queue that is known is not remembered twice, nor one whose release is open.
#[test]
fn a_queue_is_remembered_once() {
    check(
        "
        limits look=1000 transactions=1 drain=100000
        own p0 lanes=2 w=0
        due p0 b a a => release p0 b:4
        wait 1000 => look p0
        due p0 b a
        released p0 b => release p0 a:4
        released p0 a
        ",
    );
}

/// An answer as long as it may be is followed by the next look as soon as its queues are being
/// released, not after the whole interval.
#[test]
fn a_full_answer_is_followed_by_the_next_look() {
    check(
        "
        limits look=1000 due=2 transactions=1
        own p0 lanes=3 w=0
        due p0 a b => release p0 a:4
        released p0 a => release p0 b:4, look p0
        due p0 c
        released p0 b => release p0 c:4
        released p0 c
        wait 999
        wait 1 => look p0
        ",
    );
}

/// A full answer with nothing new in it is no reason to ask at once, and nor is one whose releases
/// removed nothing: the next would be the same.
#[test]
fn the_same_answer_again_is_not_asked_for_at_once() {
    check(
        "
        limits look=1000 due=1 transactions=1
        own p0 lanes=3 w=0
        due p0 a => release p0 a:4
        released p0 a nothing
        wait 999
        wait 1 => look p0
        due p0 a => release p0 a:4
        wait 1000 => look p0
        due p0 a
        released p0 a
        wait 999
        wait 1 => look p0
        ",
    );
}

/// No more queues are remembered than the limit says, and none is looked for while there are so many.
#[test]
fn remembered_queues_are_bounded() {
    check(
        "
        limits look=1000 due=2 transactions=1 drain=100000
        own p0 lanes=4 w=0
        deliver p0 0d => start p0[0]
        due p0 a b c
        see p0 => w=0 kafka=0 position=1 waiting=1 open=1 bytes=1 due=2
        wait 5000
        committed p0@0 => release p0 a:4, look p0
        due p0 b c
        released p0 a => release p0 b:4
        released p0 b => release p0 c:4, look p0
        ",
    );
}

/// Where no more queues can be remembered, one that is still due gives way to what the next look
/// brings, or the queues of one lane would keep those of another unknown.
#[test]
fn a_lane_with_many_queues_gives_way() {
    check(
        "
        limits look=1000 due=2 transactions=1
        own p0 lanes=2 w=0
        due p0 a a2 => release p0 a:4
        released p0 a more => release p0 a2:4, look p0
        due p0 b a
        released p0 a2 => release p0 b:4
        released p0 b => release p0 a:4, look p0
        released p0 a more => release p0 a:4
        ",
    );
}

/// A queue that rests lets others of its lane pass.
#[test]
fn a_queue_that_rests_lets_others_pass() {
    check(
        "
        limits look=1000
        own p0 lanes=1 w=0
        due p0 a => release p0 a:4
        wait 1000 => look p0
        released p0 a conflict
        due p0 a2 => release p0 a2:4
        ",
    );
}

/// A queue whose head failed has a time of its own: it comes with a later look.
#[test]
fn a_queue_that_is_due_no_more_is_forgotten() {
    check(
        "
        limits look=1000
        own p0 lanes=1 w=0
        due p0 a => release p0 a:4
        released p0 a
        wait 1000 => look p0
        due p0 a => release p0 a:4
        ",
    );
}

/// `ConflictUncounted`: a release that met a conflict goes again after a moment, with half its events;
/// others of its lane, and the lane itself, go on.
#[test]
fn a_conflict_makes_a_release_wait() {
    check(
        "
        limits look=1000
        own p0 lanes=1 w=0
        due p0 a a2 => release p0 a:4
        released p0 a conflict => release p0 a2:4
        deliver p0 0a
        released p0 a2 => start p0[0]
        committed p0@0
        wait 1 => release p0 a:2
        released p0 a conflict
        wait 2 => release p0 a:1
        released p0 a conflict
        wait 1
        wait 3 => release p0 a:1
        released p0 a more => release p0 a:2
        released p0 a more => release p0 a:4
        ",
    );
}

/// `RepeatedAloneCounts` (finding 13b): the head of a queue that alone meets a fault again and again,
/// while others commit, is blamed for it: the database counts a failure.
#[test]
fn a_head_that_meets_faults_alone_is_blamed() {
    check(
        "
        limits look=1000 transactions=1 release=1
        own p0 lanes=2 w=0
        due p0 a => release p0 a:1
        released p0 a conflict
        deliver p0 0b => start p0[0]
        committed p0@0
        wait 10 => release p0 a:1
        released p0 a conflict
        deliver p0 1b => start p0[1]
        committed p0@1
        wait 10 => release p0 a:1
        deliver p0 2b
        released p0 a outage => start p0[2]
        committed p0@2 => blame p0 a
        released p0 a
        ",
    );
}

/// `FaultsBeforeHandlersUncounted` (finding 30): rows that another transaction holds are not the head's fault.
#[test]
fn a_head_that_another_transaction_blocks_is_not_blamed() {
    check(
        "
        limits look=1000 transactions=1 release=1
        own p0 lanes=2 w=0
        due p0 a => release p0 a:1
        released p0 a blocked
        deliver p0 0b => start p0[0]
        committed p0@0
        wait 10 => release p0 a:1
        released p0 a blocked
        deliver p0 1b => start p0[1]
        committed p0@1
        wait 10 => release p0 a:1
        deliver p0 2b
        released p0 a blocked => start p0[2]
        committed p0@2
        wait 10 => release p0 a:1
        ",
    );
}

/// `ConflictUncounted`: while nothing else commits, a head is blamed for nothing.
#[test]
fn a_head_that_meets_faults_while_nothing_commits_is_not_blamed() {
    check(
        "
        limits look=1000 release=1
        own p0 lanes=2 w=0
        due p0 a => release p0 a:1
        released p0 a conflict
        wait 10 => release p0 a:1
        released p0 a conflict
        wait 10 => release p0 a:1
        released p0 a conflict
        wait 10 => release p0 a:1
        released p0 a conflict
        wait 10 => release p0 a:1
        ",
    );
}

/// Nor is it while it is not alone: of several events any may be at fault.
#[test]
fn a_head_among_others_is_not_blamed() {
    check(
        "
        limits look=1000 transactions=1 release=16
        own p0 lanes=2 w=0
        due p0 a => release p0 a:16
        released p0 a conflict
        deliver p0 0b => start p0[0]
        committed p0@0
        wait 10 => release p0 a:8
        released p0 a conflict
        deliver p0 1b => start p0[1]
        committed p0@1
        wait 10 => release p0 a:4
        released p0 a conflict
        deliver p0 2b => start p0[2]
        committed p0@2
        wait 10 => release p0 a:2
        released p0 a conflict
        deliver p0 3b => start p0[3]
        committed p0@3
        wait 10 => release p0 a:1
        ",
    );
}

/// A release that only writes the blame down can meet an outage as any other, and keeps the blame.
#[test]
fn a_blame_is_kept_through_an_outage() {
    check(
        "
        limits look=1000 transactions=1 release=1
        own p0 lanes=2 w=0
        due p0 a => release p0 a:1
        released p0 a conflict
        deliver p0 0b => start p0[0]
        committed p0@0
        wait 10 => release p0 a:1
        released p0 a conflict
        deliver p0 1b => start p0[1]
        committed p0@1
        wait 10 => release p0 a:1
        released p0 a conflict
        wait 10 => blame p0 a
        released p0 a outage => p0 stands: outage
        wait 100 => write p0 0>2, blame p0 a
        released p0 a more => p0 moves, release p0 a:1
        ",
    );
}

/// `RepeatedAloneCounts`: releases that commit are a sign of life of the database, too.
#[test]
fn releases_are_commits_of_others() {
    check(
        "
        limits look=1000 transactions=1
        own p0 lanes=2 w=0
        deliver p0 0b => start p0[0]
        due p0 a
        conflict p0@0 => release p0 a:4
        released p0 a more => release p0 a:4
        wait 10
        released p0 a more => start p0[0]
        conflict p0@0 => release p0 a:4
        wait 10
        released p0 a more => start p0[0]
        conflict p0@0 => release p0 a:4
        released p0 a
        wait 40
        wait 60 => careful p0[0]
        ",
    );
}

/// `OutageUncounted` (A10): an outage during a release pauses the partition as any other does, and the
/// release is tried again after it.
#[test]
fn an_outage_of_a_release_pauses_the_partition() {
    check(
        "
        limits look=1000 transactions=1
        own p0 lanes=2 w=0
        due p0 a => release p0 a:4
        deliver p0 0b
        released p0 a outage => p0 stands: outage
        wait 49
        wait 51 => check p0 0, start p0[0]
        committed p0@0 => p0 moves, release p0 a:2
        released p0 a
        ",
    );
}

/// An outage that only a release met is over when a release succeeds.
#[test]
fn a_release_ends_an_outage() {
    check(
        "
        limits look=1000
        own p0 lanes=2 w=0
        due p0 a => release p0 a:4
        released p0 a outage => p0 stands: outage
        wait 100 => check p0 0, release p0 a:2
        released p0 a => p0 moves
        ",
    );
}

/// A look that failed is an outage: it pauses the partition, and is repeated when that is over.
#[test]
fn a_look_that_fails_is_an_outage() {
    check(
        "
        limits look=5000
        own p0 lanes=2 w=0
        due p0 refused => p0 stands: outage
        deliver p0 0b
        wait 100 => check p0 0, start p0[0], look p0
        due p0 a => release p0 a:4
        ",
    );
}

/// A partition that is paused for an outage starts no release.
#[test]
fn no_release_during_an_outage() {
    check(
        "
        limits look=1000
        own p0 lanes=2 w=0
        deliver p0 0b => start p0[0]
        outage p0@0 => p0 stands: outage
        due p0 a
        wait 49
        wait 51 => check p0 0, start p0[0], release p0 a:4
        ",
    );
}

/// A revoked partition starts no release and looks for none; it waits for the open one.
#[test]
fn a_revoked_partition_finishes_its_release() {
    check(
        "
        limits look=1000
        own p0 lanes=2 w=0
        due p0 a a2 => release p0 a:4
        wait 1000 => look p0
        revoke p0 => pause p0
        due p0 b b2
        see p0 => w=0 kafka=0 position=0 waiting=0 open=1 bytes=0 due=1
        wait 1500
        released p0 a more => check p0 0
        ",
    );
}

/// A partition that waits for a person starts no release.
#[test]
fn a_stopped_partition_releases_nothing() {
    check(
        "
        limits look=1000
        own p0 lanes=2 w=0
        gone p0 => pause p0, p0 stands: log_starts_above
        due p0 a
        see p0 => w=0 kafka=0 position=0 waiting=0 open=0 bytes=0
        wait 5000
        ",
    );
}

/// `GenerationChecked`: a resync forgets what is due, and what comes late changes nothing but the
/// number of open transactions.
#[test]
fn a_resync_forgets_what_is_due() {
    check(
        "
        limits look=1000 transactions=2
        own p0 lanes=2 w=0
        due p0 a a2 b => release p0 a:4, release p0 b:4
        wait 1000 => look p0
        released p0 a fenced => pause p0, p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=2 w=0 => abort p0, seek p0@0
        sought p0 => resume p0, p0 moves
        wait 0 => look p0
        due p0 late b2
        due p0 a b => release p0 a:4
        released p0 b more old => release p0 b:4
        released p0 a
        released p0 b
        ",
    );
}

/// `UnknownCommitResyncs` (finding 16): whether a release committed must be known.
#[test]
fn an_unknown_outcome_of_a_release_resyncs() {
    check(
        "
        limits look=1000
        own p0 lanes=2 w=0
        due p0 a => release p0 a:4
        released p0 a unknown => pause p0, p0 stands: taking_over, confirm p0
        ",
    );
}
