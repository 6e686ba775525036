//! A receiver on the loopback that does to each request what its script says.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

/// What becomes of a request. The last step of a script is repeated.
#[derive(Clone)]
pub(crate) enum Step {
    /// It is read and answered; the connection stays.
    Answer(String),
    /// It is read and answered; the connection ends.
    Close(String),
    /// It is read and answered letter by letter.
    Drip(String, Duration),
    /// It is read and answered with this, and then with letters without end.
    Endless(String),
    /// It is read and never answered.
    Silence,
    /// Its head is read, and nothing after it; the connection ends.
    CutAtHead,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The number of its connection, from 1.
    pub(crate) connection: usize,
    pub(crate) line: String,
    /// Names in small letters, in their order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Default)]
struct State {
    script: Mutex<VecDeque<Step>>,
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    /// Connections whose client has gone.
    left: AtomicUsize,
}

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Step {
    Step::Answer(text(status, headers, body))
}

pub(crate) fn text(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

impl Receiver {
    pub(crate) async fn start(script: impl IntoIterator<Item = Step>) -> Self {
        Self::with_tls(script, None).await
    }

    pub(crate) async fn with_tls(
        script: impl IntoIterator<Item = Step>,
        tls: Option<TlsAcceptor>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            script: Mutex::new(script.into_iter().collect()),
            ..State::default()
        });
        let served = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accept(stream, tls.clone(), Arc::clone(&served)));
            }
        });
        Self { address, state }
    }

    pub(crate) fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(SeqCst)
    }

    /// Waits until so many connections were ended by their client.
    pub(crate) async fn wait_left(&self, count: usize) {
        let wait = async {
            while self.state.left.load(SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), wait).await.unwrap();
    }
}

async fn accept(stream: TcpStream, tls: Option<TlsAcceptor>, state: Arc<State>) {
    let connection = state.connections.fetch_add(1, SeqCst) + 1;
    match tls {
        None => serve(stream, connection, &state).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                serve(stream, connection, &state).await;
            }
        }
    }
    state.left.fetch_add(1, SeqCst);
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, connection: usize, state: &State) {
    let mut rest = Vec::new();
    loop {
        let Some(head) = head(&mut stream, &mut rest).await else { return };
        let step = {
            let mut script = state.script.lock().unwrap();
            if script.len() > 1 { script.pop_front() } else { script.front().cloned() }
        };
        let step = step.unwrap();
        if matches!(step, Step::CutAtHead) {
            return;
        }
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap().to_owned();
        let pairs = lines.filter_map(|line| line.split_once(": "));
        let headers: Vec<_> =
            pairs.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        let mut request = Request { connection, line, headers, body: Vec::new() };
        let length: usize =
            request.header("content-length").map_or(0, |length| length.parse().unwrap());
        while rest.len() < length {
            let mut part = [0; 4096];
            match stream.read(&mut part).await {
                Ok(count) if count > 0 => rest.extend_from_slice(&part[..count]),
                _ => return,
            }
        }
        request.body = rest.drain(..length).collect();
        state.requests.lock().unwrap().push(request);
        match step {
            Step::Answer(text) => _ = stream.write_all(text.as_bytes()).await,
            Step::Close(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                let _ = stream.shutdown().await;
                return;
            }
            Step::Drip(text, every) => {
                for letter in text.bytes() {
                    if stream.write_all(&[letter]).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(every).await;
                }
            }
            Step::Endless(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
                return;
            }
            Step::Silence => {
                let mut part = [0; 1];
                let _ = stream.read(&mut part).await;
                return;
            }
            Step::CutAtHead => return,
        }
    }
}

/// The head of the next request; what was read behind it stays in `rest`.
async fn head(stream: &mut (impl AsyncRead + Unpin), rest: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(end) = rest.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(rest.drain(..end + 4).take(end).collect()).unwrap();
            return Some(head);
        }
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(count) if count > 0 => rest.extend_from_slice(&part[..count]),
            _ => return None,
        }
    }
}
