//! The scenarios of what people decide and see, and of what the tables refuse and lose.

use std::time::Duration;

use super::{HOUR, Place, SHOP, Tested, parking, retry, seqs, states};
use crate::port::{Act, Choice, Park, ParkState, Shards};

/// A person has rows sent at once or gives them up, those that wait, too; who and why is written with it.
pub(super) async fn a_person_decides_about_rows_that_wait<F: Tested>(place: &mut Place<F>) {
    let a = place.waits("a", 2).await;
    place.waits("b", 2).await;
    place.append(&["c"]).await;
    let c = Park {
        attempts: 4,
        error: Some("500".into()),
        ..parking(place.id(5).await, ParkState::Parked)
    };
    place.park(vec![c]).await;
    place.run("UPDATE outbox_events SET event_type = 'Sold' WHERE seq = 3").await;
    let listed = F::failed(&mut place.session, &Choice::default(), 10).await.unwrap();
    let found: Vec<_> = listed
        .iter()
        .map(|row| (row.seq, row.attempts, row.retry_seconds.is_some(), row.behind))
        .collect();
    assert_eq!(found, [(1, 1, true, 1), (3, 1, true, 1), (5, 4, false, 0)]);
    let overview = F::overview(&mut place.session).await.unwrap();
    assert_eq!((overview.failed, overview.retrying, overview.delayed), (1, 2, 0));
    assert_eq!((overview.held, overview.waiting), (2, 2));
    let next = overview.next_due_seconds.unwrap();
    assert!((3_500..=3_600).contains(&next), "{next}");

    let act = Act { who: "ada", why: "the address is right now" };
    let sold = Choice { event_type: Some("Sold".into()), ..Choice::default() };
    let step = F::discard(&mut place.session, &sold, 0, act).await.unwrap();
    assert_eq!((step.rows, step.claimed, step.last), (1, 0, Some(3)));
    let paid =
        Choice { event_type: Some("Paid".into()), error: Some("50".into()), ..Choice::default() };
    let step = F::retry(&mut place.session, &paid, 0, act).await.unwrap();
    assert_eq!((step.rows, step.last), (2, Some(5)));
    let step = F::retry(&mut place.session, &paid, 5, act).await.unwrap();
    assert_eq!((step.rows, step.last), (0, None), "nothing is left");
    assert_eq!(place.parked("state = 'ready' AND attempts = 0 AND error IS NULL").await, 4);
    assert_eq!(place.count("discarded_by = 'ada' AND parked_at IS NOT NULL").await, 1);
    assert_eq!(seqs(&place.claim(SHOP).await), [1, 2, 4, 5]);

    let written =
        "SELECT count(*) FROM outbox_audit WHERE who = 'ada' AND why = 'the address is right now'";
    assert_eq!(place.number(written).await, 2);
    let how = "what = 'retry' AND rows = 2 AND choice = '--error \"50\" --type Paid'";
    assert_eq!(place.number(&format!("{written} AND {how}")).await, 1);
    let how = "what = 'discard' AND rows = 1 AND choice = '--type Sold'";
    assert_eq!(place.number(&format!("{written} AND {how}")).await, 1);
    let ids = format!("CAST(event_ids AS text) LIKE '%{}%'", uuid::Uuid::from_u128(a.event));
    assert_eq!(place.number(&format!("{written} AND {ids}")).await, 1);

    let content = F::content(&mut place.session, 1, 10).await.unwrap().unwrap();
    assert_eq!((content.seq, content.event_id), (1, uuid::Uuid::from_u128(a.event).to_string()));
    assert_eq!((content.aggregate_id.as_str(), content.headers.as_str()), ("a", "[]"));
    assert_eq!((content.payload_bytes, content.attempts), (None, 0));
    assert_eq!(
        (content.state.as_deref(), content.destination.as_deref()),
        (Some("ready"), Some(SHOP))
    );
    assert!(content.created_at.unwrap().ends_with('Z') && content.parked_at.is_some());
    assert_eq!(F::content(&mut place.session, 99, 10).await.unwrap(), None);
}

/// A retried row keeps its place behind what waits before it, and one that waits for its time is no failed row, unless it is
/// named.
pub(super) async fn a_retried_row_keeps_its_place<F: Tested>(place: &mut Place<F>) {
    place.append(&["a", "a", "a", "b"]).await;
    let mut parked = Vec::new();
    for seq in 1..=4 {
        parked.push(parking(place.id(seq).await, ParkState::Parked));
    }
    parked[2].state = ParkState::Behind;
    parked[3] = Park { after: HOUR, state: ParkState::Scheduled, ..parked[3].clone() };
    place.park(parked).await;
    place
        .run(&format!("UPDATE outbox_events SET deliver_after = {} WHERE seq = 4", F::FUTURE))
        .await;
    let act = Act { who: "ada", why: "" };
    let one = |seq| Choice { seq: Some(seq), ..Choice::default() };
    assert_eq!(F::retry(&mut place.session, &one(2), 0, act).await.unwrap().rows, 1);
    let kept = [(1, "parked"), (2, "behind"), (3, "behind"), (4, "scheduled")];
    assert_eq!(place.states().await, states(&kept));
    assert_eq!(
        F::retry(&mut place.session, &one(3), 0, act).await.unwrap().rows,
        0,
        "it is behind"
    );
    let all = F::failed(&mut place.session, &Choice::default(), 10).await.unwrap();
    assert_eq!(all.iter().map(|row| row.seq).collect::<Vec<_>>(), [1]);
    assert_eq!(F::failed(&mut place.session, &one(4), 10).await.unwrap().len(), 1);
    let step = F::discard(&mut place.session, &Choice::default(), 0, act).await.unwrap();
    assert_eq!((step.rows, step.last), (1, Some(1)));
    let free = [(2, "ready"), (3, "ready"), (4, "scheduled")];
    assert_eq!(place.states().await, states(&free));
    assert_eq!(F::retry(&mut place.session, &one(4), 0, act).await.unwrap().rows, 1);
    let claimed = place.claim(SHOP).await;
    assert_eq!(seqs(&claimed), [2, 3, 4]);
    assert_eq!(claimed[2].delay, None, "it goes now");
}

/// What a relay is delivering is left alone, as long as its turn lasts.
pub(super) async fn what_is_being_delivered_is_left_alone<F: Tested>(place: &mut Place<F>) {
    place.waits("a", 1).await;
    place.pass_time().await;
    assert_eq!(seqs(&place.claim(SHOP).await), [1]);
    place.waits("b", 1).await;
    let (all, act) = (Choice::default(), Act { who: "ada", why: "" });
    let step = F::discard(&mut place.session, &all, 0, act).await.unwrap();
    assert_eq!((step.rows, step.claimed, step.last), (1, 1, Some(2)));
    let step = F::retry(&mut place.session, &all, 0, act).await.unwrap();
    assert_eq!((step.rows, step.claimed, step.last), (0, 1, Some(1)));
    assert_eq!(place.number("SELECT count(*) FROM outbox_audit").await, 1);
    place.run(&format!("UPDATE outbox_relays SET lease_until = {}", F::PAST)).await;
    let step = F::retry(&mut place.session, &all, 0, act).await.unwrap();
    assert_eq!((step.rows, step.claimed), (1, 0));
}

/// What waits for a topic or a destination is named as people know it, and is tried at once when a person wants it.
pub(super) async fn what_rows_wait_for_is_named<F: Tested>(place: &mut Place<F>) {
    place.append(&["a", "b", "c", "d"]).await;
    let mut parked = Vec::new();
    for (seq, destination) in [(1, "kafka:orders"), (2, SHOP), (3, "shop/http://x/y")] {
        let destination = destination.to_owned();
        parked.push(Park { destination, ..parking(place.id(seq).await, ParkState::Waiting) });
    }
    parked.push(retry(place.id(4).await, 1, HOUR));
    place.park(parked).await;
    let listed = F::failed(&mut place.session, &Choice::default(), 10).await.unwrap();
    let named: Vec<Option<&str>> = listed.iter().map(|row| row.waits_for.as_deref()).collect();
    let shown =
        [Some("orders"), Some("destination shop"), Some("destination shop (http://x/y)"), None];
    assert_eq!(named, shown);
    let overview = F::overview(&mut place.session).await.unwrap();
    assert_eq!(overview.missing_topics, ["orders"]);
    assert_eq!(overview.destinations_out, ["shop", "shop (http://x/y)"]);
    let act = Act { who: "ada", why: "" };
    F::retry(&mut place.session, &Choice::default(), 0, act).await.unwrap();
    assert_eq!(seqs(&place.claim("kafka").await), [1]);
    assert_eq!(seqs(&place.claim("shop/http://x/y").await), [3]);
}

/// However many scopes of destinations rows wait for, all are named.
pub(super) async fn destinations_that_rows_wait_for_are_read_to_the_last<F: Tested>(
    place: &mut Place<F>,
) {
    let names = F::due_destinations(&mut place.session, place.turn, Shards::ALL).await.unwrap();
    assert!(names.is_empty(), "{names:?}");
    place
        .run(&format!(
            "INSERT INTO outbox_parked (seq, state, due_at, destination, aggregate_type, aggregate_id)
             WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 4200)
             SELECT n, 'waiting', {}, CASE WHEN n > 4197 THEN 'kafka:t' || n ELSE 'shop/' || (n % 2100) END,
                'Order', CAST(n AS text) FROM n",
            F::PAST
        ))
        .await;
    let due = F::due_destinations(&mut place.session, place.turn, Shards::ALL).await.unwrap();
    assert!(due.iter().all(|due| due.after == Duration::ZERO));
    let mut names: Vec<String> = due.into_iter().map(|due| due.destination).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 2_103);
    let overview = F::overview(&mut place.session).await.unwrap();
    assert_eq!((overview.destinations_out.len(), overview.waiting_for_destination), (10, 4_197));
    assert_eq!(overview.destinations_out[0], "shop (0)");
    assert_eq!(
        (overview.missing_topics, overview.waiting_for_topic),
        (["t4198", "t4199", "t4200"].map(str::to_owned).to_vec(), 3)
    );
}

/// What is unsent stays, and what was sent long ago behind it goes; what was sent lately ends a pass.
pub(super) async fn retention_goes_on_behind_what_is_unsent<F: Tested>(place: &mut Place<F>) {
    place.append(&["a"; 20]).await;
    // Unsent are 1 to 10 and 13, sent lately 16 and those behind it.
    for (which, time) in [("seq IN (11, 12, 14, 15)", F::PAST), ("seq > 15", F::FUTURE)] {
        place.run(&format!("UPDATE outbox_events SET sent_at = {time} WHERE {which}")).await;
    }
    let mut after = 0;
    let mut passed = Vec::new();
    loop {
        let pruned = F::prune(&mut place.session, Duration::from_secs(1), 4, after).await.unwrap();
        let Some(last) = pruned.last else { panic!("the rows of lately end it: {passed:?}") };
        passed.push((last, pruned.removed, pruned.idle));
        after = last;
        if pruned.end {
            break;
        }
    }
    assert_eq!(passed, [(4, 0, true), (8, 0, true), (12, 2, true), (16, 2, false), (20, 0, false)]);
    assert_eq!(place.count("sent_at IS NULL").await, 11);
    // A page that is not full may be followed by rows any time: no pass begins behind it.
    place.run("UPDATE outbox_events SET sent_at = NULL").await;
    let pruned = F::prune(&mut place.session, Duration::from_secs(1), 100, 0).await.unwrap();
    assert_eq!((pruned.removed, pruned.idle, pruned.end), (0, false, false));
}

/// The table refuses what `append` refuses.
pub(super) async fn a_key_longer_than_append_takes_is_refused<F: Tested>(place: &mut Place<F>) {
    let longest = outbox_core::DEDUP_KEY_BYTES_MAX;
    for (key, taken) in [
        ("ä".repeat(longest / 2), true),
        ("a".repeat(longest), true),
        ("ä".repeat(longest / 2 + 1), false),
        ("a".repeat(longest + 1), false),
        (String::new(), false),
    ] {
        let sql = format!(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, dedup_key)
             VALUES ({}, 'Paid', 'Order', '1', '{key}')",
            F::ID
        );
        let sql: &'static str = Box::leak(sql.into_boxed_str());
        let inserted = F::execute(&mut place.session, sql, &[]).await;
        assert_eq!(inserted.is_ok(), taken, "{} bytes: {inserted:?}", key.len());
    }
    let longer = "a".repeat(longest + 1);
    place.append(&["b"]).await;
    let sql = format!("UPDATE outbox_events SET dedup_key = '{longer}' WHERE aggregate_id = 'b'");
    let sql: &'static str = Box::leak(sql.into_boxed_str());
    F::execute(&mut place.session, sql, &[]).await.unwrap_err();
}
