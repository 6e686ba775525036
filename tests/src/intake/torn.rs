//! Handlers that end the transaction of an intake: nobody knows whether their events are whole.

use serde_json::json;

use super::{
    Acted, Look, Server, config,
    scenarios::{envelope, id},
};
use crate::{SOON, eventually};

/// What [`a_commit_is_torn_whoever_passes_it`] waits for in the handler of the torn event.
pub const PASSING: i64 = 99;

/// What a handler's own COMMIT leaves is parked as torn in the same request, and is not run again. So is what was in the
/// transaction with it; what follows waits, other aggregates go on.
pub async fn a_commit_of_a_handler_is_torn<DB: Acted>(url: &str, look: &impl Look) {
    let server = Server::start::<DB>(config("torn", url)).await;
    let client = server.client();
    let head = envelope(&id(), "a", 1, "commits");
    let torn = client.envelope(&head).await;
    assert_eq!((torn.status, &torn.body["reason"]), (202, &json!("torn")), "{torn:?}");
    let copy = client.envelope(&head).await;
    assert_eq!((copy.status, &copy.body["reason"]), (202, &json!("copy")), "{copy:?}");
    let behind = client.envelope(&envelope(&id(), "a", 2, "")).await;
    assert_eq!((behind.status, &behind.body["reason"]), (202, &json!("follower")));
    let beside = client.envelope(&envelope(&id(), "b", 3, "")).await;
    assert_eq!((beside.status, beside.event()), (200, "applied"));
    assert_eq!(look.number("SELECT count(*) FROM effects WHERE n = 1").await, 1);
    assert_eq!(look.number("SELECT count(*) FROM effects WHERE n = 2").await, 0);

    let list = json!([
        envelope(&id(), "c", 11, ""),
        envelope(&id(), "d", 12, "commits"),
        envelope(&id(), "e", 13, ""),
    ]);
    let torn = client.envelope(&list).await;
    assert_eq!((torn.status, torn.events()), (202, vec!["parked"; 3]), "{torn:?}");
    let parked = "SELECT count(*) FROM inbox_parked WHERE reason = 'torn'";
    assert_eq!(look.number(parked).await, 4);
    assert_eq!(look.number("SELECT count(*) FROM effects WHERE n = 12").await, 1);
    let twice =
        "SELECT count(*) FROM (SELECT 1 FROM effects GROUP BY event_id HAVING count(*) > 1) t";
    assert_eq!(look.number(twice).await, 0, "an event was run twice");
    server.stop().await;
}

/// The handler's COMMIT has let go of the lane, and another process moves it past the event before anybody looks: the
/// row is the only thing that is left, and the event is no copy of itself.
pub async fn a_commit_is_torn_whoever_passes_it<DB: Acted>(url: &str, look: &impl Look) {
    let server = Server::start::<DB>(config("passed", url)).await;
    let other = Server::start::<DB>(config("passed", url)).await;
    let (client, event) = (server.client(), envelope(&id(), "a", 1, "commits_and_waits"));
    let torn = tokio::spawn({
        let (client, event) = (client.clone(), event.clone());
        async move { client.envelope(&event).await }
    });
    eventually(SOON, "its handler has committed", async || {
        look.number("SELECT count(*) FROM effects WHERE n = 1").await == 1
    })
    .await;
    let passing = other.client().envelope(&envelope(&id(), "a", PASSING, "")).await;
    assert_eq!((passing.status, passing.event()), (200, "applied"), "{passing:?}");
    let torn = torn.await.expect("no panic");
    assert_eq!((torn.status, &torn.body["reason"]), (202, &json!("torn")), "{torn:?}");
    let copy = other.client().envelope(&event).await;
    assert_eq!((copy.status, &copy.body["reason"]), (202, &json!("copy")), "{copy:?}");
    assert_eq!(look.number("SELECT count(*) FROM effects WHERE n = 1").await, 1);
    server.stop().await;
    other.stop().await;
}
