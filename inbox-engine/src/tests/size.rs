//! How large transactions are: none outlasts what a drain has time for, as far as that is known.

use super::script::check;

/// `TransactionFitsDrain`: what handlers take is seen, and no transaction is given more events than half a
/// drain is enough for, so that a revocation can wait for it.
#[test]
fn slow_handlers_have_small_transactions() {
    check(
        "
        limits transactions=1 drain=1000
        own p0 lanes=1 w=0
        deliver p0 0a 1a 2a 3a 4a 5a 6a 7a => start p0[0 1 2 3 4 5 6 7]
        deliver p0 8a 9a 10a 11a 12a 13a 14a
        wait 8000
        committed p0@0 => start p0[8]
        wait 20
        committed p0@8 => start p0[9 10]
        ",
    );
}

/// `TransactionFitsDrain`: a process begins with single events. Else one whose handlers are slow would begin
/// with hundreds, and while partitions move, as in a deploy, would never commit any of them.
#[test]
fn a_process_begins_with_single_events() {
    check(
        "
        limits first=1 transactions=2 drain=1000
        own p0 lanes=3 w=0
        deliver p0 0a 1a 2b 3b 4c 5c => start p0[0], start p0[2]
        wait 100
        committed p0@0 => start p0[1 | 4 5]
        own p1 lanes=1 w=0
        deliver p1 0a 1a 2a 3a 4a 5a
        committed p0@2 => start p1[0 1 2 3 4]
        ",
    );
}

/// `TransactionFitsDrain`: what no handler ran for says nothing of handlers.
#[test]
fn what_is_settled_without_a_handler_says_nothing_of_handlers() {
    check(
        "
        limits first=1 transactions=1 drain=1000
        own p0 lanes=2 w=0
        deliver p0 0a 1b 2b => start p0[0]
        ignored p0@0 => start p0[1]
        committed p0@1 => start p0[2]
        ",
    );
}

/// `TransactionFitsDrain`: releases run the same handlers.
#[test]
fn slow_handlers_have_small_releases() {
    check(
        "
        limits first=1 release=8 transactions=1 look=1000000 drain=1000
        own p0 lanes=2 w=0
        due p0 a b => release p0 a:1
        wait 100
        released p0 a more => release p0 b:5
        wait 500
        released p0 b more => release p0 a:5
        released p0 a more => release p0 b:1
        ",
    );
}

/// `TransactionFitsDrain`: what is only set aside, to wait for a version, says nothing of handlers.
#[test]
fn a_release_that_runs_nothing_lets_the_next_one_grow_no_further() {
    check(
        "
        limits first=1 release=8 transactions=1 look=1000000 drain=1000
        own p0 lanes=2 w=0
        due p0 a => release p0 a:1
        released p0 a aside => release p0 a:1
        wait 100
        released p0 a more => release p0 a:5
        wait 10
        released p0 a aside => release p0 a:5
        ",
    );
}
