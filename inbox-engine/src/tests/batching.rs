//! Natural batching: what gathers, what starts together, what is too much.

use super::script::check;

/// A1, A14: events gather while a transaction runs; when one ends, the next carries them all.
#[test]
fn events_gather_while_transactions_run() {
    check(
        "
        limits transactions=1
        own p0 lanes=3 w=5
        deliver p0 5a => start p0[5]
        deliver p0 6b
        deliver p0 7c 8b 9b
        committed p0@5 => start p0[6 8 9 | 7]
        committed p0@6
        see p0 => w=5 kafka=5 position=10 waiting=0 open=0 bytes=0
        ",
    );
}

/// `LaneOrder` (C1, finding 4): a lane is in one open transaction at most, however many could be open.
#[test]
fn a_lane_is_in_one_transaction_at_most() {
    check(
        "
        own p0 lanes=2 w=5
        deliver p0 5a => start p0[5]
        deliver p0 6a
        deliver p0 7b => start p0[7]
        deliver p0 8a 9b
        committed p0@7 => start p0[9]
        committed p0@5 => start p0[6 8]
        ",
    );
}

/// The lanes that have waited longest start first, over all partitions.
#[test]
fn the_lane_that_waited_longest_starts_first() {
    check(
        "
        limits transactions=1
        own p0 lanes=3 w=0
        own p1 lanes=3 w=0
        deliver p0 0a => start p0[0]
        deliver p1 0b
        deliver p0 1c
        deliver p1 1a
        deliver p0 2b
        committed p0@0 => start p1[1 | 0]
        committed p1@0 => start p0[2 | 1]
        ",
    );
}

/// What goes on after its transaction has waited for a shorter time than what arrived during it.
#[test]
fn what_goes_on_queues_behind_what_came() {
    check(
        "
        limits transactions=1
        own p0 lanes=1 w=0
        own p1 lanes=1 w=0
        deliver p1 0a => start p1[0]
        deliver p1 1a
        deliver p0 0a
        committed p1@0 => start p0[0]
        deliver p0 1a
        committed p0@0 => start p1[1]
        ",
    );
}

/// `batch_events_max`: lanes start in the order of their waits until the batch is full; the rest of a
/// lane goes to the end of the queue.
#[test]
fn a_batch_has_at_most_its_limit_of_events() {
    check(
        "
        limits transactions=1 batch=3
        own p0 lanes=3 w=0
        deliver p0 0c => start p0[0]
        deliver p0 1b 2b 3a 4a 5c
        committed p0@0 => start p0[3 | 1 2]
        committed p0@1 => start p0[4 | 5]
        ",
    );
}

/// `oldest_first`: a transaction goes as far in all lanes as it would in one; without it the lanes that
/// waited longest bring all they have.
#[test]
fn a_store_with_one_writer_is_given_what_arrived_together() {
    let deliver = "
        own p0 lanes=3 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1a 2b 3c 4a 5b 6c 7a 8b 9c";
    check(&format!(
        "
        limits transactions=1 batch=4 oldest-first=1
        {deliver}
        committed p0@0 => start p0[1 | 2 5 | 3]
        committed p0@1 => start p0[4 7 | 6]
        committed p0@4 => start p0[8 | 9]
        "
    ));
    check(&format!(
        "
        limits transactions=1 batch=4
        {deliver}
        committed p0@0 => start p0[2 5 8 | 3]
        "
    ));
}

/// `oldest_first`: beside a transaction goes one of another partition, not what this one has left behind.
#[test]
fn the_next_transaction_is_of_another_partition() {
    let deliver = "
        own p0 lanes=2 w=0
        own p1 lanes=1 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1a 2b";
    check(&format!(
        "
        limits transactions=2 batch=2 oldest-first=1
        {deliver}
        deliver p1 0a => start p1[0]
        committed p0@0 => start p0[1 | 2]
        "
    ));
    check(&format!(
        "
        limits transactions=2 batch=2
        {deliver} => start p0[2]
        "
    ));
}

/// `oldest_first`: a lane that was held back catches up whole.
#[test]
fn a_lane_far_behind_catches_up_at_once() {
    check(
        "
        limits transactions=1 batch=3 oldest-first=1
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1b 5b 9b 20a 30a 31a
        committed p0@0 => start p0[1]
        committed p0@1 => start p0[20 | 5 9]
        committed p0@20 => start p0[30 31]
        ",
    );
}

/// `oldest_first`: a lane that may have fewer events than a transaction does not fill it alone.
#[test]
fn a_small_lane_leaves_room_for_what_came_with_it() {
    let both = (1..=1_200).map(|at| format!("{at}{}", if at % 2 == 1 { 'b' } else { 'a' }));
    let every_other = |from: u32| {
        let offsets = (from..=500).step_by(2).map(|offset| offset.to_string());
        offsets.collect::<Vec<_>>().join(" ")
    };
    check(&format!(
        "
        limits transactions=1 oldest-first=1
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 {}
        committed p0@0 => start p0[{} | {}]
        ",
        both.collect::<Vec<_>>().join(" "),
        every_other(2),
        every_other(1),
    ));
}

/// These offsets, each with what stands behind it.
fn several(from: u32, to: u32, end: &str) -> String {
    (from..=to).map(|offset| format!("{offset}{end}")).collect::<Vec<_>>().join(" ")
}

/// `batch_time_max`: after a transaction that took long a lane goes on with half the events, though not
/// with fewer than some dozens; after a quick one with twice as many.
#[test]
fn a_batch_that_takes_long_is_followed_by_a_smaller_one() {
    let (all, start) = (several(1, 900, "a"), |from, to| several(from, to, ""));
    check(&format!(
        "
        limits transactions=1 batch=256 bytes=1000 watermark=1000000 idle=1000000
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        deliver p0 {all}
        committed p0@0 => start p0[{}]
        wait 300
        committed p0@1 => start p0[{}]
        wait 120
        committed p0@257 => start p0[{}]
        wait 2000
        committed p0@385 => start p0[{}]
        wait 2000
        committed p0@513 => start p0[{}]
        wait 80
        committed p0@577 => start p0[{}]
        ",
        start(1, 256),
        start(257, 384),
        start(385, 512),
        start(513, 576),
        start(577, 640),
        start(641, 768),
    ));
}

/// `batch_time_calm_max`: while little waits, transactions are shorter.
#[test]
fn while_little_waits_a_batch_takes_less_time() {
    let (all, start) = (several(1, 900, "a"), |from, to| several(from, to, ""));
    check(&format!(
        "
        limits transactions=1 batch=256 watermark=1000000 idle=1000000
        own p0 lanes=1 w=0
        deliver p0 0a => start p0[0]
        deliver p0 {all}
        committed p0@0 => start p0[{}]
        wait 60
        committed p0@1 => start p0[{}]
        wait 40
        committed p0@257 => start p0[{}]
        wait 20
        committed p0@385 => start p0[{}]
        ",
        start(1, 256),
        start(257, 384),
        start(385, 512),
        start(513, 768),
    ));
}

/// `batch_bytes_max` counts over all lanes; an event larger than the limit goes alone.
#[test]
fn a_batch_has_at_most_its_limit_of_bytes() {
    check(
        "
        limits transactions=1 batch-bytes=10
        own p0 lanes=3 w=0
        deliver p0 0c => start p0[0]
        deliver p0 1a:6 2a:6 3b:4 4c:25 5b:1
        committed p0@0 => start p0[1 | 3]
        committed p0@1 => start p0[4]
        committed p0@4 => start p0[2 | 5]
        ",
    );
}

/// G7: no more transactions than connections, over all partitions; one whose partition was lost
/// holds its connection until it has ended.
#[test]
fn no_more_transactions_are_open_than_connections() {
    check(
        "
        limits transactions=2
        own p0 lanes=2 w=0
        own p1 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p1 0a => start p1[0]
        deliver p0 1b
        lost p1
        committed p0@0 => start p0[1]
        committed p1@0
        ",
    );
}

/// A busy database gets fewer transactions, but always one, and more come back at once when there is room
/// again.
#[test]
fn no_more_transactions_are_open_than_there_is_room_for() {
    check(
        "
        limits transactions=3
        own p0 lanes=4 w=0
        own p1 lanes=2 w=0
        room 2
        deliver p0 0a => start p0[0]
        deliver p0 1b => start p0[1]
        deliver p0 2c
        deliver p1 0a
        committed p0@0 => start p0[2]
        room 8 => start p1[0]
        deliver p0 3a
        room 0
        committed p0@1
        committed p0@2
        committed p1@0 => start p0[3]
        ",
    );
}

/// Who decides how many go on side by side has to know whether there is a backlog.
#[test]
fn a_transaction_tells_whether_it_leaves_events_behind() {
    check(
        "
        limits transactions=2 batch=3
        own p0 lanes=5 w=0
        deliver p0 0a 1a 2b => start p0[0 1 | 2]
        whole => 0:true
        # Of one lane.
        deliver p0 3c 4c 5c 6c => start p0[3 4 5]
        whole => 0:true, 3:false
        deliver p0 7a 8b 9d
        committed p0@0 => start p0[7 | 8 | 9]
        committed p0@3 => start p0[6]
        whole => 7:true, 6:true
        # A whole lane.
        deliver p0 10a 11b 12d 13e
        committed p0@7 => start p0[10 | 11 | 13]
        whole => 6:true, 10:false
        ",
    );
}

/// An event that cannot be read takes its place in the order: it comes back doomed, in its lane (I1).
#[test]
fn an_event_that_cannot_be_read_keeps_its_place() {
    check(
        "
        limits transactions=1
        own p0 lanes=2 w=0
        deliver p0 0a => start p0[0]
        deliver p0 1a 2a! 3a
        committed p0@0 => start p0[1 2:undecodable 3]
        ",
    );
}

/// Partitions and lanes that have waited longest come first, releases or not.
#[test]
fn the_longest_waiting_lane_comes_first() {
    check(
        "
        limits look=1000 transactions=1
        own p0 lanes=3 w=0
        own p1 lanes=3 w=0
        deliver p0 0a => start p0[0]
        due p1 b
        deliver p0 1c
        due p0 b
        committed p0@0 => release p1 b:4
        released p1 b => start p0[1]
        committed p0@1 => release p0 b:4
        ",
    );
}

/// What a transaction has woken is looked for at once, not at the next look.
#[test]
fn what_was_woken_is_looked_for_at_once() {
    check(
        "
        limits look=1000
        own p0 lanes=1 w=0
        due p0
        deliver p0 0a => start p0[0]
        woke p0@0 => look p0
        ",
    );
}
