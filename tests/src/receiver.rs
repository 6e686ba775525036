//! A receiver of spans: OTLP over HTTP, on a port of its own, with TLS or without.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message as _;
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use xtask::server::free_ports;

use crate::{Certificate, SOON, until_some};

/// A span as it arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedSpan {
    /// The `service.name` of its resource.
    pub service: String,
    /// What it is called.
    pub name: String,
    /// Its trace, in hex.
    pub trace: String,
    /// Its parent, in hex; empty when it has none.
    pub parent: String,
    /// The traces that it is linked to, in hex.
    pub links: Vec<String>,
    /// Its attributes and those of its resource, as text.
    pub attributes: Vec<(String, String)>,
}

impl ReceivedSpan {
    /// An attribute of it.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

#[derive(Default, Debug)]
struct Received {
    spans: Vec<ReceivedSpan>,
    heads: Vec<String>,
}

/// Takes spans until the test ends.
#[derive(Debug)]
pub struct SpanReceiver {
    address: SocketAddr,
    scheme: &'static str,
    received: Arc<Mutex<Received>>,
}

impl SpanReceiver {
    /// On any free port.
    #[must_use]
    pub fn start() -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// On this port, which is free.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self::serving(address, "http", |stream, received| serve(BufReader::new(stream), received))
    }

    /// On any free port, with this certificate.
    #[must_use]
    pub fn encrypted(certificate: &Certificate) -> Self {
        let chain = CertificateDer::from_pem_file(&certificate.chain).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(&certificate.key).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![chain], key);
        let config = Arc::new(config.expect("a key that fits"));
        Self::serving(SocketAddr::from(([127, 0, 0, 1], 0)), "https", move |stream, received| {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            serve(BufReader::new(StreamOwned::new(connection, stream)), received);
        })
    }

    /// A port that takes connections and never answers.
    #[must_use]
    pub fn silent() -> Self {
        Self::serving(SocketAddr::from(([127, 0, 0, 1], 0)), "http", |stream, _| {
            let _ = BufReader::new(stream).lines().count();
        })
    }

    fn serving(
        address: SocketAddr,
        scheme: &'static str,
        serve: impl Fn(TcpStream, &Mutex<Received>) + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let received = Arc::<Mutex<Received>>::default();
        let shared = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (serve, shared) = (serve.clone(), Arc::clone(&shared));
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, scheme, received }
    }

    /// A port that nobody listens on.
    #[must_use]
    pub fn nowhere() -> SocketAddr {
        let [port] = free_ports().expect("the machine has a free port");
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// Where it is for all signals: `http://127.0.0.1:4318`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://localhost:{}", self.scheme, self.address.port())
    }

    /// What has arrived so far.
    #[must_use]
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.lock().spans.clone()
    }

    /// The heads of all requests, in lower case.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.lock().heads.clone()
    }

    /// Waits until a span has arrived that is like this.
    pub async fn arrived(&self, what: &str, like: impl Fn(&ReceivedSpan) -> bool) -> ReceivedSpan {
        until_some(SOON, what, async || self.spans().into_iter().find(&like)).await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the requests of a connection, until the other side ends it.
fn serve(mut stream: BufReader<impl Read + Write>, received: &Mutex<Received>) {
    while let Some((head, body)) = request(&mut stream) {
        let status = match ExportTraceServiceRequest::decode(body.as_slice()) {
            Ok(request) if head.starts_with("post /v1/traces ") => {
                let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
                received.heads.push(head);
                received.spans.extend(spans(request));
                "200 OK"
            }
            _ => "400 Bad Request",
        };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        let stream = stream.get_mut();
        if stream.write_all(answer.as_bytes()).and_then(|()| stream.flush()).is_err() {
            return;
        }
    }
}

/// Head, in lower case, and body.
fn request(stream: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn spans(request: ExportTraceServiceRequest) -> Vec<ReceivedSpan> {
    let mut received = Vec::new();
    for group in request.resource_spans {
        let resource =
            texts(group.resource.map(|resource| resource.attributes).unwrap_or_default());
        let service = resource.iter().find(|(name, _)| name == "service.name");
        let service = service.map(|(_, value)| value.clone()).unwrap_or_default();
        for span in group.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            let Span { name, trace_id, parent_span_id, links, attributes, .. } = span;
            received.push(ReceivedSpan {
                service: service.clone(),
                name,
                trace: hex(&trace_id),
                parent: hex(&parent_span_id),
                links: links.iter().map(|link| hex(&link.trace_id)).collect(),
                attributes: [resource.clone(), texts(attributes)].concat(),
            });
        }
    }
    received
}

fn texts(attributes: Vec<KeyValue>) -> Vec<(String, String)> {
    let text = |value: Option<Value>| match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    let texts = attributes
        .into_iter()
        .map(|KeyValue { key, value, .. }| (key, text(value.and_then(|value| value.value))));
    texts.collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
