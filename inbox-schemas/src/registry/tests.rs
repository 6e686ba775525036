//! What a registry's answers mean, and what is kept of them. It is served here, by its REST interface.

use std::{
    fs,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
};
use outbox_core::{CodecError, Decode, Payload};
use serde_json::{Value, json, value::RawValue};

use super::RegistrySettings;
use crate::Registry;

/// What it answers, by path; and what it was asked.
#[derive(Default)]
struct Served {
    answers: Mutex<Vec<(String, u16, String)>>,
    requests: AtomicUsize,
    /// The paths with their queries.
    asked: Mutex<Vec<String>>,
    authorization: Mutex<Option<String>>,
    slow: Mutex<Duration>,
}

async fn answer(
    State(served): State<Arc<Served>>,
    headers: HeaderMap,
    uri: Uri,
) -> (StatusCode, String) {
    served.requests.fetch_add(1, SeqCst);
    served.asked.lock().unwrap().push(uri.to_string());
    let sent = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    *served.authorization.lock().unwrap() = sent;
    let slow = *served.slow.lock().unwrap();
    tokio::time::sleep(slow).await;
    let answers = served.answers.lock().unwrap();
    let known = answers.iter().rfind(|(path, ..)| path == uri.path());
    let unknown = || (404, r#"{"error_code": 40403, "message": "Schema not found"}"#.to_owned());
    let (status, body) = known.map_or_else(unknown, |(_, status, body)| (*status, body.clone()));
    (StatusCode::from_u16(status).unwrap(), body)
}

impl Served {
    async fn start() -> (Arc<Self>, RegistrySettings) {
        let served = Arc::new(Self::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&served));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (served, RegistrySettings::new(format!("http://{address}/")))
    }

    fn answers(&self, path: &str, status: u16, body: impl ToString) {
        self.answers.lock().unwrap().push((path.to_owned(), status, body.to_string()));
    }
}

/// The way that a payload goes: prepared, then decoded.
async fn read(registry: &Registry, payload: &Payload<'_>) -> Result<Value, CodecError> {
    if let Some(preparation) = Decode::<Value>::prepare(registry, payload)
        && let Err(error @ CodecError::Unavailable(_)) = preparation.await
    {
        return Err(error);
    }
    registry.decode(payload)
}

async fn of(registry: &Registry, id: u8) -> Result<Value, CodecError> {
    read(registry, &Payload::new(&[0, 0, 0, 0, id, b'7'])).await
}

const JSON: &str = r#"{"schemaType": "JSON", "schema": "{}"}"#;

#[tokio::test]
async fn a_schema_is_fetched_once_however_many_ask() {
    let (served, settings) = Served::start().await;
    served.answers("/schemas/ids/1", 200, JSON);
    *served.slow.lock().unwrap() = Duration::from_millis(50);
    let registry = Registry::new(settings).unwrap();
    let other = registry.clone();
    let all = (0..20).map(|n| of(if n % 2 == 0 { &registry } else { &other }, 1));
    for value in futures::future::join_all(all).await {
        assert_eq!(value, Ok(json!(7)));
    }
    assert_eq!(of(&registry, 1).await, Ok(json!(7)));
    assert_eq!(served.requests.load(SeqCst), 1);
}

/// Each route has its codec get ready, and most share one.
#[tokio::test]
async fn a_start_looks_once_however_many_routes_share_the_codec() {
    let (served, settings) = Served::start().await;
    served.answers("/subjects", 200, "[]");
    *served.slow.lock().unwrap() = Duration::from_millis(50);
    let registry = Registry::new(settings).unwrap();
    let all = (0..20).map(|_| Decode::<Value>::start(&registry));
    for started in futures::future::join_all(all).await {
        assert_eq!(started, Ok(()));
    }
    assert_eq!(served.requests.load(SeqCst), 1);
    // Nothing is kept of it.
    assert_eq!(Decode::<Value>::start(&registry).await, Ok(()));
    assert_eq!(served.requests.load(SeqCst), 2);
}

/// Payloads are older than what became of their schemas.
#[tokio::test]
async fn schemas_that_were_deleted_since_are_asked_for_too() {
    let (served, settings) = Served::start().await;
    let references = json!([{"name": "X", "subject": "x", "version": 1}]);
    let refers = json!({"schema": r#""int""#, "references": references});
    served.answers("/schemas/ids/1", 200, refers);
    let registry = Registry::new(settings).unwrap();
    assert!(of(&registry, 1).await.is_err());
    let asked = ["/schemas/ids/1?deleted=true", "/subjects/x/versions/1?deleted=true"];
    assert_eq!(*served.asked.lock().unwrap(), asked);
}

#[tokio::test]
async fn a_payload_that_was_not_prepared_is_not_decoded() {
    let (served, settings) = Served::start().await;
    let registry = Registry::new(settings).unwrap();
    let unprepared = Decode::<Value>::decode(&registry, &Payload::new(&[0, 0, 0, 0, 1, 7]));
    assert!(unprepared.unwrap_err().is_outage());
    assert_eq!(served.requests.load(SeqCst), 0, "decoding asks nobody");
}

/// Case by case: only a registry that says that it has no such schema makes the event's fault of it.
/// More digits than a number of eight bytes has.
#[tokio::test]
async fn a_number_in_json_keeps_its_digits() {
    let (served, settings) = Served::start().await;
    served.answers("/schemas/ids/7", 200, JSON);
    let registry = Registry::new(settings).unwrap();
    let json = r#"{"amount": 12345678901234567890.12}"#;
    let bytes = [&[0, 0, 0, 0, 7], json.as_bytes()].concat();
    let payload = Payload::new(&bytes);
    Decode::<Box<RawValue>>::prepare(&registry, &payload).unwrap().await.unwrap();
    let read: Box<RawValue> = registry.decode(&payload).unwrap();
    assert_eq!(read.get(), json);
}

#[tokio::test]
async fn an_id_that_is_not_known_is_the_payloads_and_all_else_is_an_outage() {
    let unknown = r#"{"error_code": 40403, "message": "Schema 1 not found"}"#;
    let refers = json!({
        "schema": r#"{"type": "record", "name": "R", "fields": [{"name": "x", "type": "X"}]}"#,
        "references": [{"name": "X", "subject": "x", "version": 1}],
    });
    let long = json!({"schemaType": "JSON", "schema": " ".repeat(9 << 20)});
    let table: [(u16, String, bool, &str); 12] = [
        (404, unknown.into(), false, "does not have the schema 1 of the payload (40403)"),
        (200, r#"{"schema": "{"}"#.into(), false, "the schema 1 of the payload cannot be used"),
        (200, refers.to_string(), false, r#"does not have the schema "X" that the schema 1"#),
        (200, r#"{"schemaType": "XML", "schema": ""}"#.into(), false, "which is not supported"),
        (200, long.to_string(), false, ", with all that it refers to, is larger than"),
        (404, "<html>".into(), true, "404"),
        (401, r#"{"error_code": 401, "message": "Unauthorized"}"#.into(), true, "401"),
        (403, r#"{"error_code": 40301, "message": "no"}"#.into(), true, "403"),
        (429, String::new(), true, "429"),
        (500, r#"{"error_code": 50001, "message": "store"}"#.into(), true, "500"),
        (503, String::new(), true, "503"),
        (200, "not JSON".into(), true, "does not answer like one"),
    ];
    for (status, body, outage, word) in table {
        let (served, settings) = Served::start().await;
        served.answers("/schemas/ids/1", status, body);
        let registry = Registry::new(settings).unwrap();
        let error = of(&registry, 1).await.unwrap_err();
        assert_eq!(error.is_outage(), outage, "{status}: {error}");
        assert!(error.to_string().contains(word), "{status}: {error}");
        if outage {
            served.answers("/schemas/ids/1", 200, JSON);
            assert_eq!(of(&registry, 1).await, Ok(json!(7)), "asked again at once");
        }
    }
}

#[tokio::test]
async fn a_registry_that_is_not_there_or_silent_is_an_outage() {
    let closed = RegistrySettings::new("http://127.0.0.1:1");
    let registry = Registry::new(closed).unwrap();
    assert!(of(&registry, 1).await.unwrap_err().is_outage());
    let started = Decode::<Value>::start(&registry).await.unwrap_err();
    assert!(started.is_outage() && started.to_string().contains("http://127.0.0.1:1"), "{started}");
    let (served, mut settings) = Served::start().await;
    *served.slow.lock().unwrap() = Duration::from_mins(1);
    settings.timeout = Duration::from_millis(100);
    let registry = Registry::new(settings).unwrap();
    assert!(of(&registry, 1).await.unwrap_err().is_outage());
}

/// What a batch's events are told is there when they are decoded: an outage would come again each time.
#[tokio::test]
async fn a_batch_may_name_more_ids_than_are_kept() {
    let (served, mut settings) = Served::start().await;
    settings.schemas_max = 2;
    for id in 1..=4 {
        served.answers(&format!("/schemas/ids/{id}"), 200, JSON);
    }
    let registry = Registry::new(settings).unwrap();
    let payloads: Vec<[u8; 6]> = (1..=8).map(|id| [0, 0, 0, 0, id, b'7']).collect();
    for bytes in &payloads {
        if let Some(preparation) = Decode::<Value>::prepare(&registry, &Payload::new(bytes)) {
            drop(preparation.await);
        }
    }
    for (place, bytes) in payloads.iter().enumerate() {
        match Decode::<Value>::decode(&registry, &Payload::new(bytes)) {
            Ok(value) => assert!(value == json!(7) && place < 4),
            Err(error) => {
                assert!(!error.is_outage() && error.to_string().contains("does not have"));
                assert!(place >= 4, "{error}");
            }
        }
    }
    assert_eq!(served.requests.load(SeqCst), 8);
}

#[tokio::test]
async fn credentials_come_from_files_and_are_shown_nowhere() {
    let (served, settings) = Served::start().await;
    served.answers("/schemas/ids/1", 200, JSON);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    let mut basic = settings.clone();
    (basic.user, basic.password_file) = (Some("anna".into()), Some(file.clone()));
    let mut bearer = settings;
    bearer.token_file = Some(file.clone());
    for (settings, sent) in [(basic, "Basic YW5uYTpzM2NyZXQ="), (bearer, "Bearer s3cret")] {
        let registry = Registry::new(settings).unwrap();
        drop(fs::remove_file(&file));
        let error = of(&registry, 1).await.unwrap_err();
        assert!(error.is_outage() && error.to_string().contains("cannot be read"), "{error}");
        fs::write(&file, "s3cret\n").unwrap();
        assert_eq!(of(&registry, 1).await, Ok(json!(7)));
        assert_eq!(served.authorization.lock().unwrap().as_deref(), Some(sent));
        served.answers("/schemas/ids/2", 500, "");
        let error = of(&registry, 2).await.unwrap_err().to_string();
        assert!(!error.contains("s3cret") && !format!("{registry:?}").contains("s3cret"));
    }
}

#[test]
fn settings_that_cannot_be_meant_are_refused_with_what_to_write() {
    let plain = || RegistrySettings::new("http://registry:8081");
    assert_eq!(plain().check(), Ok(()));
    let with = |change: fn(&mut RegistrySettings)| {
        let mut settings = plain();
        change(&mut settings);
        settings
    };
    for (settings, word) in [
        (RegistrySettings::new("registry:8081"), "neither with http://"),
        (RegistrySettings::new(""), "is invalid"),
        (RegistrySettings::new("http://anna:s3cret@registry"), "contains credentials"),
        (with(|it| it.user = Some("anna".into())), "needs a user and a file"),
        (with(|it| it.password_file = Some("f".into())), "needs a user and a file"),
        (
            with(|it| {
                (it.user, it.password_file) = (Some("anna".into()), Some("f".into()));
                it.token_file = Some("f".into());
            }),
            "a password and a token",
        ),
        (with(|it| it.ca_file = Some("/nowhere".into())), "the authorities of the schema registry"),
    ] {
        let error = Registry::new(settings).unwrap_err().to_string();
        assert!(error.contains(word) && !error.contains("s3cret"), "{error}");
    }
}

#[tokio::test]
async fn topics_without_the_wire_format_and_tombstones_are_json() {
    let (served, mut settings) = Served::start().await;
    settings.topics = vec!["orders".into(), "outbox.*".into()];
    served.answers("/schemas/ids/1", 200, JSON);
    let registry = Registry::new(settings).unwrap();
    let framed = Payload::new(&[0, 0, 0, 0, 1, b'7']);
    for topic in ["orders", "outbox.order"] {
        assert_eq!(read(&registry, &framed.with_topic(topic)).await, Ok(json!(7)));
        let plain = read(&registry, &Payload::new(b"7").with_topic(topic)).await;
        assert!(plain.unwrap_err().to_string().contains("not in the wire format"));
    }
    assert_eq!(read(&registry, &Payload::new(b"7").with_topic("orders2")).await, Ok(json!(7)));
    let (_, all) = Served::start().await;
    let registry_of_all = Registry::new(all).unwrap();
    let by_http = read(&registry_of_all, &Payload::new(b"7").with_topic("http:events")).await;
    assert_eq!(by_http, Ok(json!(7)), "the intake's");
    assert!(read(&registry_of_all, &Payload::new(b"7").with_topic("orders")).await.is_err());
    let none: Option<u32> = registry.decode(&Payload::tombstone()).unwrap();
    assert_eq!(none, None);
    let error = Decode::<bool>::decode(&registry, &framed.with_topic("orders")).unwrap_err();
    assert!(error.to_string().contains("invalid type, expected a boolean"), "{error}");
}
