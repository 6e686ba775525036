//! Revoked, lost, shut down: what is finished, what is given up, and in which order.

use super::script::check;

/// C16, C17, D5: revoked: no new transaction; the open ones finish; the watermark is written; Kafka is
/// committed to; the partition is let go.
#[test]
fn a_revoked_partition_finishes_its_work() {
    check(
        "
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1a 2b => start p0[2]
        revoke p0 => pause p0
        committed p0@2
        committed p0@0 => write p0 0>1
        written p0 => commit p0@1
        acked => let go p0
        ",
    );
}

/// `DrainDeadline` (C16): what is still open at the deadline is given up; the epoch fences it.
#[test]
fn a_drain_ends_at_its_deadline() {
    check(
        "
        limits drain=5000
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        revoke p0 => pause p0
        wait 4999
        wait 1 => abort p0, let go p0
        committed p0@0
        see p0 => nothing
        ",
    );
}

/// `GivenUpAborted` (finding 30): a lost partition's open transactions may still end well until the drain
/// deadline; then they are given up, as they hold ids that the next owner waits for.
#[test]
fn what_a_lost_partition_leaves_is_given_up() {
    check(
        "
        limits drain=5000
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        lost p0
        wait 4000
        committed p0@0
        wait 999
        wait 1 => abort p0
        outage p0@1
        wait 10000
        ",
    );
}

/// `GivenUpAborted`: nothing is given up that has ended by itself.
#[test]
fn what_has_ended_is_not_given_up() {
    check(
        "
        limits drain=5000
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        lost p0
        committed p0@0
        wait 10000
        ",
    );
}

/// `GivenUpAborted` (finding 30): once the partition is taken over anew, what was open before can commit
/// no more, and its own successors would wait for its ids.
#[test]
fn a_resync_gives_up_what_was_open_before() {
    check(
        "
        limits drain=5000
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        fenced p0@0 => pause p0, p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=2 w=0 => abort p0, seek p0@0
        outage p0@1
        sought p0 => resume p0, p0 moves
        ",
    );
}

/// `GivenUpAborted`: another process has the partition, so it is not taken over anew; what is open ends all
/// the same.
#[test]
fn a_fenced_partition_gives_up_what_is_open_at_the_deadline() {
    check(
        "
        limits drain=500
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        fenced p0@0 => pause p0, p0 stands: taking_over, confirm p0
        wait 499
        wait 1 => abort p0
        ",
    );
}

/// `GivenUpAborted`: a release is given up as a live transaction is.
#[test]
fn a_release_is_given_up_at_the_deadline() {
    check(
        "
        limits drain=500 look=1000
        own p0 lanes=2 w=0
        due p0 a => release p0 a:4
        revoke p0 => pause p0
        wait 500 => abort p0, let go p0
        released p0 a outage
        ",
    );
}

/// C16: the deadline counts for the last watermark and the last commit too.
#[test]
fn a_drain_ends_at_its_deadline_whatever_it_waits_for() {
    check(
        "
        limits drain=5000
        own p0 lanes=1 w=0
        own p1 lanes=1 w=0
        deliver p1 0a => start p1[0]
        committed p1@0
        revoke p0 p1 => pause p0, pause p1, check p0 0, write p1 0>1
        written p1 => commit p1@1
        wait 5000 => let go p0 p1
        written p0
        acked
        ",
    );
}

/// A revocation is answered as a whole, with exactly its partitions.
#[test]
fn a_revocation_is_answered_as_a_whole() {
    check(
        "
        own p0 lanes=1 w=0
        own p1 lanes=1 w=0
        own p2 lanes=1 w=0
        deliver p1 0a => start p1[0]
        revoke p0 p1 => pause p0, pause p1, check p0 0
        written p0
        deliver p2 0a => start p2[0]
        committed p1@0 => write p1 0>1
        written p1 => commit p1@1
        acked => let go p0 p1
        ",
    );
}

/// A revoked partition that is not at work (take-over, seek, resync, stopped) is let go at once.
#[test]
fn a_partition_that_is_not_at_work_is_let_go_at_once() {
    check(
        "
        assign p0 p1 p2 => p0 stands: taking_over, take p0, p1 stands: taking_over, take p1, p2 stands: taking_over, take p2
        taken p1 lanes=1 w=0 => seek p1@0
        revoke p0 p1 => let go p0 p1
        taken p0 lanes=1 w=0
        sought p1
        taken p2 stop => p2 stands: lane_rule
        revoke p2 => let go p2
        ",
    );
}

/// A seek that ends while the rest of its revocation drains starts nothing.
#[test]
fn a_draining_partition_is_not_read() {
    check(
        "
        own p0 lanes=1 w=0
        assign p1 p2 => p1 stands: taking_over, take p1, p2 stands: taking_over, take p2
        taken p1 lanes=1 w=0 => seek p1@0
        deliver p0 0a => start p0[0]
        revoke p0 p1 p2 => pause p0
        sought p1
        taken p2 lanes=1 w=0
        deliver p1 0a
        wait 5000 => abort p0, let go p0 p1 p2
        ",
    );
}

/// Drain while resyncing: a fault in the last transaction, and the partition is let go, not taken over.
#[test]
fn a_draining_partition_is_not_taken_over_again() {
    check(
        "
        own p0 lanes=2 w=0
        own p1 lanes=1 w=0
        deliver p0 0a => start p0[0]
        deliver p1 0a => start p1[0]
        fenced p0@0 => pause p0, p0 stands: taking_over, confirm p0
        revoke p0 p1 => pause p1
        confirmed p0 yes
        committed p1@0 => write p1 0>1
        written p1 => commit p1@1
        acked => let go p0 p1
        ",
    );
}

/// Drain: the last transaction comes back fenced or unknown, the last watermark too.
#[test]
fn a_fence_while_draining_lets_go() {
    check(
        "
        own p0 lanes=1 w=0
        own p1 lanes=1 w=0
        deliver p0 0a => start p0[0]
        revoke p0 => pause p0
        unknown p0@0 => p0 stands: taking_over, let go p0
        revoke p1 => pause p1, check p1 0
        written p1 fenced => p1 stands: taking_over, let go p1
        ",
    );
}

/// A10, C16: failed work of a draining partition is not started again.
#[test]
fn failed_work_of_a_draining_partition_is_left() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a 1a => start p0[0 1]
        revoke p0 => pause p0
        failed p0@0 p0@0 => check p0 0
        wait 200
        written p0 outage => p0 stands: outage, let go p0
        ",
    );
}

/// D7: a Kafka commit that fails is a hint that came late; a drain does not wait for another.
#[test]
fn a_failed_last_commit_lets_go() {
    check(
        "
        own p0 lanes=1 w=5 uncommitted
        revoke p0 => pause p0, check p0 5
        written p0 => commit p0@5
        acked fails => let go p0
        ",
    );
}

/// A commit that was under way when the drain began is not the last one.
#[test]
fn a_commit_under_way_is_not_the_last_one() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=0 uncommitted
        wait 1000 => check p0 0, commit p0@0
        written p0
        deliver p0 0a => start p0[0]
        committed p0@0
        revoke p0 => pause p0, write p0 0>1
        written p0
        acked fails => commit p0@1
        acked => let go p0
        ",
    );
}

/// `LostCommitsNothing` (D5, C9): lost is gone: nothing is written or committed any more.
#[test]
fn a_lost_partition_commits_nothing() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        lost p0
        committed p0@0
        wait 10000
        see p0 => nothing
        ",
    );
}

/// D5: lost in the middle of a revocation: the rest of it is answered.
#[test]
fn a_partition_lost_while_draining_is_left_out_of_the_answer() {
    check(
        "
        own p0 lanes=1 w=0
        own p1 lanes=1 w=0
        deliver p0 0a => start p0[0]
        revoke p0 p1 => pause p0, pause p1, check p1 0
        lost p0
        written p1 => let go p1
        committed p0@0
        ",
    );
}

/// What is not ours is let go at once: the group waits for an answer.
#[test]
fn a_partition_that_is_unknown_is_let_go_at_once() {
    check(
        "
        revoke p0 => let go p0
        ",
    );
}

/// C17: shutdown: fetch ends, open transactions finish, watermark, Kafka commit, let go, close.
#[test]
fn a_shutdown_drains_then_closes() {
    check(
        "
        own p0 lanes=1 w=0
        own p1 lanes=1 w=3
        deliver p0 0a 1a => start p0[0 1]
        shutdown => pause p0, pause p1, check p1 3
        written p1
        committed p0@0 => write p0 0>2
        written p0 => commit p0@2
        acked => let go p0 p1, close
        ",
    );
}

/// C17: without partitions there is nothing to wait for.
#[test]
fn an_idle_shutdown_closes_at_once() {
    check(
        "
        shutdown => close
        ",
    );
}

/// C17: a shutdown during a revocation answers that one too, and no partition twice.
#[test]
fn a_shutdown_during_a_revocation_answers_both() {
    check(
        "
        own p0 lanes=1 w=0
        own p1 lanes=1 w=0
        deliver p0 0a => start p0[0]
        revoke p0 => pause p0
        shutdown => pause p1, check p1 0
        written p1 => let go p1
        committed p0@0 => write p0 0>1
        written p0 => commit p0@1
        acked => let go p0, close
        ",
    );
}

/// C17: a revocation during a shutdown is answered with exactly its partitions.
#[test]
fn a_revocation_during_a_shutdown_is_answered() {
    check(
        "
        own p0 lanes=1 w=0
        own p1 lanes=1 w=0
        deliver p1 0a => start p1[0]
        shutdown => pause p0, pause p1, check p0 0
        revoke p0
        written p0 => let go p0
        committed p1@0 => write p1 0>1
        written p1 => commit p1@1
        acked => let go p1, close
        ",
    );
}

/// C17: what is assigned during a shutdown is left alone, and holds nothing up.
#[test]
fn an_assignment_during_a_shutdown_is_left_alone() {
    check(
        "
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        shutdown => pause p0
        assign p1
        lost p0 => abort p0, close
        revoke p1 => let go p1
        ",
    );
}

/// C17: with a database that does not answer, the shutdown ends at the deadline.
#[test]
fn a_shutdown_ends_at_its_deadline() {
    check(
        "
        limits drain=5000
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        shutdown => pause p0
        wait 5000 => abort p0, let go p0, close
        ",
    );
}
