//! A proxy between a client and a server that spoils their connection.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections, until told to do something worse. Ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    rules: watch::Sender<Rules>,
    /// How many there have been.
    connections: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

/// What happens to connections from now on.
#[derive(Clone, Debug, Default)]
struct Rules {
    upstream: String,
    delay: Duration,
    cut: bool,
    to_client_lost: bool,
    to_server_lost: bool,
    /// Connections with a smaller number are silent for good.
    silent_below: u64,
    trap: Option<Arc<Trap>>,
}

/// What happens at the sight of certain bytes from the client, a limited number of times.
#[derive(Debug)]
pub struct Trap {
    pattern: Vec<u8>,
    spring: Spring,
    left: AtomicU32,
    hits: AtomicU32,
}

/// What a trap does to its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spring {
    /// The server gets the bytes; its answer is lost and the connection closed.
    LoseAnswer,
    /// The connection is closed before the server gets them.
    LoseRequest,
    /// From these bytes on everything is lost, and nothing is closed.
    Silence,
}

impl Trap {
    /// How often the bytes were seen and the connection spoilt.
    pub fn hits(&self) -> u32 {
        self.hits.load(Ordering::SeqCst)
    }

    fn springs(&self) -> bool {
        let took = |left: u32| left.checked_sub(1);
        let springs = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, took).is_ok();
        if springs {
            self.hits.fetch_add(1, Ordering::SeqCst);
        }
        springs
    }
}

impl Proxy {
    /// Listens on a port of its own and forwards to a server, `host:port`.
    pub async fn start(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let rules = Rules { upstream: upstream.to_owned(), ..Rules::default() };
        let (rules, seen) = watch::channel(rules);
        let connections = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(accept(listener, seen, Arc::clone(&connections)));
        Self { address, rules, connections, task }
    }

    /// Where clients connect to, `host:port`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The port that clients connect to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// A URL of the server, changed to lead through this proxy.
    pub fn url(&self, server: &str) -> String {
        let (scheme, rest) = server.split_once("://").expect("a URL has a scheme");
        let (login, rest) = rest.rsplit_once('@').map_or(("", rest), |(login, rest)| (login, rest));
        let path = rest.find('/').map_or("", |at| &rest[at..]);
        let joint = if login.is_empty() { "" } else { "@" };
        format!("{scheme}://{login}{joint}{}{path}", self.address)
    }

    /// Forwards new connections to another server.
    pub fn lead_to(&self, upstream: &str) {
        self.rules.send_modify(|rules| upstream.clone_into(&mut rules.upstream));
    }

    /// Delays every piece of data, either way.
    pub fn delay(&self, delay: Duration) {
        self.rules.send_modify(|rules| rules.delay = delay);
    }

    /// Closes all connections, and closes new ones at once.
    pub fn cut(&self) {
        self.rules.send_modify(|rules| rules.cut = true);
    }

    /// Loses what the server sends. The client sees a server that does not answer.
    pub fn lose_answers(&self) {
        self.rules.send_modify(|rules| rules.to_client_lost = true);
    }

    /// Loses everything, either way, without closing anything: a network that has parted.
    pub fn lose_everything(&self) {
        self.rules.send_modify(|rules| {
            rules.to_client_lost = true;
            rules.to_server_lost = true;
        });
    }

    /// Every connection of now falls silent for good: what either side sends is lost, and nothing is
    /// closed. New connections work.
    pub fn silence(&self) {
        let below = self.connections.load(Ordering::SeqCst);
        self.rules.send_modify(|rules| rules.silent_below = below);
    }

    /// The next `times` that a client sends these bytes, its connection falls silent for good with them.
    pub fn silence_at(&self, pattern: &[u8], times: u32) -> Arc<Trap> {
        self.set(pattern, times, Spring::Silence)
    }

    /// The next `times` that a client sends these bytes: the server gets them, but its answer is lost
    /// and the connection closed.
    pub fn lose_answer_to(&self, pattern: &[u8], times: u32) -> Arc<Trap> {
        self.set(pattern, times, Spring::LoseAnswer)
    }

    /// The next `times` that a client sends these bytes: the connection is closed before the server
    /// gets them.
    pub fn lose_request(&self, pattern: &[u8], times: u32) -> Arc<Trap> {
        self.set(pattern, times, Spring::LoseRequest)
    }

    fn set(&self, pattern: &[u8], times: u32, spring: Spring) -> Arc<Trap> {
        let (left, hits) = (AtomicU32::new(times), AtomicU32::new(0));
        let trap = Arc::new(Trap { pattern: pattern.to_vec(), spring, left, hits });
        self.rules.send_modify(|rules| rules.trap = Some(Arc::clone(&trap)));
        trap
    }

    /// Forwards as at the beginning. Connections from which bytes were lost are of no use any more.
    pub fn heal(&self) {
        self.rules.send_modify(|rules| {
            *rules = Rules {
                upstream: rules.upstream.clone(),
                silent_below: rules.silent_below,
                ..Rules::default()
            };
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connections end with the sender of the rules: the proxy.
async fn accept(listener: TcpListener, rules: watch::Receiver<Rules>, count: Arc<AtomicU64>) {
    while let Ok((client, _)) = listener.accept().await {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let (upstream, cut) = {
            let rules = rules.borrow();
            (rules.upstream.clone(), rules.cut)
        };
        if !cut {
            tokio::spawn(connect(client, upstream, rules.clone(), number));
        }
    }
}

async fn connect(client: TcpStream, upstream: String, rules: watch::Receiver<Rules>, number: u64) {
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    drop((client.set_nodelay(true), server.set_nodelay(true)));
    let (from_client, towards_client) = client.into_split();
    let (from_server, towards_server) = server.into_split();
    let state = Arc::new(Line { number, ..Line::default() });
    let pump = |from, to| {
        let (rules, line) = (rules.clone(), Arc::clone(&state));
        Pump { from, to, rules, line, seen: Vec::new() }
    };
    let up = pump(from_client, towards_server);
    let down = pump(from_server, towards_client);
    let mut rules = rules;
    // Whichever ends first closes both connections.
    tokio::select! {
        () = up.towards_server() => {}
        () = down.towards_client() => {}
        _ = rules.wait_for(|rules| rules.cut) => {}
    }
}

/// What both directions of a connection know.
#[derive(Debug, Default)]
struct Line {
    number: u64,
    answer_lost: AtomicBool,
    silent: AtomicBool,
}

/// One direction of a connection.
struct Pump {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    rules: watch::Receiver<Rules>,
    line: Arc<Line>,
    /// The end of what has passed, for patterns that arrive in two pieces.
    seen: Vec<u8>,
}

impl Pump {
    async fn towards_server(mut self) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let Some(piece) = self.read(&mut buffer, |rules| rules.to_server_lost).await else {
                return;
            };
            let (delay, trap) = {
                let rules = self.rules.borrow();
                (rules.delay, rules.trap.clone())
            };
            tokio::time::sleep(delay).await;
            let trapped = trap.filter(|trap| self.shows(piece, &trap.pattern) && trap.springs());
            match trapped.map(|trap| trap.spring) {
                Some(Spring::LoseAnswer) => self.line.answer_lost.store(true, Ordering::SeqCst),
                Some(Spring::LoseRequest) => return,
                Some(Spring::Silence) => self.line.silent.store(true, Ordering::SeqCst),
                None => {}
            }
            let lost = self.lost(|rules| rules.to_server_lost);
            if !lost && self.to.write_all(piece).await.is_err() {
                return;
            }
        }
    }

    async fn towards_client(mut self) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let Some(piece) = self.read(&mut buffer, |rules| rules.to_client_lost).await else {
                return;
            };
            let delay = self.rules.borrow().delay;
            let lost = self.lost(|rules| rules.to_client_lost);
            if self.line.answer_lost.load(Ordering::SeqCst) {
                return;
            }
            tokio::time::sleep(delay).await;
            if !lost && self.to.write_all(piece).await.is_err() {
                return;
            }
        }
    }

    /// The next piece, or nothing at the end. Where bytes are lost, an end is as well.
    async fn read<'b>(
        &mut self,
        buffer: &'b mut [u8],
        lost: fn(&Rules) -> bool,
    ) -> Option<&'b [u8]> {
        match self.from.read(buffer).await {
            Ok(count) if count > 0 => Some(&buffer[..count]),
            _ => {
                if self.lost(lost) {
                    pending::<()>().await;
                }
                None
            }
        }
    }

    fn lost(&self, lost: fn(&Rules) -> bool) -> bool {
        let rules = self.rules.borrow();
        let silent = self.line.silent.load(Ordering::SeqCst);
        lost(&rules) || silent || self.line.number < rules.silent_below
    }

    fn shows(&mut self, piece: &[u8], pattern: &[u8]) -> bool {
        self.seen.extend_from_slice(piece);
        let found = self.seen.windows(pattern.len()).any(|window| window == pattern);
        let keep = if found { 0 } else { pattern.len() - 1 };
        self.seen.drain(..self.seen.len().saturating_sub(keep));
        found
    }
}
