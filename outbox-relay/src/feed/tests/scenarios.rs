//! The scenarios of rows that are read, parked, claimed and removed.

use std::time::Duration;

use super::{HOUR, LOOK, Place, SHOP, Tested, parking, retry, seqs, states, take_turn};
use crate::port::{Choice, Conclusion, Park, ParkState, RowKey, RowQuery, Shards, Stored};

const WAITS: &str = "state = 'retry' AND due_at IS NOT NULL";

/// A row that waits keeps its place: nothing finds it before its time, and what follows it is blocked.
pub(super) async fn a_row_that_waits_is_claimed_when_its_time_has_come<F: Tested>(
    place: &mut Place<F>,
) {
    place.append(&["a", "a", "b"]).await;
    let first = place.unsent().await;
    assert_eq!(seqs(&first), [1, 2, 3]);
    assert!(first.iter().all(|row| !row.blocked && !row.claimed && row.attempts == 0));
    assert!(first.iter().all(|row| row.delay.is_none() && row.age < HOUR));
    let id = first[0].id;
    assert_eq!(place.next_due().await, None);
    // Storing twice is storing once.
    for _ in 0..2 {
        place.park(vec![retry(id, 1, HOUR)]).await;
    }
    assert_eq!(place.parked(&format!("{WAITS} AND attempts = 1 AND error = '503'")).await, 1);
    let next = place.next_due().await.unwrap();
    assert!(next <= HOUR && next > Duration::from_mins(59), "{next:?}");
    assert_eq!(seqs(&place.claim(SHOP).await), [0; 0], "its time has not come");
    let rows = place.unsent().await;
    let blocked: Vec<bool> = rows.iter().map(|row| row.blocked).collect();
    assert_eq!((seqs(&rows), blocked), (vec![2, 3], vec![true, false]));

    place.pass_time().await;
    assert_eq!(place.next_due().await, Some(Duration::ZERO));
    assert_eq!(seqs(&place.claim("other").await), [0; 0]);
    let due = place.claim(SHOP).await;
    let [row] = &due[..] else { panic!("one is due: {due:?}") };
    assert!(row.claimed && !row.blocked && row.event.is_ok() && row.delay.is_none());
    assert_eq!((row.id, row.attempts, row.aggregate.as_str()), (id, 1, "Order/a"));
    assert_eq!(seqs(&place.claim(SHOP).await), [0; 0], "it is claimed");
    assert_eq!(place.next_due().await, None);

    // It fails once more, then for good.
    place.park(vec![retry(id, 2, HOUR)]).await;
    assert_eq!(place.parked("claimed_by IS NULL").await, 1);
    assert_eq!(seqs(&place.claim(SHOP).await), [0; 0]);
    let last = Park { attempts: 3, ..parking(id, ParkState::Parked) };
    place.park(vec![last]).await;
    let kept = "state = 'parked' AND due_at IS NULL AND attempts = 3 AND error = '503'";
    assert_eq!(place.parked(kept).await, 1, "an error stays until there is another");
    assert_eq!((place.next_due().await, seqs(&place.unsent().await)), (None, vec![2, 3]));
}

/// After the delivery goes what is behind the row, up to the next that waits.
pub(super) async fn what_is_behind_goes_after_the_delivery<F: Tested>(place: &mut Place<F>) {
    let id = place.waits("a", 3).await;
    let other = place.waits("b", 2).await;
    assert_eq!(seqs(&place.unsent().await), [0; 0]);
    place.pass_time().await;
    assert_eq!(seqs(&place.claim(SHOP).await), [1, 4]);
    for _ in 0..2 {
        assert_eq!(place.deliver(&[id]).await, Stored::All);
    }
    assert_eq!(place.count("sent_at IS NOT NULL AND parked_at IS NULL").await, 1);
    let behind = [(2, "ready"), (3, "ready"), (4, "retry"), (5, "behind")];
    assert_eq!(place.states().await, states(&behind));
    assert_eq!(seqs(&place.claim(SHOP).await), [2, 3], "what else waits stays where it is");

    // All at once: one from the feed is sent, one that was claimed is delivered, and one fails.
    place.append(&["c"]).await;
    let conclusion = Conclusion {
        sent: vec![place.id(6).await],
        delivered: vec![place.id(2).await],
        parked: vec![retry(other, 2, HOUR)],
    };
    for _ in 0..2 {
        assert_eq!(place.store(&conclusion).await, Stored::All);
    }
    let left = [(3, "ready"), (4, "retry"), (5, "behind")];
    assert_eq!(place.states().await, states(&left));
    assert_eq!(place.count("sent_at IS NOT NULL").await, 3);
}

/// Who has lost the turn stores nothing, and no row is taken for another of its number.
pub(super) async fn what_came_of_an_attempt_is_stored_in_the_turn_alone<F: Tested>(
    place: &mut Place<F>,
) {
    let id = place.waits("a", 2).await;
    place.append(&["c"]).await;
    place.pass_time().await;
    let strange = RowKey { event: uuid::Uuid::new_v4().as_u128(), ..id };
    let fresh = place.id(3).await;
    let unknown = RowKey { event: strange.event, ..fresh };
    let conclusion = Conclusion {
        sent: vec![unknown],
        delivered: vec![strange],
        parked: vec![parking(unknown, ParkState::Parked)],
    };
    assert_eq!(place.store(&conclusion).await, Stored::Missing(3));
    let sent = Conclusion { sent: vec![unknown], ..Conclusion::default() };
    assert_eq!(place.store(&sent).await, Stored::Missing(1));
    assert_eq!(place.states().await, states(&[(1, "retry"), (2, "behind")]), "another event");
    assert_eq!(place.count("parked_at IS NULL AND sent_at IS NULL").await, 1);

    // After a failover a number of a turn is given twice.
    let ours = place.turn;
    place.turn.token = uuid::Uuid::new_v4();
    assert_eq!(place.deliver(&[id]).await, Stored::NotOurs);
    let claimed =
        F::claim(&mut place.session, (place.turn, Shards::ALL), SHOP, 100, 1 << 20).await.unwrap();
    assert!(claimed.is_none(), "{claimed:?}");
    place.turn = ours;
    place.run(&format!("UPDATE outbox_relays SET lease_until = {}", F::PAST)).await;
    take_turn::<F>(&mut place.session).await;
    assert_eq!(place.deliver(&[id]).await, Stored::NotOurs);
    let parked = vec![parking(id, ParkState::Parked)];
    let conclusion = Conclusion { parked, ..Conclusion::default() };
    assert_eq!(place.store(&conclusion).await, Stored::NotOurs);
    let sent = Conclusion { sent: vec![fresh], ..Conclusion::default() };
    assert_eq!(place.store(&sent).await, Stored::NotOurs);
    let claimed =
        F::claim(&mut place.session, (place.turn, Shards::ALL), SHOP, 100, 1 << 20).await.unwrap();
    assert!(claimed.is_none(), "{claimed:?}");
    assert_eq!(place.parked(&format!("{WAITS} AND attempts = 1")).await, 1);
    assert_eq!(place.count("sent_at IS NOT NULL").await, 0);
}

/// Of two that wait in an aggregate the second is not claimed, though its time has come first.
pub(super) async fn a_row_behind_another_that_waits_is_not_claimed<F: Tested>(
    place: &mut Place<F>,
) {
    place.append(&["a", "a", "b", "a"]).await;
    let mut parked = Vec::new();
    for seq in 1..=4 {
        parked.push(retry(place.id(seq).await, 1, HOUR));
    }
    parked[3].destination = "mail".into();
    place.park(parked).await;
    let past =
        |seqs: &str| format!("UPDATE outbox_parked SET due_at = {} WHERE seq IN ({seqs})", F::PAST);
    place.run(&past("2, 3, 4")).await;
    assert_eq!(seqs(&place.claim(SHOP).await), [3]);
    assert_eq!(seqs(&place.claim("mail").await), [0; 0]);
    // It is due a little later than what comes after it.
    tokio::time::sleep(Duration::from_millis(5)).await;
    place.run(&past("1")).await;
    assert_eq!(seqs(&place.claim("mail").await), [0; 0], "the others go elsewhere");
    let one = F::claim(&mut place.session, (place.turn, Shards::ALL), SHOP, 1, 1 << 20)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(seqs(&one), [0; 0], "the longest due alone would overtake");
    assert_eq!(seqs(&place.claim(SHOP).await), [1, 2]);
    assert_eq!(seqs(&place.claim("mail").await), [4], "what is before it is claimed");
}

/// So many rows, so many bytes, the longest due first; the first whatever its size.
pub(super) async fn a_claim_has_bounds<F: Tested>(place: &mut Place<F>) {
    let names: Vec<String> = (0..6).map(|n| format!("a{n}")).collect();
    place.append(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let rows = place.unsent().await;
    place.park(rows.iter().map(|row| retry(row.id, 1, HOUR)).collect()).await;
    for seq in (1..=6).rev() {
        place
            .run(&format!("UPDATE outbox_parked SET due_at = {} WHERE seq = {seq}", F::PAST))
            .await;
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    let bytes =
        place.number("SELECT CAST(min(length(headers)) AS bigint) FROM outbox_events").await;
    let bytes = usize::try_from(bytes).unwrap();
    for (rows_max, bytes_max, found) in
        [(3, 1 << 20, vec![4, 5, 6]), (6, bytes * 2, vec![5, 6]), (6, 1, vec![6])]
    {
        let due =
            F::claim(&mut place.session, (place.turn, Shards::ALL), SHOP, rows_max, bytes_max)
                .await;
        assert_eq!(seqs(&due.unwrap().unwrap()), found);
        place.forget().await;
    }
}

/// A row that is not sent before a time is told with what is left of it, and waits without an attempt.
pub(super) async fn a_row_with_a_time_waits_for_it<F: Tested>(place: &mut Place<F>) {
    place.append(&["a", "b"]).await;
    place
        .run(&format!("UPDATE outbox_events SET deliver_after = {} WHERE seq = 1", F::FUTURE))
        .await;
    place.run(&format!("UPDATE outbox_events SET deliver_after = {} WHERE seq = 2", F::PAST)).await;
    let rows = place.unsent().await;
    let delay = rows[0].delay.unwrap();
    assert!(delay <= HOUR && delay > Duration::from_mins(59), "{delay:?}");
    assert_eq!(rows[1].delay, None, "its time has come");
    let parked = Park { after: delay, ..parking(rows[0].id, ParkState::Scheduled) };
    place.park(vec![parked]).await;
    let early = "SELECT count(*) FROM outbox_parked JOIN outbox_events USING (seq) WHERE due_at < deliver_after";
    assert_eq!(place.number(early).await, 0);
    let overview = F::overview(&mut place.session).await.unwrap();
    assert_eq!((overview.delayed, overview.retrying, overview.failed), (1, 0, 0));
}

/// What is ready goes no more when a row before it fails.
pub(super) async fn what_is_ready_is_behind_a_row_that_fails<F: Tested>(place: &mut Place<F>) {
    place.append(&["a", "a", "a", "b"]).await;
    let mut parked = Vec::new();
    for seq in 1..=4 {
        parked.push(parking(place.id(seq).await, ParkState::Ready));
    }
    place.park(parked.clone()).await;
    assert_eq!(seqs(&place.claim(SHOP).await), [1, 2, 3, 4]);
    place.park(vec![parked[1].clone()]).await;
    assert_eq!(place.parked("claimed_by IS NULL").await, 1, "what is ready changes no other");
    place.park(vec![retry(parked[0].key, 1, HOUR)]).await;
    let behind = [(1, "retry"), (2, "behind"), (3, "behind"), (4, "ready")];
    assert_eq!(place.states().await, states(&behind));
    assert_eq!(place.parked("claimed_by IS NOT NULL").await, 1);
    // One that is behind nothing is ready; so it is in the batch that parks it.
    place.append(&["c", "c"]).await;
    let (head, next) = (place.id(5).await, place.id(6).await);
    place.park(vec![parking(next, ParkState::Behind), parking(head, ParkState::Behind)]).await;
    assert_eq!(place.states().await[4..], states(&[(5, "ready"), (6, "behind")]));
}

/// Rows behind the last that was read, and the numbers of what waits below it.
pub(super) async fn a_read_goes_on_and_tells_what_waits_below<F: Tested>(place: &mut Place<F>) {
    place.append(&["a", "b", "c", "d", "e"]).await;
    let sent = Conclusion { sent: vec![place.id(2).await], ..Conclusion::default() };
    assert_eq!(place.store(&sent).await, Stored::All);
    let mut found = Vec::new();
    for parked in [false, true] {
        if parked {
            let id = place.id(4).await;
            place.park(vec![parking(id, ParkState::Parked)]).await;
        }
        for (floor, read_to) in [(0, 0), (0, 3), (1, 3), (3, 1), (0, 5)] {
            let query = RowQuery { floor, read_to, ..LOOK };
            let page = F::unsent(&mut place.session, query).await.unwrap();
            found.push((page.earlier.clone(), seqs(&page.rows)));
        }
    }
    let wanted: [(Vec<i64>, Vec<i64>); 10] = [
        (vec![], vec![1, 3, 4, 5]),
        (vec![1, 3], vec![4, 5]),
        (vec![3], vec![4, 5]),
        (vec![], vec![4, 5]),
        (vec![1, 3, 4, 5], vec![]),
        (vec![], vec![1, 3, 5]),
        (vec![1, 3], vec![5]),
        (vec![3], vec![5]),
        (vec![], vec![5]),
        (vec![1, 3, 5], vec![]),
    ];
    assert_eq!(found, wanted);
    let few = RowQuery { rows_max: 2, ..LOOK };
    assert_eq!(seqs(&F::unsent(&mut place.session, few).await.unwrap().rows), [1, 3]);
    let small = RowQuery { bytes_max: 1, ..LOOK };
    assert_eq!(seqs(&F::unsent(&mut place.session, small).await.unwrap().rows), [1]);
}

/// What another turn has claimed can be claimed.
pub(super) async fn claims_are_those_of_a_turn<F: Tested>(place: &mut Place<F>) {
    place.waits("a", 1).await;
    place.pass_time().await;
    assert_eq!(seqs(&place.claim(SHOP).await), [1]);
    place.forget().await;
    assert_eq!(seqs(&place.claim(SHOP).await), [1]);
    let before = place.turn;
    place.run(&format!("UPDATE outbox_relays SET lease_until = {}", F::PAST)).await;
    place.turn = take_turn::<F>(&mut place.session).await;
    F::end_claims(&mut place.session, before).await.unwrap();
    assert_eq!(place.parked("claimed_by IS NOT NULL").await, 1, "the turn before is over");
    assert_eq!(place.next_due().await, Some(Duration::ZERO));
    assert_eq!(seqs(&place.claim(SHOP).await), [1]);
}

/// What somebody has left behind nothing by changing rows goes.
pub(super) async fn what_was_changed_by_hand_is_released<F: Tested>(place: &mut Place<F>) {
    for aggregate in ["a", "b", "c", "d"] {
        place.waits(aggregate, 3).await;
    }
    place.run("DELETE FROM outbox_parked WHERE seq = 1").await;
    place.run(&format!("UPDATE outbox_events SET discarded_at = {} WHERE seq = 4", F::PAST)).await;
    place.run("DELETE FROM outbox_events WHERE seq = 7").await;
    for _ in 0..2 {
        let last = F::release_orphans(&mut place.session, ("", "")).await.unwrap();
        assert_eq!(last, None);
    }
    let found: Vec<(i64, String)> =
        place.states().await.into_iter().filter(|(_, state)| state != "behind").collect();
    assert_eq!(found, states(&[(2, "ready"), (5, "ready"), (8, "ready"), (10, "retry")]));
    assert_eq!(seqs(&place.claim(SHOP).await), [2, 5, 8]);
}

/// Retention removes what was delivered late, and nothing that waits.
pub(super) async fn what_waits_is_never_removed<F: Tested>(place: &mut Place<F>) {
    let id = place.waits("a", 2).await;
    place.waits("b", 1).await;
    assert_eq!(place.deliver(&[id]).await, Stored::All);
    place
        .run(&format!(
            "UPDATE outbox_events SET created_at = {}, parked_at = {} WHERE parked_at IS NOT NULL",
            F::PAST,
            F::PAST
        ))
        .await;
    place
        .run(&format!("UPDATE outbox_events SET sent_at = {} WHERE sent_at IS NOT NULL", F::PAST))
        .await;
    let pruned = F::prune(&mut place.session, Duration::from_secs(1), 100, 0).await.unwrap();
    assert_eq!(pruned.removed, 1);
    assert_eq!(place.count("sent_at IS NULL").await, 2);
    assert!(place.next_due().await.is_some());
}

/// Who writes rows by plain SQL may write any time: each look answers, and what is stored is stored.
pub(super) async fn no_time_of_a_row_stops_a_look<F: Tested>(place: &mut Place<F>) {
    place.append(&["a", "b", "c", "d", "e"]).await;
    let [late, early] = F::ENDS;
    for (seq, column, time) in [
        (1, "created_at", late),
        (2, "created_at", early),
        (3, "deliver_after", late),
        (4, "deliver_after", early),
    ] {
        place.run(&format!("UPDATE outbox_events SET {column} = {time} WHERE seq = {seq}")).await;
    }
    let rows = place.unsent().await;
    assert_eq!(seqs(&rows), [1, 2, 3, 4, 5]);
    assert_eq!(rows[0].age, Duration::ZERO);
    assert!(rows[1].age > HOUR && rows[3].delay.is_none());
    let delay = rows[2].delay.unwrap();
    assert!(delay > HOUR && delay.as_millis() <= 1_000_000_000_000, "{delay:?}");
    for first in ["1", "2"] {
        let oldest = F::overview(&mut place.session).await.unwrap().oldest_seconds.unwrap();
        assert_eq!(oldest > 0, first == "2", "{oldest}");
        F::reading(&mut place.session).await.unwrap();
        place.run(&format!("UPDATE outbox_events SET sent_at = {early} WHERE seq = {first}")).await;
    }

    // What waits for longer than any time there is.
    tokio::time::sleep(Duration::from_millis(3)).await;
    for after in [delay, Duration::MAX] {
        let parked = Park { after, ..parking(rows[2].id, ParkState::Scheduled) };
        place.park(vec![parked]).await;
        let next = place.next_due().await.unwrap();
        assert!(next > HOUR && next.as_millis() <= 1_000_000_000_000, "{next:?}");
    }
    place.park(vec![retry(rows[3].id, 1, HOUR)]).await;
    for (time, due) in [(late, vec![]), (early, vec![3, 4])] {
        for sql in [
            format!("UPDATE outbox_parked SET due_at = {time}, parked_at = {time}"),
            format!("UPDATE outbox_events SET created_at = {time} WHERE seq >= 3"),
        ] {
            place.run(&sql).await;
        }
        assert_eq!(seqs(&place.claim(SHOP).await), due);
        place.forget().await;
        assert_eq!(place.next_due().await.unwrap() > HOUR, time == late);
        F::overview(&mut place.session).await.unwrap();
        F::reading(&mut place.session).await.unwrap();
        let one = Choice { seq: Some(3), ..Choice::default() };
        assert_eq!(F::failed(&mut place.session, &one, 10).await.unwrap().len(), 1);
        let content = F::content(&mut place.session, 3, 10).await.unwrap().unwrap();
        let shown = time.trim_matches('\'');
        assert_eq!(content.created_at.as_deref(), Some(shown));
        assert_eq!(content.due_at.as_deref(), Some(shown));
        assert_eq!(content.deliver_after.as_deref(), Some(late.trim_matches('\'')));
    }
    for removed in [2, 0] {
        let pruned = F::prune(&mut place.session, Duration::from_secs(1), 100, 0).await.unwrap();
        assert_eq!(pruned.removed, removed);
        place.run(&format!("UPDATE outbox_events SET sent_at = {late} WHERE seq = 5")).await;
    }
}
