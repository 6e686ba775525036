//! The watermark, its checks, and the Kafka commits that follow it.

use super::script::check;

/// `WatermarkIsPrefix` (A1, C1): the end of the settled prefix, not the highest offset settled.
#[test]
fn the_watermark_is_the_end_of_the_settled_prefix() {
    check(
        "
        limits watermark=1000
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b 2a => start p0[1]
        committed p0@1
        wait 1000 => check p0 0
        written p0
        committed p0@0 => start p0[2]
        wait 1000 => write p0 0>2
        written p0 => commit p0@2
        ",
    );
}

/// `WatermarkPassesGaps` (E1): offsets that never arrive hold nothing back.
#[test]
fn the_watermark_passes_gaps() {
    check(
        "
        limits watermark=1000
        own p0 lanes=2 w=0
        deliver p0 3a~0 7b~1 => start p0[3 | 7]
        committed p0@3
        wait 1000 => write p0 0>8~1
        ",
    );
}

/// E1, D2: before an unsettled event the watermark stays behind the last settled one: the leader epoch
/// there is known, and a wrong one would look like a truncated log.
#[test]
fn the_watermark_has_the_leader_epoch_of_its_record() {
    check(
        "
        limits watermark=1000
        own p0 lanes=2 w=0
        deliver p0 3a~0 => start p0[3]
        deliver p0 7b~1 => start p0[7]
        committed p0@3
        wait 1000 => write p0 0>4
        ",
    );
}

/// E1: transaction markers at the end of the log: the position says that nothing is to come; the
/// leader epoch there is not known, and is not guessed (D2).
#[test]
fn the_watermark_moves_to_the_position() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        position p0@3
        wait 1000 => check p0 0
        written p0
        committed p0@0
        wait 1000 => write p0 0>3~-1 record 1
        written p0 => commit p0@3~-1
        ",
    );
}

/// What was settled before and is read again moves the watermark, with its leader epoch (D2).
#[test]
fn the_watermark_passes_what_was_settled_before() {
    check(
        "
        limits watermark=1000
        own p0 last=6,9 le=4 wle=2 w=5
        deliver p0 5a~3 6a~3 9b~4
        wait 1000 => write p0 5>10~4
        ",
    );
}

/// D14, D2: the Kafka commit carries the leader epoch of its own offset.
#[test]
fn a_commit_carries_the_leader_epoch_of_its_offset() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=5 uncommitted
        wait 1000 => check p0 5, commit p0@5
        acked fails
        written p0 => commit p0@5
        acked fails
        deliver p0 5a~1 => start p0[5]
        committed p0@5
        wait 1000 => write p0 5>6~1, commit p0@5
        acked fails
        written p0 => commit p0@6~1
        ",
    );
}

/// `IdleCheck` (finding 15, B1): the lanes of an idle partition are validated by the long interval; what
/// the database lost is noticed.
#[test]
fn an_idle_partition_is_checked() {
    check(
        "
        limits watermark=1000 idle=5000
        own p0 lanes=1 w=5
        wait 1000 => check p0 5
        written p0
        wait 4999
        wait 1 => check p0 5
        written p0 fenced => pause p0, p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=3 => seek p0@3
        sought p0 => resume p0, p0 moves
        ",
    );
}

/// B2, finding 15: a watermark that is refused means that memory is not true: resync.
#[test]
fn a_refused_watermark_resyncs() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        committed p0@0
        wait 1000 => write p0 0>1
        written p0 fenced => pause p0, p0 stands: taking_over, confirm p0
        ",
    );
}

/// C10: the answer to a write of an earlier generation changes nothing.
#[test]
fn a_written_watermark_of_an_earlier_generation_changes_nothing() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        committed p0@0
        wait 1000 => write p0 0>1
        deliver p0 1a => start p0[1]
        unknown p0@1 => pause p0, p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=0 => seek p0@0
        sought p0 => resume p0, p0 moves
        written p0
        see p0 => w=0 kafka=0 position=0 waiting=0 open=0 bytes=0
        ",
    );
}

/// One watermark write per partition is under way.
#[test]
fn one_watermark_write_is_under_way() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        committed p0@0
        wait 1000 => write p0 0>1
        deliver p0 1a => start p0[1]
        committed p0@1
        wait 10000
        written p0 => commit p0@1
        wait 1 => write p0 1>2
        ",
    );
}

/// `KafkaFollowsWatermark` (B1, D15): Kafka is told only what the database holds.
#[test]
fn kafka_follows_the_watermark() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=5 uncommitted
        wait 1000 => check p0 5, commit p0@5
        written p0
        acked
        deliver p0 5a 6a => start p0[5 6]
        committed p0@5
        wait 1000 => write p0 5>7
        wait 5000
        written p0 => commit p0@7
        ",
    );
}

/// `OneCommitInFlight` (D14): one Kafka commit at a time, over all partitions. What was written
/// meanwhile follows at once: it would be a second late.
#[test]
fn one_kafka_commit_is_in_flight() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=5 uncommitted
        own p1 lanes=1 w=2 uncommitted
        wait 1000 => check p0 5, check p1 2, commit p0@5 p1@2
        written p0
        written p1
        deliver p0 5a => start p0[5]
        committed p0@5
        wait 1000 => write p0 5>6
        written p0
        wait 5000
        acked => commit p0@6
        acked
        ",
    );
}

/// D14, D8: a Kafka commit never goes backwards, also when the database did, and also when the answer
/// to the higher one was lost.
#[test]
fn a_kafka_commit_never_goes_backwards() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=9 uncommitted
        wait 1000 => check p0 9, commit p0@9
        acked fails
        written p0 fenced => pause p0, p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=5 => seek p0@5
        sought p0 => resume p0, p0 moves
        deliver p0 5a => start p0[5]
        committed p0@5
        wait 1000 => write p0 5>6
        written p0
        deliver p0 6a 8a => start p0[6 8]
        committed p0@6
        wait 1000 => write p0 6>9
        written p0 => commit p0@9
        ",
    );
}

/// D14, C16: a drain whose commit would go backwards does not wait for one.
#[test]
fn a_drain_does_not_wait_for_a_commit_that_would_go_back() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=9 uncommitted
        wait 1000 => check p0 9, commit p0@9
        acked fails
        written p0 fenced => pause p0, p0 stands: taking_over, confirm p0
        confirmed p0 yes => take p0
        taken p0 lanes=1 w=5 => seek p0@5
        sought p0 => resume p0, p0 moves
        revoke p0 => pause p0, check p0 5
        written p0 => let go p0
        ",
    );
}

/// D7: a Kafka commit that failed is followed by the next one.
#[test]
fn a_failed_kafka_commit_is_followed_by_the_next() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=5 uncommitted
        wait 1000 => check p0 5, commit p0@5
        acked fails
        written p0 => commit p0@5
        acked
        ",
    );
}

/// Partitions that were taken over at different times write together after a while: one transaction of the
/// caller's, instead of one for each.
#[test]
fn partitions_write_their_watermarks_together() {
    check(
        "
        limits watermark=1000 idle=1000
        own p0 lanes=1 w=0
        wait 300
        own p1 lanes=1 w=0
        wait 400
        own p2 lanes=1 w=0
        wait 300 => check p0 0, check p1 0
        written p0
        written p1
        wait 700 => check p0 0, check p1 0, check p2 0
        written p0
        written p1
        written p2
        wait 1000 => check p0 0, check p1 0, check p2 0
        ",
    );
}

/// One partition that Kafka refuses a commit of keeps no other back, and is tried again with its next write.
#[test]
fn a_refused_partition_keeps_no_other_back() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=0
        own p1 lanes=1 w=0
        deliver p0 0a => start p0[0]
        deliver p1 0a => start p1[0]
        committed p0@0
        committed p1@0
        wait 1000 => write p0 0>1, write p1 0>1
        written p0 => commit p0@1
        deliver p0 1a => start p0[1]
        committed p0@1
        written p1
        wait 1000 => write p0 1>2
        written p0
        acked => commit p0@2 p1@1
        refused p0 => commit p0@2
        acked refused
        see p0 => w=2 kafka=1 position=2 waiting=0 open=0 bytes=0
        see p1 => w=1 kafka=1 position=1 waiting=0 open=0 bytes=0
        ",
    );
}

/// `StandstillSeenFromOutside`: a reason that clocks and offsets show is told, ends with them, and gives way to
/// what the engine knows itself.
#[test]
fn a_standstill_seen_from_outside_is_told() {
    check(
        "
        limits watermark=1000
        own p0 lanes=1 w=0
        seen p0 slow => p0 stands: no_progress
        seen p0 slower
        seen p0 => p0 moves
        seen p0 slow => p0 stands: no_progress
        deliver p0 0a => start p0[0]
        outage p0@0 => p0 stands: outage
        seen p0 slow
        seen p0
        ",
    );
}
