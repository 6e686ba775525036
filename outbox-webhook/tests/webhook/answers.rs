//! What each answer leads to, and what none does.

use std::time::{Duration, Instant};

use outbox_core::{Aggregate, OutboxEvent};
use outbox_webhook::internal::Judgement;

use super::{
    Receiver, deliver, event, outcomes, parts,
    receiver::{Step, answer, text},
    sink, webhook,
};

#[tokio::test]
async fn each_answer_has_its_outcome() {
    for (status, outcome) in [
        ("200 OK", "delivered"),
        ("202 Accepted", "delivered"),
        ("204 No Content", "delivered"),
        ("299 Whatever", "delivered"),
        ("300 Multiple Choices", "refused"),
        ("304 Not Modified", "refused"),
        ("400 Bad Request", "refused"),
        ("401 Unauthorized", "unavailable"),
        ("403 Forbidden", "retry"),
        ("404 Not Found", "refused"),
        ("407 Proxy Authentication Required", "unavailable"),
        ("408 Request Timeout", "retry"),
        ("409 Conflict", "refused"),
        ("410 Gone", "unavailable"),
        ("413 Content Too Large", "refused"),
        ("422 Unprocessable Content", "refused"),
        ("425 Too Early", "retry"),
        ("429 Too Many Requests", "retry"),
        ("500 Internal Server Error", "retry"),
        ("503 Service Unavailable", "retry"),
        ("599 Odd", "retry"),
        ("600 Odder", "retry"),
    ] {
        let receiver = Receiver::start([answer(status, "", "")]).await;
        let found = outcomes(&webhook(receiver.url("/in")), 1).await.remove(0);
        let (variant, sentence, after) = parts(&found);
        assert_eq!((variant, after), (outcome, None), "{status}: {sentence}");
        if variant != "delivered" {
            let start = format!("webhook shop answered {}", &status[..3]);
            assert!(sentence.starts_with(&start), "{sentence}");
        }
    }
}

#[tokio::test]
async fn a_wait_that_a_receiver_asks_for_is_granted_up_to_the_maximum() {
    let script =
        ["7", "7200", "Thu, 14 May 2015 10:41:40 GMT", "Thu, 14 May 2099 10:41:40 GMT", "soon"];
    let steps = script.map(|value| answer("503 x", &format!("retry-after: {value}\r\n"), ""));
    let receiver = Receiver::start(steps).await;
    let found = outcomes(&webhook(receiver.url("/")), 5).await;
    let waits: Vec<_> =
        found.iter().map(|outcome| parts(outcome).2.map(|wait| wait.as_secs())).collect();
    assert_eq!(waits, [Some(7), Some(3_600), Some(0), Some(3_600), None]);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Receiver::start([answer("200 OK", "", "")]).await;
    let location = format!("location: {}\r\n", other.url("/elsewhere"));
    for status in ["301 x", "302 x", "303 x", "307 x", "308 x"] {
        let receiver = Receiver::start([answer(status, &location, "moved")]).await;
        let found = outcomes(&webhook(receiver.url("/")), 1).await.remove(0);
        let (variant, sentence, _) = parts(&found);
        assert_eq!(variant, "refused");
        assert!(
            sentence.contains(&other.url("/elsewhere")) && sentence.ends_with(": moved"),
            "{sentence}"
        );
    }
    assert_eq!(other.connections(), 0);
    let long = format!("location: http://h/{}\r\n", "x".repeat(5_000));
    let receiver = Receiver::start([answer("302 x", &long, "")]).await;
    assert!(parts(&outcomes(&webhook(receiver.url("/")), 1).await[0]).1.len() < 500);
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_not_waited_for_longer_than_the_time_out() {
    let head = "HTTP/1.1 200 OK\r\nx-long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for step in [Step::Silence, Step::Drip(head.into(), Duration::from_millis(50))] {
        let receiver = Receiver::start([step]).await;
        let mut webhook = webhook(receiver.url("/"));
        webhook.timeout = Duration::from_millis(400);
        let begin = Instant::now();
        let found = outcomes(&webhook, 1).await;
        let (variant, sentence, _) = parts(&found[0]);
        assert_eq!(variant, "unknown", "{sentence}");
        assert!(sentence.contains("no answer within 400ms"), "{sentence}");
        assert!((400..2_000).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
        receiver.wait_left(1).await;
    }
}

#[tokio::test]
async fn a_body_that_drips_changes_no_outcome_and_holds_nothing_up() {
    let begin = Instant::now();
    let slow =
        |status: &str| Step::Drip(text(status, "", &"x".repeat(500)), Duration::from_millis(5));
    // The head takes a quarter of a second, the body would take two and a half.
    let receiver = Receiver::start([slow("200 OK")]).await;
    assert_eq!(outcomes(&webhook(receiver.url("/")), 1).await, [Judgement::Delivered]);
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    let receiver = Receiver::start([slow("500 x")]).await;
    let mut webhook = webhook(receiver.url("/"));
    webhook.timeout = Duration::from_secs(1);
    let begin = Instant::now();
    let found = outcomes(&webhook, 1).await;
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    let (variant, sentence, _) = parts(&found[0]);
    assert!(variant == "retry" && sentence.contains("Error: xxx"), "{sentence}");
}

#[tokio::test]
async fn of_an_endless_body_no_more_is_read_than_is_kept() {
    for (head, outcome) in [("200 OK", "delivered"), ("500 x", "retry"), ("400 x", "refused")] {
        let receiver = Receiver::start([Step::Endless(format!("HTTP/1.1 {head}\r\n\r\n"))]).await;
        let mut webhook = webhook(receiver.url("/"));
        webhook.response_bytes_max = 100;
        let sink = sink(&webhook);
        let begin = Instant::now();
        let found = deliver(&sink, event()).await;
        assert!(begin.elapsed() < Duration::from_secs(2));
        let (variant, sentence, _) = parts(&found);
        assert_eq!(variant, outcome);
        assert!(sentence.matches('x').count() <= 100, "{sentence}");
        // The sink is there still, and its connection is not.
        receiver.wait_left(1).await;
    }
}

#[tokio::test]
async fn nothing_is_kept_of_a_body_that_nobody_wants() {
    let receiver = Receiver::start([answer("400 x", "", "secret")]).await;
    let mut webhook = webhook(receiver.url("/"));
    webhook.response_bytes_max = 0;
    assert_eq!(parts(&outcomes(&webhook, 1).await[0]).1, "webhook shop answered 400 Bad Request");
}

#[tokio::test]
async fn what_becomes_of_a_call_without_an_answer_is_unknown() {
    for cut in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nconte",
        "HTTP/1.1 nonsense\r\n\r\n",
        "NONSENSE\r\n\r\n",
    ] {
        let receiver = Receiver::start([Step::Close(cut.into())]).await;
        let found = outcomes(&webhook(receiver.url("/")), 1).await;
        let (variant, sentence, _) = parts(&found[0]);
        assert_eq!(variant, "unknown", "{cut:?}: {sentence}");
        assert!(
            sentence.starts_with("webhook shop received the event but did not answer: "),
            "{sentence}"
        );
        assert_eq!(receiver.requests().len(), 1, "{cut:?}: sent once");
    }
    // Headers without end.
    let endless = "HTTP/1.1 200 OK\r\nx: ".to_owned();
    let receiver = Receiver::start([Step::Endless(endless)]).await;
    assert_eq!(parts(&outcomes(&webhook(receiver.url("/")), 1).await[0]).0, "unknown");
}

#[tokio::test]
async fn what_was_not_sent_whole_was_not_taken() {
    let receiver = Receiver::start([Step::CutAtHead]).await;
    let order = Aggregate::new("Order", "1").unwrap();
    let large = OutboxEvent::encoded("Large", &order, vec![b'1'; 64 << 20].into()).unwrap();
    let found = deliver(&sink(&webhook(receiver.url("/"))), large).await;
    let (variant, sentence, _) = parts(&found);
    assert_eq!(variant, "retry", "{sentence}");
    assert!(sentence.contains("did not receive the whole event"), "{sentence}");
}

#[tokio::test]
async fn a_receiver_of_http_1_0_is_understood() {
    let receiver = Receiver::start([
        Step::Close("HTTP/1.0 200 OK\r\n\r\nthanks".into()),
        Step::Close("HTTP/1.0 503 x\r\n\r\nlater".into()),
    ])
    .await;
    let found = outcomes(&webhook(receiver.url("/")), 2).await;
    assert_eq!(found[0], Judgement::Delivered);
    assert_eq!(
        parts(&found[1]),
        ("retry", "webhook shop answered 503 Service Unavailable: later", None)
    );
}

#[tokio::test]
async fn whom_nobody_reaches_is_unavailable() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = format!("http://{}/", free.local_addr().unwrap());
    drop(free);
    let found = outcomes(&webhook(&refused), 1).await;
    let (variant, sentence, _) = parts(&found[0]);
    assert_eq!(variant, "unavailable");
    assert!(
        sentence.starts_with("webhook shop cannot be reached: ") && sentence.contains("refused"),
        "{sentence}"
    );
    // Nothing of it has to be sent to be whole.
    let order = Aggregate::new("Order", "1").unwrap();
    let found =
        deliver(&sink(&webhook(&refused)), OutboxEvent::tombstone("T", &order).unwrap()).await;
    assert_eq!(parts(&found).0, "unavailable", "{found:?}");
    // Nobody has this name.
    let mut nowhere = webhook("http://nobody.invalid/");
    nowhere.insecure_http = true;
    let found = outcomes(&nowhere, 1).await;
    assert_eq!(parts(&found[0]).0, "unavailable", "{found:?}");
    // A port that takes connections and speaks no TLS.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut webhook = webhook(format!("https://{}/", silent.local_addr().unwrap()));
    webhook.connect_timeout = Duration::from_millis(200);
    let begin = Instant::now();
    let found = outcomes(&webhook, 1).await;
    assert_eq!(parts(&found[0]).0, "unavailable", "{found:?}");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    webhook.connect_timeout = Duration::from_secs(9);
    webhook.timeout = Duration::from_millis(200);
    let found = outcomes(&webhook, 1).await;
    assert_eq!(parts(&found[0]).0, "unavailable", "{found:?}");
}

#[tokio::test]
async fn a_connection_serves_again_and_one_that_was_closed_is_replaced_at_once() {
    let receiver = Receiver::start([
        // The body comes after the head, and is waited for.
        Step::Drip(text("200 OK", "", "thanks"), Duration::from_millis(1)),
        answer("400 x", "", "no"),
        // Without a word that it ends.
        Step::Close(text("200 OK", "", "")),
        answer("204 x", "", ""),
    ])
    .await;
    let sink = sink(&webhook(receiver.url("/")));
    for (variant, connection) in
        [("delivered", 1), ("refused", 1), ("delivered", 1), ("delivered", 2)]
    {
        let found = deliver(&sink, event()).await;
        assert_eq!(parts(&found).0, variant, "{found:?}");
        assert_eq!(receiver.requests().last().unwrap().connection, connection);
        // So that the end of a connection is there before the next call.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(receiver.requests().len(), 4);
}

#[tokio::test]
async fn a_connection_that_ends_with_a_call_on_it_is_not_used_for_it_again() {
    let receiver = Receiver::start([answer("200 OK", "", ""), Step::Close(String::new())]).await;
    let found = outcomes(&webhook(receiver.url("/")), 2).await;
    assert_eq!(
        found.iter().map(|found| parts(found).0).collect::<Vec<_>>(),
        ["delivered", "unknown"]
    );
    assert_eq!(receiver.requests().len(), 2);
}

#[tokio::test]
async fn a_url_that_an_event_cannot_fill_refuses_it_and_calls_nobody() {
    let receiver = Receiver::start([answer("200 OK", "", "")]).await;
    let sink = sink(&webhook(receiver.url("/in/{aggregate_id}/{topic}")));
    let found = deliver(&sink, event()).await;
    let wanted = "webhook shop has {topic} in its `url`, and the event has no topic";
    assert_eq!(parts(&found), ("refused", wanted, None));
    assert_eq!(receiver.connections(), 0);
    assert_eq!(sink.scope(), format!("http://{}", receiver.address));
}

#[tokio::test]
async fn gone_is_the_events_where_the_url_is_made_of_it() {
    let receiver = Receiver::start([answer("410 Gone", "", "")]).await;
    let found = outcomes(&webhook(receiver.url("/{aggregate_id}")), 1).await;
    assert_eq!(parts(&found[0]).0, "refused");
}
