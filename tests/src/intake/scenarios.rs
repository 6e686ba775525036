//! What an intake does, on either database.

use std::{io::Read as _, time::Duration};

use flate2::{Compression, bufread::GzEncoder};
use futures::future::join_all;
use inbox_consumer::config::Config;
use serde_json::{Value, json};
use service_kit::WebhookKey;
use standardwebhooks::Webhook;
use uuid::Uuid;

use super::{Acted, Answer, Client, Look, Server, config};
use crate::{SOON, eventually};

/// The secret of signed requests.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// An event in our envelope.
#[must_use]
pub fn envelope(id: &str, aggregate: &str, n: i64, act: &str) -> Value {
    json!({
        "event_id": id, "event_type": "Counted", "aggregate_type": "Order", "aggregate_id": aggregate,
        "payload": { "n": n, "act": act },
    })
}

/// A new event's id.
#[must_use]
pub fn id() -> String {
    Uuid::now_v7().to_string()
}

/// An event has one effect, and its copies are told to be copies; another event under its id is refused.
pub async fn one_effect<DB: Acted>(url: &str, look: &impl Look) {
    let server = Server::start::<DB>(config("once", url)).await;
    let (client, id) = (server.client(), id());
    let first = client.envelope(&envelope(&id, "a", 1, "")).await;
    assert_eq!((first.status, first.event()), (200, "applied"), "{first:?}");
    assert_eq!(first.body["event_id"], json!(id));
    let copy = client.envelope(&envelope(&id, "a", 1, "")).await;
    assert_eq!((copy.status, copy.event()), (200, "copy"));
    let other = client.envelope(&envelope(&id, "a", 2, "")).await;
    assert_eq!((other.status, other.event(), &other.after), (409, "mismatch", &None));
    let mut ignored = envelope(&self::id(), "a", 1, "");
    ignored["event_type"] = json!("Ignored");
    assert_eq!(client.envelope(&ignored).await.event(), "ignored");
    assert_eq!(look.number("SELECT count(*) FROM effects").await, 1);
    assert_eq!(look.number("SELECT count(*) FROM inbox_parked").await, 0);
    server.stop().await;
}

/// Copies that come at once, many events at once: one effect each, and one of each five says that it was applied.
pub async fn copies_at_once<DB: Acted>(url: &str, look: &impl Look) {
    let server = Server::start::<DB>(config("copies", url)).await;
    let client = server.client();
    let events: Vec<Value> =
        (0..40).map(|n| envelope(&id(), &format!("a{}", n % 7), n, "")).collect();
    let sent = events.iter().flat_map(|event| (0..5).map(|_| client.envelope(event)));
    let answers = join_all(sent).await;
    for five in answers.chunks(5) {
        let applied = five.iter().filter(|answer| answer.event() == "applied").count();
        let copies = five.iter().filter(|answer| answer.event() == "copy").count();
        assert_eq!((applied, copies), (1, 4), "{five:?}");
    }
    assert_eq!(look.number("SELECT count(*) FROM effects").await, 40);
    assert_eq!(look.number("SELECT count(DISTINCT event_id) FROM effects").await, 40);
    server.stop().await;
}

/// Nobody looks for ids while no copy has come: a list with the first ones is taken as it is, and so are those after it. It
/// is too long to be halved until each event is alone.
pub async fn copies_in_lists<DB: Acted>(url: &str, look: &impl Look) {
    let server = Server::start::<DB>(config("lists", url)).await;
    let client = server.client();
    let list = |count| -> Vec<Value> {
        (0..count).map(|n| envelope(&id(), &format!("a{}", n % 7), n, "")).collect()
    };
    let first = list(400);
    let taken = client.envelope(&json!(first)).await;
    assert_eq!((taken.status, taken.events()), (200, vec!["applied"; 400]));
    let both = [first, list(100)].concat();
    let copies = client.envelope(&json!(both)).await;
    assert_eq!(copies.status, 200, "{copies:?}");
    assert_eq!(copies.events(), [vec!["copy"; 400], vec!["applied"; 100]].concat());
    let again = client.envelope(&json!(both)).await;
    assert_eq!((again.status, again.events()), (200, vec!["copy"; 500]));
    assert_eq!(look.number("SELECT count(*) FROM effects").await, 500);
    server.stop().await;
}

/// A route that looks at versions has them in order, whatever order they come in.
pub async fn versions_in_order<DB: Acted>(url: &str, look: &impl Look) {
    let server = Server::start::<DB>(config("versions", url)).await;
    let client = server.client();
    let versioned = |version: i64| {
        let mut event = envelope(&id(), "a", version, "");
        event["event_type"] = json!("Versioned");
        event["aggregate_version"] = json!(version);
        event
    };
    assert_eq!(client.envelope(&versioned(1)).await.event(), "applied");
    let early = versioned(3);
    let waits = client.envelope(&early).await;
    assert_eq!((waits.status, &waits.body["reason"]), (202, &json!("gap")), "{waits:?}");
    let again = client.envelope(&early).await;
    assert_eq!((again.status, &again.body["reason"]), (202, &json!("copy")), "{again:?}");
    assert_eq!(client.envelope(&versioned(2)).await.event(), "applied");
    eventually(SOON, "what waited is run", async || {
        look.number("SELECT count(*) FROM effects").await == 3
    })
    .await;
    let copy = client.envelope(&early).await;
    assert_eq!((copy.status, copy.event()), (200, "copy"));
    let stale = client.envelope(&versioned(3)).await;
    assert_eq!((stale.status, stale.event()), (200, "stale"));
    let list = client.envelope(&json!([versioned(6), versioned(5), versioned(4)])).await;
    assert_eq!((list.status, list.events()), (200, vec!["applied"; 3]), "{list:?}");
    let order = "SELECT count(*) FROM effects WHERE n = seq + 1";
    assert_eq!(look.number(order).await, 6);
    server.stop().await;
}

/// What may succeed later is told so and leaves nothing; what follows it in its request waits with it.
pub async fn a_failure_leaves_nothing<DB: Acted>(url: &str, look: &impl Look) {
    let server = Server::start::<DB>(config("failing", url)).await;
    let client = server.client();
    for act in ["mendable", "panics"] {
        server.fail(true);
        let list = json!([
            envelope(&id(), "a", 1, act),
            envelope(&id(), "a", 2, ""),
            envelope(&id(), "b", 1, ""),
        ]);
        let failed = client.envelope(&list).await;
        assert_eq!((failed.status, failed.after.as_deref()), (503, Some("1")), "{failed:?}");
        assert_eq!(failed.events(), ["again", "again", "applied"], "{failed:?}");
        server.fail(false);
        let again = client.envelope(&list).await;
        assert_eq!((again.status, again.events()), (200, vec!["applied", "applied", "copy"]));
    }
    let order =
        "SELECT count(*) FROM effects x JOIN effects y ON x.aggregate = 'a' AND y.aggregate = 'a'
        WHERE x.n = 2 AND y.n = 1 AND x.seq = y.seq + 1";
    assert_eq!(look.number(order).await, 2);
    assert_eq!(look.number("SELECT count(*) FROM effects").await, 6);
    server.stop().await;
}

/// What follows a failed event in its request waits with it in whichever transaction it would have come: there are more
/// of them than one careful transaction takes.
pub async fn a_failure_holds_a_long_list<DB: Acted>(url: &str, look: &impl Look) {
    let server = Server::start::<DB>(config("holding", url)).await;
    let client = server.client();
    let act = |n: i64| if n == 0 { "mendable" } else { "" };
    let list: Vec<Value> = (0..40).map(|n| envelope(&id(), "a", n, act(n))).collect();
    let list = Value::Array(list);
    server.fail(true);
    let failed = client.envelope(&list).await;
    assert_eq!((failed.status, failed.events()), (503, vec!["again"; 40]), "{failed:?}");
    assert_eq!(look.number("SELECT count(*) FROM effects").await, 0);
    server.fail(false);
    let again = client.envelope(&list).await;
    assert_eq!((again.status, again.events()), (200, vec!["applied"; 40]), "{again:?}");
    assert_eq!(look.number("SELECT count(*) FROM effects WHERE n = seq").await, 40);
    server.stop().await;
}

/// What never succeeds is parked with what follows it, is seen by its copies, and is released when somebody asks.
pub async fn a_rejected_event_is_parked<DB: Acted>(url: &str, look: &impl Look) {
    let server = Server::start::<DB>(config("parking", url)).await;
    let client = server.client();
    server.fail(true);
    let (head, follower) = (envelope(&id(), "a", 1, "rejected"), envelope(&id(), "a", 2, ""));
    let parked = client.envelope(&head).await;
    assert_eq!((parked.status, parked.event()), (202, "parked"), "{parked:?}");
    assert_eq!(parked.body["reason"], json!("rejected"));
    let behind = client.envelope(&follower).await;
    assert_eq!((behind.status, &behind.body["reason"]), (202, &json!("follower")));
    let copy = client.envelope(&head).await;
    assert_eq!((copy.status, &copy.body["reason"]), (202, &json!("copy")));
    let beside = client.envelope(&envelope(&id(), "b", 1, "")).await;
    assert_eq!((beside.status, beside.event()), (200, "applied"));
    let listed = "SELECT count(*) FROM inbox_parked q JOIN inbox_partitions p ON p.partition_ref = q.partition_ref
        WHERE p.topic = 'http:events' AND q.aggregate = 'Order/a'";
    assert_eq!(look.number(listed).await, 2);
    server.fail(false);
    look.run("UPDATE inbox_parked SET intent = 'release', intent_by = 'a test' WHERE reason = 'rejected'")
        .await;
    eventually(SOON, "the queue is released", async || {
        look.number("SELECT count(*) FROM inbox_parked").await == 0
    })
    .await;
    let order =
        "SELECT count(*) FROM effects x JOIN effects y ON x.aggregate = 'a' AND y.aggregate = 'a'
        WHERE x.n = 2 AND y.n = 1 AND x.seq = y.seq + 1";
    assert_eq!(look.number(order).await, 1);
    let copy = client.envelope(&head).await;
    assert_eq!((copy.status, copy.event()), (200, "copy"));
    let watermark = "SELECT watermark FROM inbox_partitions WHERE topic = 'http:events'";
    eventually(SOON, "the watermark follows", async || look.number(watermark).await > 0).await;
    server.stop().await;
}

/// A list that holds something unreadable is refused whole, and says what it is.
pub async fn bad_input_is_refused<DB: Acted>(url: &str, look: &impl Look) {
    let mut config = config("refusing", url);
    config.intake.body_bytes_max = 4096;
    config.intake.events_max = 3;
    let server = Server::start::<DB>(config).await;
    let client = server.client();
    let good = || envelope(&id(), "a", 1, "");
    let without = |name: &str| {
        let mut event = good();
        event.as_object_mut().expect("an object").remove(name);
        event
    };
    for (body, status, words) in [
        (json!([good(), without("event_type")]), 400, "event_type"),
        (json!([good(), without("payload")]), 400, "payload"),
        (without("event_id"), 400, "event_id"),
        (json!({ "event_id": "", "event_type": "Counted", "payload": 1 }), 400, "id"),
        (json!({ "evnt_id": "" }), 400, "evnt_id"),
        (json!([good(), good(), good(), good()]), 413, "at most 3 are allowed"),
        (envelope(&id(), "a", 1, &"x".repeat(5000)), 413, "4096 bytes"),
        (json!([]), 200, ""),
    ] {
        let answer = client.envelope(&body).await;
        assert_eq!(answer.status, status, "{body} {answer:?}");
        let error = answer.body["error"].as_str().unwrap_or_default();
        assert!(error.contains(words), "{error}");
        assert_eq!(answer.after, None);
        let is_list = body.as_array().is_some_and(|events| events.len() == 2);
        assert_eq!(answer.body["event"].as_u64(), is_list.then_some(1), "{answer:?}");
    }
    for (headers, status) in [
        (&[("content-type", "text/plain")][..], 415),
        (&[("content-type", "application/json"), ("content-encoding", "br")], 415),
        (&[("content-type", "application/json"), ("content-encoding", "gzip, gzip")], 415),
        (&[("content-type", "application/json"), ("content-encoding", "gzip")], 400),
        (&[("content-type", "application/json")], 400),
    ] {
        assert_eq!(client.send(headers, "{").await.status, status, "{headers:?}");
    }
    for (method, path, status, words) in [
        (reqwest::Method::GET, "", 405, "accepts POST, not GET"),
        (reqwest::Method::POST, "/more", 404, "send events to /events"),
    ] {
        let answer = client.request(method, path).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.body["error"].as_str().is_some_and(|error| error.contains(words)));
    }
    assert_eq!(look.number("SELECT count(*) FROM effects").await, 0);
    server.stop().await;
}

/// What gzip makes of a text.
#[must_use]
pub fn packed(text: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let read = GzEncoder::new(text, Compression::best()).read_to_end(&mut packed);
    read.expect("memory takes everything");
    packed
}

/// A body of gzip is one with its content, however it is signed: as it is sent, or as it was before it was packed. What
/// it holds has the bound of all bodies.
pub async fn packed_bodies<DB: Acted>(url: &str, look: &impl Look) {
    let (mut config, _file) = config_with_secret("packed", url);
    config.intake.body_bytes_max = 4096;
    let server = Server::start::<DB>(config).await;
    let client = server.client();
    let (now, key) = (unix_seconds(), WebhookKey::read(SECRET).expect("a secret"));
    let send = async |id: &str, packed: Vec<u8>, signed: &[u8], encoding: &str| {
        let now = now.to_string();
        let signature = key.sign(id, &now, signed);
        let headers = [
            ("webhook-id", id),
            ("webhook-timestamp", &*now),
            ("webhook-signature", &*signature),
            ("event-type", "Counted"),
            ("content-encoding", encoding),
        ];
        client.send(&headers, packed).await
    };
    let body = br#"{"n":1}"#;
    assert_eq!(send("m1", packed(body), &packed(body), "gzip").await.event(), "applied");
    assert_eq!(send("m1", packed(body), body, "GZIP").await.event(), "copy");
    assert_eq!(send("m2", packed(body), body, "x-gzip").await.event(), "applied");
    assert_eq!(send("m2", body.to_vec(), body, "identity").await.event(), "copy");
    assert_eq!(send("m3", packed(body), b"another", "gzip").await.status, 401);
    let bomb = packed(&vec![b' '; 1 << 20]);
    assert!(bomb.len() < 4096, "{}", bomb.len());
    let answer = send("m3", bomb.clone(), &bomb, "gzip").await;
    assert_eq!(answer.status, 413, "{answer:?}");
    let cut = &bomb[..bomb.len() / 2];
    assert_eq!(send("m3", cut.to_vec(), cut, "gzip").await.status, 413);
    let cut = &packed(body)[..10];
    let answer = send("m3", cut.to_vec(), cut, "gzip").await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.body["error"].as_str().is_some_and(|error| error.contains("gzip")));
    assert_eq!(look.number("SELECT count(*) FROM effects").await, 2);
    server.stop().await;
}

/// Each of many events is found out in a transaction of its own, however many those are.
pub async fn a_long_list_that_is_rejected_is_parked<DB: Acted>(url: &str, look: &impl Look) {
    const EVENTS: usize = 240;
    let mut config = config("rejecting", url);
    config.intake.lanes = 1;
    config.intake.request_timeout = Duration::from_mins(2);
    let server = Server::start::<DB>(config).await;
    server.fail(true);
    let list: Vec<Value> =
        (0..EVENTS).map(|n| envelope(&id(), &format!("a{n}"), 1, "rejected")).collect();
    let answer = server.client().envelope(&Value::Array(list)).await;
    assert_eq!((answer.status, answer.events()), (202, vec!["parked"; EVENTS]), "{answer:?}");
    assert_eq!(look.number("SELECT count(*) FROM inbox_parked").await, 240);
    server.stop().await;
}

/// Who sends events by HTTP knows of no record, and of no key.
pub async fn answers_name_the_parts_of_senders<DB: Acted>(url: &str, look: &impl Look) {
    let mut config = config("naming", url);
    config.intake.webhook_aggregate_id = Some("/data/order".into());
    let server = Server::start::<DB>(config).await;
    let client = server.client();
    let cloud = r#"{"specversion":"1.0","id":"1","source":"/s","type":"Counted","time":"yesterday","data":{"n":1}}"#;
    let late = r#"{"type":"Counted","timestamp":"yesterday","n":1,"data":{"order":1}}"#;
    let nul = r#"{"type":"Counted","n":1,"data":{"order":"a\u0000b"}}"#;
    let own =
        r#"{"event_id":"1","event_type":"Counted","occurred_at":"yesterday","payload":{"n":1}}"#;
    let webhook = ("webhook-id", "m1");
    for (headers, body, name) in [
        (&[("content-type", "application/cloudevents+json")][..], cloud, "`time`"),
        (&[webhook], late, "`timestamp`"),
        (&[webhook], nul, "`/data/order`"),
        (&[("content-type", "application/json")], own, "`occurred_at`"),
    ] {
        let answer = client.send(headers, body).await;
        let error = answer.body["error"].as_str().unwrap_or_default();
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(error.starts_with(name) && !error.contains("record"), "{error}");
    }
    assert_eq!(look.number("SELECT count(*) FROM effects").await, 0);
    server.stop().await;
}

/// CloudEvents in their three forms, and a webhook as the relay sends it and as others do.
pub async fn formats<DB: Acted>(url: &str, look: &impl Look) {
    let mut config = config("formats", url);
    config.intake.webhook_aggregate_id = Some("/data/order".into());
    let server = Server::start::<DB>(config).await;
    let client = server.client();
    let event = |id: &str, n: i64| {
        json!({
            "specversion": "1.0", "id": id, "source": "/shop", "type": "Counted", "subject": "c",
            "aggregatetype": "Order", "time": "2026-01-31T09:30:00Z", "data": { "n": n },
        })
    };
    let structured = [("content-type", "application/cloudevents+json; charset=utf-8")];
    let batch = [("content-type", "application/cloudevents-batch+json")];
    let one = client.send(&structured, event("one", 1).to_string()).await;
    assert_eq!((one.status, one.event(), &one.body["event_id"]), (200, "applied", &json!("one")));
    let two = json!([event("one", 1), event("two", 2)]);
    assert_eq!(client.send(&batch, two.to_string()).await.events(), ["copy", "applied"]);
    let binary = [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "two"),
        ("ce-source", "/shop"),
        ("ce-type", "Counted"),
        ("ce-subject", "c"),
        ("ce-aggregatetype", "Order"),
    ];
    assert_eq!(client.send(&binary, r#"{"n":2}"#).await.event(), "copy");
    let mut elsewhere = event("two", 2);
    elsewhere["source"] = json!("/depot");
    assert_eq!(client.send(&structured, elsewhere.to_string()).await.event(), "applied");
    let mut old = event("three", 3);
    old["specversion"] = json!("0.3");
    assert_eq!(client.send(&structured, old.to_string()).await.status, 400);
    let relayed = [
        ("content-type", "application/json"),
        ("webhook-id", "r1"),
        ("event-type", "Counted"),
        ("aggregate-type", "Order"),
        ("aggregate-id", "caf%C3%A9"),
    ];
    assert_eq!(client.send(&relayed, r#"{"n":5}"#).await.event(), "applied");
    assert_eq!(look.number("SELECT count(*) FROM effects WHERE aggregate = 'café'").await, 1);
    let foreign = [("content-type", "application/json"), ("webhook-id", "msg_1")];
    let body = r#"{"type":"Counted","timestamp":"2026-01-31T09:30:00Z","n":6,"data":{"order":17}}"#;
    let answer = client.send(&foreign, body).await;
    assert_eq!((answer.status, answer.event()), (200, "applied"), "{answer:?}");
    assert_eq!(look.number("SELECT count(*) FROM effects WHERE aggregate = '17'").await, 1);
    let unplaced = client.send(&[("webhook-id", "msg_2")], r#"{"type":"Counted","n":6}"#).await;
    assert_eq!(unplaced.status, 400, "{unplaced:?}");
    server.stop().await;
}

/// A configuration whose requests are signed with [`SECRET`], and the file that holds it.
fn config_with_secret(name: &str, url: &str) -> (Config, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), format!("{SECRET}\n")).expect("a file");
    let mut config = config(name, url);
    config.intake.secret_files = vec![file.path().display().to_string()];
    (config, file)
}

fn unix_seconds() -> i64 {
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock");
    i64::try_from(now.as_secs()).expect("a time before the end of 64 bits")
}

/// Sends a webhook with a signature of `signed`, which is its body where the signature is to be right.
async fn send_signed(client: &Client, (id, at): (&str, i64), body: &str, signed: &str) -> Answer {
    let webhook = Webhook::new(SECRET).expect("a secret");
    let signature = webhook.sign(id, at, signed.as_bytes()).expect("a signature");
    let at = at.to_string();
    let headers = [
        ("webhook-id", id),
        ("webhook-timestamp", at.as_str()),
        ("webhook-signature", signature.as_str()),
        ("event-type", "Counted"),
    ];
    client.send(&headers, body.to_owned()).await
}

/// With secrets each request has to be signed.
pub async fn signatures<DB: Acted>(url: &str, look: &impl Look) {
    let (config, _file) = config_with_secret("signed", url);
    let server = Server::start::<DB>(config).await;
    let client = server.client();
    let now = unix_seconds();
    let body = r#"{"n":1}"#;
    let signed = async |at: i64, body: &str, signed: &str| {
        send_signed(&client, ("m1", at), body, signed).await
    };
    assert_eq!(signed(now, body, "another body").await.status, 401);
    assert_eq!(signed(now - 400, body, body).await.status, 401);
    let unsigned = client.envelope(&envelope(&id(), "a", 1, "")).await;
    assert_eq!(unsigned.status, 401);
    assert!(unsigned.body["error"].as_str().is_some_and(|error| error.contains("webhook-id")));
    assert_eq!(look.number("SELECT count(*) FROM effects").await, 0);
    assert_eq!(signed(now, body, body).await.event(), "applied");
    assert_eq!(signed(now - 100, body, body).await.event(), "copy");
    let webhook = Webhook::new(SECRET).expect("a secret");
    let (signature, now) = (webhook.sign("m1", now, body.as_bytes()), now.to_string());
    let signature = signature.expect("a signature");
    let binary = [
        ("webhook-id", "m1"),
        ("webhook-timestamp", now.as_str()),
        ("webhook-signature", signature.as_str()),
        ("ce-specversion", "1.0"),
        ("ce-id", "another"),
        ("ce-source", "/shop"),
        ("ce-type", "Counted"),
    ];
    let unsigned = client.send(&binary, body).await;
    assert_eq!(unsigned.status, 401);
    assert!(unsigned.body["error"].as_str().is_some_and(|error| error.contains("ce-")));
    assert_eq!(look.number("SELECT count(*) FROM effects").await, 1);
    server.stop().await;
}

/// A secret that is taken away is valid for some seconds at most, even while a release of a parked event takes longer.
/// Where another event can be taken meanwhile.
pub async fn a_secret_goes_during_a_release<DB: Acted>(url: &str, look: &impl Look) {
    let (config, file) = config_with_secret("secret-goes", url);
    let server = Server::start::<DB>(config).await;
    let client = server.client();
    let signed =
        async |id: &str, body: &str| send_signed(&client, (id, unix_seconds()), body, body).await;
    server.fail(true);
    let parked = signed("held", r#"{"n":1,"act":"holds"}"#).await;
    assert_eq!((parked.status, parked.event()), (202, "parked"), "{parked:?}");
    look.run("UPDATE inbox_parked SET intent = 'release', intent_by = 'anna'").await;
    server.fail(false);
    eventually(SOON, "it is being released", async || server.holds()).await;
    let another = "whsec_aGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8=\n";
    std::fs::write(file.path(), another).expect("a file");
    eventually(SOON, "the secret is gone", async || {
        signed("other", r#"{"n":2}"#).await.status == 401
    })
    .await;
    assert!(server.holds(), "the release is over, so nothing is shown");
    server.fail(true);
    eventually(SOON, "it is released", async || {
        look.number("SELECT count(*) FROM inbox_parked").await == 0
    })
    .await;
    server.stop().await;
}

/// Senders that know neither the envelope nor webhooks: the configuration says where the parts are.
pub async fn forms_of_senders<DB: Acted>(url: &str, look: &impl Look) {
    let json = ("content-type", "application/json");
    let mut fields = config("fields", url);
    let place = |text: &str| Some(text.to_owned());
    (fields.intake.map_id, fields.intake.map_type) = (place("/id"), place("/type"));
    fields.intake.map_payload = place("/payload");
    let server = Server::start::<DB>(fields).await;
    let (client, body) = (server.client(), r#"{"id":"e-1","type":"Counted","payload":{"n":1}}"#);
    let first = client.send(&[json], body).await;
    assert_eq!(
        (first.status, first.event(), &first.body["event_id"]),
        (200, "applied", &json!("e-1"))
    );
    assert_eq!(client.send(&[json], body).await.event(), "copy");
    server.stop().await;

    let mut headers = config("headers", url);
    headers.intake.map_id = place("header:Idempotency-Key");
    headers.intake.map_type = place("header:X-Event-Type");
    let server = Server::start::<DB>(headers).await;
    let client = server.client();
    let sent = [json, ("idempotency-key", "k-1"), ("x-event-type", "Counted")];
    assert_eq!(client.send(&sent, r#"{"n":1}"#).await.event(), "applied");
    assert_eq!(client.send(&sent, r#"{"n":1}"#).await.event(), "copy");
    let untyped = client.send(&sent[..2], r#"{"n":1}"#).await;
    assert_eq!(
        (untyped.status, &untyped.body["error"]),
        (400, &json!("`x-event-type` is missing or empty"))
    );
    assert_eq!(look.number("SELECT count(*) FROM effects").await, 2);
    server.stop().await;
}

/// A server that ends takes no more, and answers what it has taken.
pub async fn an_end_answers_what_was_taken<DB: Acted>(url: &str, look: &impl Look) {
    let server = Server::start::<DB>(config("ending", url)).await;
    let client = server.client();
    let slow = tokio::spawn({
        let client = client.clone();
        async move { client.envelope(&envelope(&id(), "a", 1, "slow")).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.stop().await;
    let answer = slow.await.expect("no panic");
    assert_eq!((answer.status, answer.event()), (200, "applied"), "{answer:?}");
    assert!(client.try_send(&[], "{}").await.is_err());
    assert_eq!(look.number("SELECT count(*) FROM effects").await, 1);
}

/// Calls `$run!(scenario)` for each.
#[macro_export]
macro_rules! intake_scenarios {
    ($run:ident) => {
        $run! {
            one_effect
            versions_in_order
            copies_at_once
            copies_in_lists
            a_failure_leaves_nothing
            a_failure_holds_a_long_list
            a_rejected_event_is_parked
            a_long_list_that_is_rejected_is_parked
            bad_input_is_refused
            packed_bodies
            answers_name_the_parts_of_senders
            formats
            forms_of_senders
            signatures
            an_end_answers_what_was_taken
        }
    };
}
