//! Parked events in the hands of operators: found, asked for, and never changed by them beyond that.

use std::time::Duration;

use inbox_engine::internal::ParkReason;

use super::{
    Probe,
    scene::{RECORD, Scene, aggregate, claim_of, parking, step},
};
use inbox_store::internal::port::{
    AuditFilter, Forgotten, Intended, Intent, IntentRequest, Page, ParkedFilter, Parking, Scope,
    Weight, When,
};

const ALL: Page = Page { limit: 100, newest: false };

/// Events 1 to 5: 1 is exhausted and followed by 2 and 3, 4 is rejected, 5 is torn.
fn queues() -> Vec<Parking> {
    let error = |text: &str| {
        format!(
            r#"[{{"at":"t","attempt":1,"error":"first"}},{{"at":"t","attempt":2,"error":"{text}"}}]"#
        )
    };
    let follower = |number, offset| Parking {
        aggregate: aggregate(1),
        aggregate_text: "counter/1".into(),
        errors: "[]".into(),
        ..parking(number, offset, ParkReason::Follower)
    };
    let other = Parking { event_type: "Other".into(), ..parking(4, 3, ParkReason::Rejected) };
    vec![
        Parking { errors: error("No such Account"), ..parking(1, 0, ParkReason::Exhausted) },
        follower(2, 1),
        follower(3, 2),
        Parking { errors: error("never"), ..other },
        Parking { errors: error("cut in two"), ..parking(5, 4, ParkReason::Torn) },
    ]
}

const FIVE: [(u8, i64); 5] = [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4)];

async fn parked<DB: Probe>(settings: DB::Settings, name: &str) -> (Scene<DB>, Scope) {
    let mut scene = Scene::<DB>::new(settings, name).await;
    let scope = scene.take_over().await.scope;
    scene.park(&scope, &claim_of(&FIVE, &[step(0, -1, 4)]), &queues()).await;
    (scene, scope)
}

fn everything() -> ParkedFilter {
    ParkedFilter { followers: true, ..ParkedFilter::default() }
}

fn order(intent: Intent, who: &str, force: bool) -> IntentRequest {
    IntentRequest { intent, who: who.into(), why: "because".into(), force }
}

impl<DB: Probe> Scene<DB> {
    /// The offsets of what a filter finds, in the order of the list.
    async fn found(&mut self, filter: &ParkedFilter, page: Page) -> Vec<i64> {
        let consumer = self.request.consumer.clone();
        let rows = DB::list(&mut self.session, &consumer, filter, page).await.expect("the list");
        rows.iter().map(|row| row.offset).collect()
    }

    async fn intend(&mut self, filter: &ParkedFilter, order: &IntentRequest) -> Vec<Intended> {
        let consumer = self.request.consumer.clone();
        let written = DB::intend(&mut self.session, &consumer, filter, order, 0, 100).await;
        assert!(!DB::in_transaction(&self.session), "an intent left its transaction open");
        written.expect("the intents")
    }

    async fn weigh(&mut self, filter: &ParkedFilter, order: &IntentRequest) -> Weight {
        let consumer = self.request.consumer.clone();
        let weights = DB::weigh(&mut self.session, &consumer, filter, order).await;
        weights.expect("the weights").pop().unwrap_or_default()
    }

    /// Kind and author of each act, the oldest first.
    async fn acts(&mut self) -> Vec<(String, String, Option<i64>)> {
        let consumer = self.request.consumer.clone();
        let filter = AuditFilter::default();
        let acts = DB::acts(&mut self.session, &consumer, &filter, 100).await.expect("the audit");
        acts.into_iter().rev().map(|act| (act.what, act.who, act.offset)).collect()
    }

    /// The number of the event at an offset.
    async fn seq(&mut self, offset: i64) -> i64 {
        let sql = "SELECT parked_seq FROM inbox_parked WHERE consumer_ref = \
                   (SELECT consumer_ref FROM inbox_consumers WHERE consumer =";
        let consumer = self.request.consumer.clone();
        self.number(&format!("{sql} '{consumer}') AND \"offset\" = {offset}")).await
    }
}

/// Each filter finds what it says; heads alone unless followers are wanted, too.
pub async fn parked_events_are_found<DB: Probe>(settings: DB::Settings) {
    let (mut scene, _) = parked::<DB>(settings, "found").await;
    let none = ParkedFilter::default;
    assert_eq!(scene.found(&none(), ALL).await, [0, 3, 4]);
    assert_eq!(scene.found(&everything(), ALL).await, [0, 1, 2, 3, 4]);
    assert_eq!(scene.found(&none(), Page { limit: 2, newest: true }).await, [4, 3]);
    let text = |text: &str| Some(text.to_owned());
    let table: [(ParkedFilter, &[i64]); 10] = [
        (ParkedFilter { topic: text("found"), partition: Some(0), ..none() }, &[0, 3, 4]),
        (ParkedFilter { topic: text("elsewhere"), ..none() }, &[]),
        (ParkedFilter { partition: Some(1), ..none() }, &[]),
        (ParkedFilter { event_type: text("Other"), ..none() }, &[3]),
        (ParkedFilter { aggregate: text("counter/1"), ..none() }, &[0]),
        (ParkedFilter { aggregate: text("4"), ..none() }, &[3]),
        (ParkedFilter { reason: text("torn"), ..none() }, &[4]),
        (ParkedFilter { error: text("no such account"), ..none() }, &[0]),
        (ParkedFilter { error: text("FIRST"), ..none() }, &[0, 3, 4]),
        (ParkedFilter { error: text("attempt"), ..none() }, &[]),
    ];
    for (filter, offsets) in table {
        assert_eq!(scene.found(&filter, ALL).await, offsets, "{filter:?}");
    }
    let (second, queue) = (scene.seq(1).await, scene.seq(2).await);
    assert_eq!(scene.found(&ParkedFilter { seq: Some(second), ..everything() }, ALL).await, [1]);
    let queue = ParkedFilter { queue_of: Some(queue), ..everything() };
    assert_eq!(scene.found(&queue, ALL).await, [0, 1, 2]);
}

/// What a list tells of an event: its head, what follows it, its last error, when its turn comes.
pub async fn a_parked_event_is_told_whole<DB: Probe>(settings: DB::Settings) {
    let (mut scene, _) = parked::<DB>(settings, "told").await;
    let head = scene.seq(0).await;
    let rows = DB::list(&mut scene.session, "told", &everything(), ALL).await.expect("the list");
    let [first, second, _, rejected, _] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((first.head, first.followers, second.head, second.followers), (head, 2, head, 1));
    assert_eq!(first.error.as_deref(), Some("No such Account"));
    assert_eq!((second.error.as_deref(), second.due_at.as_deref()), (None, None));
    assert_eq!(rejected.due_at.as_deref(), Some("infinity"));
    assert_eq!((rejected.due_seconds, rejected.retired), (None, false));
    assert_eq!((&*rejected.event_type, &*rejected.aggregate), ("Other", "counter/4"));
    assert!(first.parked_at.starts_with("20") && first.parked_at.ends_with('Z'), "{first:?}");
    assert_eq!(first.parked_at.len(), "2026-01-01T00:00:00.000Z".len(), "{first:?}");
    let kept = DB::content(&mut scene.session, "told", head).await.expect("kept").expect("a row");
    assert!(kept.errors.contains("No such Account") && kept.record == RECORD, "{kept:?}");
    assert_eq!(DB::content(&mut scene.session, "nobody", head).await.expect("kept"), None);
    let counts = DB::counts(&mut scene.session, "told", &ParkedFilter::default()).await;
    let counts = counts.expect("the counts");
    assert_eq!((counts.events, counts.aggregates, counts.followers), (5, 3, 2));
    assert_eq!(counts.due + counts.scheduled + counts.waiting, 3);
}

/// Rule 4: an operator writes an intent and its audit row, on the head of a queue, once.
pub async fn a_release_is_asked_for_at_the_head<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = parked::<DB>(settings, "release-asked").await;
    let release = order(Intent::Release, "anna", false);
    let weight = scene.weigh(&everything(), &release).await;
    assert_eq!((weight.events, weight.free, weight.behind), (5, 2, 2));
    assert_eq!((weight.following, weight.doubtful, weight.same), (2, 1, 0));
    assert!(weight.owner.is_some() && weight.owner_seen_seconds.is_some(), "{weight:?}");
    let written = scene.intend(&everything(), &release).await;
    let first = scene.seq(0).await;
    assert_eq!(written.len(), 2);
    assert_eq!((written[0].seq, written[0].offset, written[0].last), (first, 0, 2));
    assert_eq!(
        (written[0].partition_ref, written[0].aggregate),
        (scope.partition_ref, aggregate(1))
    );
    assert_eq!(scene.intend(&everything(), &release).await, []);
    let anna = |offset| ("release".to_owned(), "anna".to_owned(), Some(offset));
    assert_eq!(scene.acts().await, [anna(0), anna(3)]);
    let weight = scene.weigh(&everything(), &release).await;
    assert_eq!((weight.free, weight.same), (0, 2));
    let due = ParkedFilter { when: Some(When::Due), ..everything() };
    assert_eq!(scene.found(&due, ALL).await, [0, 3]);
    let waiting = ParkedFilter { when: Some(When::Waiting), ..everything() };
    assert_eq!(scene.found(&waiting, ALL).await, [4]);
    let partition = scope.partition_ref;
    let untouched = format!(
        "SELECT count(*) FROM inbox_parked WHERE partition_ref = {partition} AND attempts = 2 AND releases = 0"
    );
    assert_eq!(scene.number(&untouched).await, 5, "an operator changed more than an intent");
}

/// A discard is written on what matches, wherever it is in its queue.
pub async fn a_discard_is_asked_for_anywhere<DB: Probe>(settings: DB::Settings) {
    let (mut scene, _) = parked::<DB>(settings, "discard-asked").await;
    let discard = order(Intent::Discard, "anna", false);
    let second = ParkedFilter { seq: Some(scene.seq(1).await), ..everything() };
    let written = scene.intend(&second, &discard).await;
    assert_eq!((written.len(), written[0].offset, written[0].last), (1, 1, 1));
    assert_eq!(scene.intend(&everything(), &discard).await.len(), 3);
    assert_eq!(scene.acts().await.len(), 4);
}

/// Events that may have had their effect, and what a colleague asked for, are left alone but by force.
pub async fn doubtful_events_need_force<DB: Probe>(settings: DB::Settings) {
    let (mut scene, _) = parked::<DB>(settings, "force").await;
    let torn = ParkedFilter { reason: Some("torn".into()), ..everything() };
    let release = order(Intent::Release, "anna", false);
    assert_eq!(scene.intend(&torn, &release).await, []);
    let forced = order(Intent::Release, "anna", true);
    assert_eq!(scene.weigh(&torn, &forced).await.free, 1);
    assert_eq!(scene.intend(&torn, &forced).await.len(), 1);
    let discard = order(Intent::Discard, "bert", false);
    let weight = scene.weigh(&torn, &discard).await;
    assert_eq!((weight.free, weight.opposite), (0, 1));
    assert_eq!(scene.intend(&torn, &discard).await, []);
    assert_eq!(scene.intend(&torn, &order(Intent::Discard, "bert", true)).await.len(), 1);
    let acts = [("release", "anna"), ("discard", "bert")]
        .map(|(what, who)| (what.into(), who.into(), Some(4)));
    assert_eq!(scene.acts().await, acts);
}

/// A bulk act goes in bounded steps, in order.
pub async fn intents_are_written_in_steps<DB: Probe>(settings: DB::Settings) {
    let (mut scene, _) = parked::<DB>(settings, "steps").await;
    let (discard, mut after, mut steps) = (order(Intent::Discard, "anna", true), 0, Vec::new());
    loop {
        let step = DB::intend(&mut scene.session, "steps", &everything(), &discard, after, 2).await;
        let step = step.expect("a step");
        let Some(last) = step.last() else { break };
        after = last.seq;
        steps.push(step.len());
    }
    assert_eq!(steps, [2, 2, 1]);
}

/// What became of an intent: gone, asked for still, or failed again.
pub async fn an_outcome_tells_what_is_left<DB: Probe>(settings: DB::Settings) {
    let (mut scene, scope) = parked::<DB>(settings, "outcome").await;
    let release = order(Intent::Release, "anna", false);
    let written = scene.intend(&everything(), &release).await;
    let intent_states =
        DB::intent_states(&mut scene.session, &release, &written).await.expect("outcomes");
    assert!(
        intent_states.len() == 2 && intent_states.iter().all(|outcome| outcome.pending),
        "{intent_states:?}"
    );
    // The owner has run the head, its follower has failed, and the other one is gone.
    let (partition, [first, second]) =
        (scope.partition_ref, [scene.seq(0).await, scene.seq(1).await]);
    let long = DB::LONG_AGO;
    scene.run(&format!("DELETE FROM inbox_parked WHERE partition_ref = {partition} AND parked_seq IN ({first}, {})", written[1].seq)).await;
    scene
        .run(&format!("UPDATE inbox_parked SET due_at = {long} WHERE parked_seq = {second}"))
        .await;
    let intent_states =
        DB::intent_states(&mut scene.session, &release, &written).await.expect("outcomes");
    assert_eq!(
        (intent_states.len(), intent_states[0].rest, intent_states[0].pending),
        (1, second, true)
    );
    let later = format!(
        "UPDATE inbox_parked SET reason = 'rejected', errors = '[{{\"error\":\"still\"}}]', \
         due_at = (SELECT max(due_at) FROM inbox_parked WHERE reason = 'torn' AND partition_ref = {partition}) \
         WHERE parked_seq = {second}"
    );
    scene.run(&later).await;
    let intent_states =
        DB::intent_states(&mut scene.session, &release, &written).await.expect("outcomes");
    assert_eq!(
        (intent_states[0].seq, intent_states[0].rest, intent_states[0].pending),
        (first, second, false)
    );
    assert_eq!(
        (&*intent_states[0].reason, intent_states[0].error.as_deref()),
        ("rejected", Some("still"))
    );
    scene.run(&format!("DELETE FROM inbox_parked WHERE partition_ref = {partition}")).await;
    assert_eq!(
        DB::intent_states(&mut scene.session, &release, &written).await.expect("outcomes"),
        []
    );
}

/// Rule `ConsumerScope`: another consumer's events are nobody's business here.
pub async fn operators_see_their_consumer_only<DB: Probe>(settings: DB::Settings) {
    let (mut scene, _) = parked::<DB>(settings, "theirs").await;
    let head = scene.seq(0).await;
    let of = ParkedFilter { seq: Some(head), ..everything() };
    assert_eq!(DB::list(&mut scene.session, "ours", &of, ALL).await.expect("the list"), []);
    let release = order(Intent::Release, "anna", true);
    let written = DB::intend(&mut scene.session, "ours", &of, &release, 0, 100).await;
    assert_eq!(written.expect("intents"), []);
    assert_eq!(DB::weigh(&mut scene.session, "ours", &of, &release).await.expect("weights"), []);
    assert_eq!(scene.acts().await, []);
}

/// The words of one aggregate go out of the audit, those of others stay; what is older than the audit is kept goes.
pub async fn an_aggregate_is_forgotten_and_the_audit_ends<DB: Probe>(settings: DB::Settings) {
    let (mut scene, _) = parked::<DB>(settings, "forgotten").await;
    let consumer = scene.request.consumer.clone();
    let discard = order(Intent::Discard, "anna", true);
    assert_eq!(scene.intend(&everything(), &discard).await.len(), 5);
    let (aggregate, who) = ("counter/1".to_owned(), "bert".to_owned());
    let forgotten = Forgotten { aggregate, topic: None, who };
    let elsewhere = Forgotten { topic: Some("elsewhere".into()), ..forgotten.clone() };
    for (forgotten, erased) in [(elsewhere, 0), (forgotten, 3)] {
        let acts = DB::forget(&mut scene.session, &consumer, &forgotten).await.expect("forgetting");
        assert!(!DB::in_transaction(&scene.session), "forgetting left its transaction open");
        assert_eq!(acts, erased);
    }
    let all = AuditFilter::default();
    let acts = DB::acts(&mut scene.session, &consumer, &all, 100).await.expect("the audit");
    assert!(acts.iter().all(|act| act.aggregate.as_deref() != Some("counter/1")));
    assert_eq!(acts.iter().filter(|act| act.why == "because").count(), 2, "of the others");
    let own: Vec<_> = acts.iter().filter(|act| act.what == "forget").collect();
    assert!(own.len() == 2 && own.iter().all(|act| act.who == "bert" && act.why.is_empty()));

    tokio::time::sleep(Duration::from_millis(5)).await;
    for (age, removed) in [(Duration::from_hours(1), 0), (Duration::ZERO, 7)] {
        let acts = DB::prune_audit(&mut scene.session, &consumer, age).await.expect("pruning");
        assert_eq!(acts, removed);
    }
}
