//! A schema registry, as far as consumers ask one: its REST interface, served from memory.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, Uri},
};
use serde_json::json;

/// A registry of a test.
#[derive(Clone, Debug)]
pub struct Registry {
    served: Arc<Served>,
    url: String,
}

#[derive(Debug, Default)]
struct Served {
    schemas: Mutex<HashMap<String, String>>,
    away: AtomicBool,
    requests: AtomicUsize,
}

impl Registry {
    /// Serves an empty one.
    pub async fn serve() -> Self {
        let served = Arc::new(Served::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&served));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { served, url }
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Registers a schema of `AVRO`, `PROTOBUF` or `JSON` under an id.
    pub fn register(&self, id: u32, format: &str, schema: &str) {
        self.put(format!("/schemas/ids/{id}"), format, schema);
    }

    /// Registers one under a GUID.
    pub fn register_guid(&self, guid: &str, format: &str, schema: &str) {
        self.put(format!("/schemas/guids/{guid}"), format, schema);
    }

    fn put(&self, path: String, format: &str, schema: &str) {
        let answer = json!({ "schemaType": format, "schema": schema }).to_string();
        self.served.schemas.lock().expect("no panic").insert(path, answer);
    }

    /// Answers nothing but 503, or what it knows again.
    pub fn set_away(&self, away: bool) {
        self.served.away.store(away, SeqCst);
    }

    /// How often it was asked.
    pub fn requests(&self) -> usize {
        self.served.requests.load(SeqCst)
    }
}

async fn answer(State(served): State<Arc<Served>>, uri: Uri) -> (StatusCode, String) {
    served.requests.fetch_add(1, SeqCst);
    if served.away.load(SeqCst) {
        return (StatusCode::SERVICE_UNAVAILABLE, String::new());
    }
    if uri.path() == "/subjects" {
        return (StatusCode::OK, "[]".to_owned());
    }
    match served.schemas.lock().expect("no panic").get(uri.path()) {
        Some(schema) => (StatusCode::OK, schema.clone()),
        None => {
            let unknown = json!({ "error_code": 40403, "message": "Schema not found" });
            (StatusCode::NOT_FOUND, unknown.to_string())
        }
    }
}
