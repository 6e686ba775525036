//! The scenarios.

use std::time::Duration;

use super::{LOOK, Place, Tested, failure, seqs, take_turn};
use crate::port::{Act, Choice, Marked, Marks, ReleasedRows, RowFailure, RowId, RowQuery};

const HOUR: Duration = Duration::from_hours(1);
const WAITS: &str = "failed_at IS NOT NULL AND retry_at IS NOT NULL AND sent_at IS NULL";

impl<F: Tested> Place<F> {
    async fn mark(&mut self, marks: Marks<'_>) -> Marked {
        F::mark(&mut self.session, self.turn, marks).await.unwrap()
    }

    async fn failed(&mut self, failed: &[RowFailure]) {
        let marks = Marks { failed, ..Marks::default() };
        assert_eq!(self.mark(marks).await, Marked::All);
    }

    /// Rows of an aggregate, the first of which waits for an hour and the others behind it.
    async fn waits(&mut self, aggregate: &str, rows: usize) -> RowId {
        let first = self.number("SELECT coalesce(max(seq), 0) + 1 FROM outbox_events").await;
        self.append(&vec![aggregate; rows]).await;
        let id = self.id(first).await;
        self.failed(&[failure(id, 1, Some(HOUR))]).await;
        let behind = self.unsent().await;
        let behind: Vec<RowId> =
            behind.iter().filter(|row| row.blocked).map(|row| row.id).collect();
        assert!(F::hold(&mut self.session, self.turn, &behind).await.unwrap());
        id
    }

    /// Lets go what was asked for.
    async fn release(&mut self) -> bool {
        let released = F::release(&mut self.session, self.turn, 0, 100).await.unwrap();
        assert_ne!(released, ReleasedRows::NotOurs);
        released != ReleasedRows::Nothing
    }
}

/// A row that waits keeps its place: no look finds it before its time, and what follows it is blocked.
pub(super) async fn a_row_that_waits_is_read_when_its_time_has_come<F: Tested>(
    place: &mut Place<F>,
) {
    place.append(&["a", "a", "b"]).await;
    let first = place.unsent().await;
    assert_eq!(seqs(&first), [1, 2, 3]);
    assert!(first.iter().all(|row| !row.blocked && !row.waited && row.attempts == 0));
    assert!(first.iter().all(|row| row.delay.is_none() && row.age < HOUR));
    let id = first[0].id;
    assert_eq!(place.next_due().await, None);
    // Marking twice is marking once.
    for _ in 0..2 {
        place.failed(&[failure(id, 1, Some(HOUR))]).await;
    }
    assert_eq!(place.count(&format!("{WAITS} AND attempts = 1 AND error = '503'")).await, 1);
    let next = place.next_due().await.unwrap();
    assert!(next <= HOUR && next > Duration::from_mins(59), "{next:?}");
    assert_eq!(seqs(&place.due().await), [0; 0], "its time has not come");
    let rows = place.unsent().await;
    let blocked: Vec<bool> = rows.iter().map(|row| row.blocked).collect();
    assert_eq!((seqs(&rows), blocked), (vec![2, 3], vec![true, false]));

    place.pass_time().await;
    assert_eq!(place.next_due().await, Some(Duration::ZERO));
    let due = place.due().await;
    let [row] = &due[..] else { panic!("one is due: {due:?}") };
    assert!(row.waited && !row.blocked && row.event.is_ok() && row.delay.is_none());
    assert_eq!((row.id, row.attempts, row.aggregate.as_str()), (id, 1, "Order/a"));

    // It fails once more, then for good.
    place.failed(&[failure(id, 2, Some(HOUR))]).await;
    assert_eq!(seqs(&place.due().await), [0; 0]);
    place.failed(&[failure(id, 3, None)]).await;
    assert_eq!(place.count("failed_at IS NOT NULL AND retry_at IS NULL AND attempts = 3").await, 1);
    assert_eq!((place.next_due().await, seqs(&place.unsent().await)), (None, vec![2, 3]));
}

/// With the delivery goes what is held behind the row, up to the next that waits.
pub(super) async fn what_is_held_goes_after_the_delivery<F: Tested>(place: &mut Place<F>) {
    let id = place.waits("a", 3).await;
    let other = place.waits("b", 2).await;
    assert_eq!(seqs(&place.unsent().await), [0; 0]);
    assert!(!place.release().await, "nobody has asked for it");
    place.pass_time().await;
    assert_eq!(place.due().await.len(), 2);
    let late = [id];
    for _ in 0..2 {
        assert_eq!(place.mark(Marks { late: &late, ..Marks::default() }).await, Marked::All);
    }
    let sent = "sent_at IS NOT NULL AND failed_at IS NULL AND retry_at IS NULL AND error IS NULL";
    assert_eq!(place.count(sent).await, 1);
    assert_eq!(
        place.number("SELECT CAST(coalesce(sum(asked), 0) AS bigint) FROM outbox_releases").await,
        1
    );
    assert!(place.release().await);
    assert_eq!(seqs(&place.unsent().await), [2, 3]);
    assert_eq!(seqs(&place.due().await), [other.seq], "what else waits stays where it is");
    // Both ways at once: what was fresh is sent, what waited fails.
    let fresh = [place.id(2).await];
    let failed = [failure(other, 2, Some(HOUR))];
    let marks = Marks { sent: &fresh, late: &[], failed: &failed };
    assert_eq!(place.mark(marks).await, Marked::All);
    assert_eq!((seqs(&place.unsent().await), seqs(&place.due().await)), (vec![3], vec![0; 0]));
}

/// Whoever has lost the turn books nothing, and no row is taken for another of its number.
pub(super) async fn what_came_of_an_attempt_is_booked_in_the_turn_alone<F: Tested>(
    place: &mut Place<F>,
) {
    let id = place.waits("a", 2).await;
    place.pass_time().await;
    let strange = [RowId { event: uuid::Uuid::new_v4(), ..id }];
    let marks = Marks { late: &strange, ..Marks::default() };
    assert_eq!(place.mark(marks).await, Marked::Missing(1));
    assert_eq!(place.count(WAITS).await, 1, "it is another event");

    place.run(&format!("UPDATE outbox_relays SET lease_until = {}", F::PAST)).await;
    take_turn::<F>(&mut place.session).await;
    let late = [id];
    assert_eq!(place.mark(Marks { late: &late, ..Marks::default() }).await, Marked::NotOurs);
    assert_eq!(place.count(WAITS).await, 1, "the turn is another's");
    let failed = [failure(id, 2, None)];
    assert_eq!(place.mark(Marks { failed: &failed, ..Marks::default() }).await, Marked::NotOurs);
    assert_eq!(place.count(&format!("{WAITS} AND attempts = 1")).await, 1);
    assert_eq!(place.number("SELECT count(*) FROM outbox_releases").await, 0);
}

/// Of two that wait in an aggregate the second is not tried, though its time has come first: it is held.
pub(super) async fn a_row_behind_another_that_waits_is_held<F: Tested>(place: &mut Place<F>) {
    place.append(&["a", "a", "b"]).await;
    let rows = place.unsent().await;
    let failed: Vec<RowFailure> = rows.iter().map(|row| failure(row.id, 1, Some(HOUR))).collect();
    place.failed(&failed).await;
    place.run(&format!("UPDATE outbox_events SET retry_at = {} WHERE seq > 1", F::PAST)).await;
    let due = place.due().await;
    let blocked: Vec<bool> = due.iter().map(|row| row.blocked).collect();
    assert_eq!((seqs(&due), blocked), (vec![2, 3], vec![true, false]));
    assert!(F::hold(&mut place.session, place.turn, &[due[0].id]).await.unwrap());
    assert_eq!(seqs(&place.due().await), [3]);
    assert_eq!(place.count("held AND retry_at IS NULL").await, 1);
}

/// So many rows, so many bytes, the longest due first; the first whatever its size.
pub(super) async fn a_look_for_due_rows_has_bounds<F: Tested>(place: &mut Place<F>) {
    let names: Vec<String> = (0..6).map(|n| format!("a{n}")).collect();
    place.append(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let rows = place.unsent().await;
    let failed: Vec<RowFailure> = rows.iter().map(|row| failure(row.id, 1, Some(HOUR))).collect();
    place.failed(&failed).await;
    for seq in (1..=6).rev() {
        place
            .run(&format!("UPDATE outbox_events SET retry_at = {} WHERE seq = {seq}", F::PAST))
            .await;
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    let due = F::due(&mut place.session, 3, 1 << 20).await.unwrap();
    assert_eq!(seqs(&due), [6, 5, 4]);
    let bytes =
        place.number("SELECT CAST(min(length(headers)) AS bigint) FROM outbox_events").await;
    let bytes = usize::try_from(bytes).unwrap();
    let due = F::due(&mut place.session, 6, bytes * 2).await.unwrap();
    assert_eq!(seqs(&due), [6, 5]);
    assert_eq!(F::due(&mut place.session, 6, 1).await.unwrap().len(), 1);
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
    place.failed(&[failure(rows[0].id, 0, Some(delay))]).await;
    let early = "retry_at < deliver_after AND seq = 1";
    assert_eq!(place.count(early).await, 0);
    let overview = F::overview(&mut place.session).await.unwrap();
    assert_eq!((overview.delayed, overview.retrying, overview.failed), (1, 0, 0));
    // It is no failed row, unless it is named.
    let all = F::failed(&mut place.session, &Choice::default(), 10).await.unwrap();
    assert!(all.is_empty(), "{all:?}");
    let act = Act { who: "ada", why: "" };
    let step = F::discard(&mut place.session, &Choice::default(), 0, act).await.unwrap();
    assert_eq!((step.rows, step.last), (0, None));
    let one = Choice { seq: Some(1), ..Choice::default() };
    assert_eq!(F::failed(&mut place.session, &one, 10).await.unwrap().len(), 1);
    let step = F::retry(&mut place.session, &one, 0, act).await.unwrap();
    assert_eq!(step.rows, 1);
    assert!(place.unsent().await.iter().all(|row| row.delay.is_none()), "it goes now");
}

/// A person lets rows go at once or gives them up, those that wait, too; who and why is written with it.
pub(super) async fn a_person_decides_about_rows_that_wait<F: Tested>(place: &mut Place<F>) {
    let a = place.waits("a", 2).await;
    place.waits("b", 2).await;
    place.append(&["c"]).await;
    let c = place.id(5).await;
    place.failed(&[failure(c, 4, None)]).await;
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
    assert_eq!((step.rows, step.last), (1, Some(3)));
    let paid =
        Choice { event_type: Some("Paid".into()), error: Some("50".into()), ..Choice::default() };
    let step = F::retry(&mut place.session, &paid, 0, act).await.unwrap();
    assert_eq!((step.rows, step.last), (2, Some(5)));
    let step = F::retry(&mut place.session, &paid, 5, act).await.unwrap();
    assert_eq!((step.rows, step.last), (0, None), "nothing is left");
    let fresh = "failed_at IS NULL AND retry_at IS NULL AND attempts = 0 AND error IS NULL";
    assert_eq!(place.count(fresh).await, 2);
    assert_eq!(place.count("discarded_by = 'ada' AND retry_at IS NULL").await, 1);
    assert!(place.release().await);
    assert_eq!(seqs(&place.unsent().await), [1, 2, 4, 5]);
    assert_eq!((place.next_due().await, seqs(&place.due().await)), (None, vec![0; 0]));

    let written =
        "SELECT count(*) FROM outbox_audit WHERE who = 'ada' AND why = 'the address is right now'";
    assert_eq!(place.number(written).await, 2);
    let how = "what = 'retry' AND rows = 2 AND choice = '--error \"50\" --type Paid'";
    assert_eq!(place.number(&format!("{written} AND {how}")).await, 1);
    let how = "what = 'discard' AND rows = 1 AND choice = '--type Sold'";
    assert_eq!(place.number(&format!("{written} AND {how}")).await, 1);
    let ids = format!("CAST(event_ids AS text) LIKE '%{}%'", a.event);
    assert_eq!(place.number(&format!("{written} AND {ids}")).await, 1);

    let content = F::content(&mut place.session, 1, 10).await.unwrap().unwrap();
    assert_eq!((content.seq, content.event_id), (1, a.event.to_string()));
    assert_eq!((content.aggregate_id.as_str(), content.headers.as_str()), ("a", "[]"));
    assert_eq!((content.payload_bytes, content.failed_at, content.attempts), (None, None, 0));
    assert!(content.created_at.unwrap().ends_with('Z'));
    assert_eq!(F::content(&mut place.session, 99, 10).await.unwrap(), None);
}

/// Retention removes what was delivered late, and nothing that waits.
pub(super) async fn what_waits_is_never_removed<F: Tested>(place: &mut Place<F>) {
    let id = place.waits("a", 2).await;
    place.waits("b", 1).await;
    let late = [id];
    assert_eq!(place.mark(Marks { late: &late, ..Marks::default() }).await, Marked::All);
    place
        .run(&format!(
            "UPDATE outbox_events SET created_at = {}, failed_at = {}
        WHERE failed_at IS NOT NULL",
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

/// Commands of a build that does not know of `retry_at` leave it as it is: the row goes by its other columns.
pub(super) async fn what_an_older_build_has_changed_is_no_row_that_waits<F: Tested>(
    place: &mut Place<F>,
) {
    place.waits("a", 1).await;
    place.waits("b", 1).await;
    place.waits("c", 1).await;
    place.pass_time().await;
    place.run("UPDATE outbox_events SET failed_at = NULL, error = NULL WHERE seq = 1").await;
    place.run(&format!("UPDATE outbox_events SET discarded_at = {} WHERE seq = 2", F::PAST)).await;
    assert_eq!((seqs(&place.due().await), seqs(&place.unsent().await)), (vec![3], vec![1]));
    // It comes to be held again.
    place
        .run(&format!(
            "UPDATE outbox_events SET failed_at = {}, held = true WHERE seq = 1",
            F::PAST
        ))
        .await;
    assert_eq!(seqs(&place.due().await), [3]);
    let overview = F::overview(&mut place.session).await.unwrap();
    assert_eq!((overview.retrying, overview.failed), (1, 0));
}

/// Who writes rows by plain SQL may write any time: each look answers, and what is marked is marked.
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
    let look = RowQuery { aside: false, ..LOOK };
    let rows = F::unsent(&mut place.session, look).await.unwrap().rows;
    assert_eq!(
        (seqs(&rows), seqs(&place.unsent().await)),
        (vec![1, 2, 3, 4, 5], vec![1, 2, 3, 4, 5])
    );
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
        place.failed(&[failure(rows[2].id, 0, Some(after))]).await;
        let next = place.next_due().await.unwrap();
        assert!(next > HOUR && next.as_millis() <= 1_000_000_000_000, "{next:?}");
    }
    place.failed(&[failure(rows[3].id, 1, Some(HOUR))]).await;
    for (time, due) in [(late, vec![]), (early, vec![3, 4])] {
        place
            .run(&format!(
                "UPDATE outbox_events SET retry_at = {time}, failed_at = {time}, created_at = {time}
                 WHERE seq IN (3, 4)"
            ))
            .await;
        place.run(&format!("UPDATE outbox_events SET created_at = {time} WHERE seq = 5")).await;
        assert_eq!(seqs(&place.due().await), due);
        assert_eq!(place.next_due().await.unwrap() > HOUR, time == late);
        F::overview(&mut place.session).await.unwrap();
        F::reading(&mut place.session).await.unwrap();
        let one = Choice { seq: Some(3), ..Choice::default() };
        assert_eq!(F::failed(&mut place.session, &one, 10).await.unwrap().len(), 1);
        let content = F::content(&mut place.session, 3, 10).await.unwrap().unwrap();
        let shown = time.trim_matches('\'');
        assert_eq!(content.created_at.as_deref(), Some(shown));
        assert_eq!(content.deliver_after.as_deref(), Some(late.trim_matches('\'')));
    }
    for removed in [2, 0] {
        let pruned = F::prune(&mut place.session, Duration::from_secs(1), 100, 0).await.unwrap();
        assert_eq!(pruned.removed, removed);
        place.run(&format!("UPDATE outbox_events SET sent_at = {late} WHERE seq = 5")).await;
    }
}

/// However many topics and scopes of destinations rows wait for, all are named.
pub(super) async fn names_that_rows_wait_for_are_read_to_the_last<F: Tested>(place: &mut Place<F>) {
    assert_eq!(F::topics(&mut place.session).await.unwrap(), [""; 0]);
    place
        .run(&format!(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, failed_at, waits_for)
             WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 4200)
             SELECT {}, 'Paid', 'Order', CAST(n AS text), {}, 'destination shop ' || (n % 2100) FROM n",
            F::ID,
            F::PAST
        ))
        .await;
    let mut names = F::topics(&mut place.session).await.unwrap();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 2_100);
    let overview = F::overview(&mut place.session).await.unwrap();
    assert_eq!((overview.destinations_out.len(), overview.waiting_for_destination), (10, 4_200));
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
