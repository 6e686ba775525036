//! What a receiver gets.

use outbox_core::{Aggregate, EventId, OutboxEvent};
use outbox_webhook::internal::{Attempt, Judgement, WebhookBody};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::{
    Receiver, deliver, event, file, path,
    receiver::{Request, answer},
    sink, webhook,
};

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SECRETS: [&str; 2] =
    ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"];

fn full_event() -> OutboxEvent {
    let order = Aggregate::new("Order", "1001").unwrap();
    OutboxEvent::new("OrderPaid", &order, &json!({ "amount": 250 }))
        .unwrap()
        .with_id(EventId::from_uuid_text("01890a5d-ac96-774b-bcce-b302099a8057").unwrap())
        .with_aggregate_version(3)
        .with_schema_version(2)
        .with_occurred_at_ms(1_700_000_000_123)
        .unwrap()
        .with_correlation("checkout-77")
        .unwrap()
        .with_dedup_key("paid/1001")
        .unwrap()
        .with_header("causation_id", "e-1")
        .unwrap()
        .with_trace_context(TRACEPARENT, "congo=t61rcWkgMzE, rojo=00f067aa0ba902b7")
        .unwrap()
}

#[tokio::test]
async fn a_call_carries_what_the_document_says() {
    let receiver = Receiver::start([answer("200 OK", "", "")]).await;
    let (token, key) = (file("t0k3n\n"), file("k3y"));
    let mut webhook = webhook(receiver.url("/in/{aggregate_type}?type={event_type}"));
    webhook.bearer_file = Some(path(&token));
    webhook.header_files = vec![format!("X-Api-Key: {}", path(&key))];
    webhook.headers = vec!["X-Tenant: shop 7".into()];
    webhook.content_type = "application/json; charset=utf-8".into();
    let attempt = Attempt { event: &full_event(), topic: Some("shop.Order"), number: 4 };
    assert_eq!(sink(&webhook).call(attempt).await, Judgement::Delivered);
    let requests = receiver.requests();
    let Request { line, headers, body, .. } = &requests[0];
    assert_eq!(line, "POST /in/Order?type=OrderPaid HTTP/1.1");
    assert_eq!(body, br#"{"amount":250}"#);
    let mut found: Vec<_> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    found.sort_unstable();
    let timestamp = requests[0].header("webhook-timestamp").unwrap().to_owned();
    let address = receiver.address.to_string();
    let agent = concat!("outbox-relay/", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        found,
        [
            ("accept", "*/*"),
            ("aggregate-id", "1001"),
            ("aggregate-type", "Order"),
            ("aggregate-version", "3"),
            ("authorization", "Bearer t0k3n"),
            ("causation-id", "e-1"),
            ("content-length", "14"),
            ("content-type", "application/json; charset=utf-8"),
            ("correlation-id", "checkout-77"),
            ("dedup-key", "paid/1001"),
            ("delivery-attempt", "4"),
            ("event-topic", "shop.Order"),
            ("event-type", "OrderPaid"),
            ("host", address.as_str()),
            ("idempotency-key", "01890a5d-ac96-774b-bcce-b302099a8057"),
            ("occurred-at", "2023-11-14T22:13:20.123Z"),
            ("schema-version", "2"),
            ("traceparent", TRACEPARENT),
            ("tracestate", "congo=t61rcWkgMzE, rojo=00f067aa0ba902b7"),
            ("user-agent", agent),
            ("webhook-id", "01890a5d-ac96-774b-bcce-b302099a8057"),
            ("webhook-timestamp", timestamp.as_str()),
            ("x-api-key", "k3y"),
            ("x-tenant", "shop 7"),
        ]
    );
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((now - 60..=now).contains(&timestamp.parse().unwrap()));
}

#[tokio::test]
async fn each_secret_signs_and_a_verifier_of_either_agrees() {
    let receiver = Receiver::start([answer("200 OK", "", "")]).await;
    let (both, old) = (file(&format!("\n{}\n\n", SECRETS[0])), file(SECRETS[1]));
    for mode in [WebhookBody::Payload, WebhookBody::CloudEvents] {
        let mut webhook = webhook(receiver.url("/"));
        webhook.body = mode;
        webhook.secret_files = vec![path(&both), path(&old)];
        assert_eq!(deliver(&sink(&webhook), full_event()).await, Judgement::Delivered);
        let request = receiver.requests().pop().unwrap();
        assert_eq!(request.header("webhook-signature").unwrap().split(' ').count(), 2);
        let mut headers = HeaderMap::new();
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            headers.insert(name, request.header(name).unwrap().parse().unwrap());
        }
        for secret in SECRETS {
            standardwebhooks::Webhook::new(secret)
                .unwrap()
                .verify(&request.body, &headers)
                .unwrap();
        }
        let other =
            standardwebhooks::Webhook::new("whsec_b3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXI=")
                .unwrap();
        assert!(other.verify(&request.body, &headers).is_err());
        assert!(
            standardwebhooks::Webhook::new(SECRETS[0])
                .unwrap()
                .verify(b"changed", &headers)
                .is_err()
        );
    }
}

#[tokio::test]
async fn a_password_is_sent_as_basic_authorization() {
    let receiver = Receiver::start([answer("200 OK", "", "")]).await;
    let password = file("ada:p:w\n");
    let mut webhook = webhook(receiver.url("/"));
    webhook.basic_file = Some(path(&password));
    deliver(&sink(&webhook), event()).await;
    assert_eq!(receiver.requests()[0].header("authorization"), Some("Basic YWRhOnA6dw=="));
}

#[tokio::test]
async fn a_token_that_is_refused_is_read_again_before_the_next_call() {
    let receiver = Receiver::start([answer("401 x", "", ""), answer("200 OK", "", "")]).await;
    let token = file("old");
    let mut webhook = webhook(receiver.url("/"));
    webhook.bearer_file = Some(path(&token));
    let sink = sink(&webhook);
    std::fs::write(token.path(), "new").unwrap();
    deliver(&sink, event()).await;
    deliver(&sink, event()).await;
    let sent = receiver.requests();
    let sent: Vec<_> = sent.iter().filter_map(|request| request.header("authorization")).collect();
    assert_eq!(sent, ["Bearer old", "Bearer new"]);
}

#[tokio::test]
async fn no_value_of_an_event_ends_a_header_or_is_lost() {
    let receiver = Receiver::start([answer("200 OK", "", "")]).await;
    let nasty = "a\r\nX-Evil: 1\r\n\r\nü 100%\u{7f}\t";
    let encoded = "a%0D%0AX-Evil:%201%0D%0A%0D%0A%C3%BC%20100%25%7F%09";
    let aggregate = Aggregate::new(nasty, nasty).unwrap();
    let event = OutboxEvent::new(nasty, &aggregate, &1)
        .unwrap()
        .with_header("correlation_id", &b"\r\n\0\xff"[..])
        .unwrap()
        .with_header("traceparent", "00-1")
        .unwrap()
        .with_header("tracestate", "a=b")
        .unwrap()
        .with_header("causation_id", "c".repeat(100_000))
        .unwrap();
    let sent = Attempt { event: &event, topic: Some(nasty), number: u32::MAX };
    let sink = sink(&webhook(receiver.url("/{topic}/{aggregate_id}")));
    assert_eq!(sink.call(sent).await, Judgement::Delivered);
    let request = receiver.requests().remove(0);
    for name in ["event-type", "aggregate-type", "aggregate-id", "event-topic"] {
        assert_eq!(request.header(name), Some(encoded), "{name}");
    }
    assert_eq!(request.header("correlation-id"), Some("%0D%0A%00%FF"));
    for name in ["x-evil", "traceparent", "tracestate", "causation-id", "webhook-signature"] {
        assert_eq!(request.header(name), None, "{name}");
    }
    assert_eq!(request.line.matches('/').count(), 3, "{}", request.line);
}

async fn cloud_event(event: OutboxEvent, content_type: &str) -> (Request, Value) {
    let receiver = Receiver::start([answer("200 OK", "", "")]).await;
    let mut webhook = webhook(receiver.url("/"));
    webhook.body = WebhookBody::CloudEvents;
    webhook.content_type = content_type.into();
    webhook.source = "https://shop.example/orders".into();
    assert_eq!(deliver(&sink(&webhook), event).await, Judgement::Delivered);
    let request = receiver.requests().remove(0);
    let document = serde_json::from_slice(&request.body).unwrap();
    (request, document)
}

#[tokio::test]
async fn a_cloud_event_has_the_attributes_of_the_event() {
    let (request, document) = cloud_event(full_event(), "application/json").await;
    assert_eq!(request.header("content-type"), Some("application/cloudevents+json; charset=utf-8"));
    let wanted = json!({
        "specversion": "1.0",
        "id": "01890a5d-ac96-774b-bcce-b302099a8057",
        "source": "https://shop.example/orders",
        "type": "OrderPaid",
        "subject": "1001",
        "time": "2023-11-14T22:13:20.123Z",
        "datacontenttype": "application/json",
        "aggregatetype": "Order",
        "aggregateversion": "3",
        "schemaversion": "2",
        "partitionkey": "1001",
        "dedupkey": "paid/1001",
        "correlationid": "checkout-77",
        "causationid": "e-1",
        "traceparent": TRACEPARENT,
        "tracestate": "congo=t61rcWkgMzE, rojo=00f067aa0ba902b7",
        "data": { "amount": 250 },
    });
    assert_eq!(document, wanted);
}

/// What a receiver of one's own takes: an object of its form, with headers of its names.
#[tokio::test]
async fn a_body_and_headers_have_the_form_that_is_configured() {
    let receiver = Receiver::start([answer("200 OK", "", "")]).await;
    let mut webhook = webhook(receiver.url("/"));
    webhook.body = WebhookBody::Json;
    webhook.header_names = vec![
        "Idempotency-Key: X-Request-Id".into(),
        "event-type:X-Event-Type".into(),
        "Delivery-Attempt:".into(),
    ];
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    let number = br#"{"n": 12345678901234567890.12345678901234567890}"#;
    let order = Aggregate::new("Order", "1").unwrap();
    let exact = OutboxEvent::encoded("T", &order, number.to_vec().into()).unwrap();
    deliver(&sink(&webhook), full_event()).await;
    deliver(&sink(&webhook), exact).await;
    webhook.body_fields = [
        "eventId: id",
        "kind:type",
        "of: aggregate_type",
        "who: aggregate_id",
        "v: aggregate_version",
        "s: schema_version",
        "at: occurred_at",
        "key: dedup_key",
        "topic: topic",
        "try: attempt",
        "data: payload",
    ]
    .map(String::from)
    .into();
    deliver(&sink(&webhook), full_event()).await;
    webhook.content_type = "application/avro".into();
    deliver(&sink(&webhook), OutboxEvent::tombstone("T", &order).unwrap()).await;
    deliver(&sink(&webhook), full_event()).await;
    let requests = receiver.requests();
    let document = |at: usize| serde_json::from_slice::<Value>(&requests[at].body).unwrap();
    assert_eq!(document(0), json!({ "id": id, "type": "OrderPaid", "payload": { "amount": 250 } }));
    assert_eq!(requests[0].header("content-type"), Some("application/json"));
    assert_eq!(requests[0].header("x-request-id"), Some(id));
    assert_eq!(requests[0].header("x-event-type"), Some("OrderPaid"));
    for name in ["idempotency-key", "event-type", "delivery-attempt"] {
        assert_eq!(requests[0].header(name), None, "{name}");
    }
    assert_eq!(requests[0].header("webhook-id"), Some(id), "the specification's");
    let exact = String::from_utf8(requests[1].body.clone()).unwrap();
    assert!(exact.contains(std::str::from_utf8(number).unwrap()), "{exact}");
    let all = json!({
        "eventId": id, "kind": "OrderPaid", "of": "Order", "who": "1001", "v": 3, "s": 2,
        "at": "2023-11-14T22:13:20.123Z", "key": "paid/1001", "topic": null, "try": 1,
        "data": { "amount": 250 },
    });
    assert_eq!(document(2), all);
    assert_eq!(
        (document(3)["data"].clone(), document(3)["key"].clone()),
        (json!(null), json!(null))
    );
    assert_eq!(document(4)["data_base64"], json!("eyJhbW91bnQiOjI1MH0="));
}

#[tokio::test]
async fn a_payload_in_a_cloud_event_is_what_its_type_says_or_base64() {
    let order = Aggregate::new("Order", "1").unwrap();
    let payload = |bytes: &[u8]| OutboxEvent::encoded("T", &order, bytes.to_vec().into()).unwrap();
    // A number that no float holds stays what it is.
    let number = payload(b"{\"n\": 12345678901234567890.12345678901234567890}");
    let (request, _) = cloud_event(number, "application/vnd.shop+json").await;
    assert!(
        String::from_utf8(request.body)
            .unwrap()
            .contains(r#""data":{"n": 12345678901234567890.12345678901234567890}"#)
    );
    for (bytes, content_type, key, value) in [
        (&b"null"[..], "application/json", "data", json!(null)),
        (b"{\"a\":", "application/json", "data_base64", json!("eyJhIjo=")),
        (b"\xff", "application/json", "data_base64", json!("/w==")),
        (b"", "application/json", "data_base64", json!("")),
        ("grüße".as_bytes(), "Text/Plain; charset=utf-8", "data", json!("grüße")),
        (b"\xff", "text/plain", "data_base64", json!("/w==")),
        (b"1", "application/avro", "data_base64", json!("MQ==")),
    ] {
        let (_, document) = cloud_event(payload(bytes), content_type).await;
        assert_eq!(document.get(key), Some(&value), "{bytes:?}");
        let other = if key == "data" { "data_base64" } else { "data" };
        assert_eq!(document.get(other), None, "{bytes:?}");
        assert_eq!(document["datacontenttype"], json!(content_type));
    }
    let (request, document) =
        cloud_event(OutboxEvent::tombstone("T", &order).unwrap(), "text/plain").await;
    assert_eq!(request.header("event-tombstone"), Some("true"));
    for key in ["data", "data_base64", "datacontenttype"] {
        assert_eq!(document.get(key), None);
    }
}

#[tokio::test]
async fn a_time_that_no_calendar_has_is_left_out() {
    let before_1970 = event().with_occurred_at_ms(-1).unwrap();
    let (request, document) = cloud_event(before_1970, "application/json").await;
    assert_eq!((document.get("time"), request.header("occurred-at")), (None, None));
}

#[tokio::test]
async fn a_tombstone_is_told_from_an_empty_payload() {
    let receiver = Receiver::start([answer("200 OK", "", "")]).await;
    let sink = sink(&webhook(receiver.url("/")));
    let order = Aggregate::new("Order", "1").unwrap();
    let events = [
        OutboxEvent::tombstone("T", &order).unwrap(),
        OutboxEvent::encoded("T", &order, Vec::new().into()).unwrap(),
    ];
    for event in events {
        assert_eq!(deliver(&sink, event).await, Judgement::Delivered);
    }
    let requests = receiver.requests();
    let seen =
        requests.iter().map(|one| (one.header("event-tombstone"), one.header("content-length")));
    assert_eq!(seen.collect::<Vec<_>>(), [(Some("true"), Some("0")), (None, Some("0"))]);
}
