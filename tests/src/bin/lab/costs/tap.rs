//! A tap between a client and PostgreSQL: counts the messages that the client waits for an answer to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Forwards connections and counts.
pub(crate) struct Tap {
    address: String,
    messages: Arc<AtomicU64>,
}

impl Tap {
    /// In front of the server of a URL.
    pub(crate) async fn start(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let messages = Arc::new(AtomicU64::new(0));
        let (counter, server) = (Arc::clone(&messages), host(url).to_owned());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                drop((client.set_nodelay(true), server.set_nodelay(true)));
                let (from_client, mut to_client) = client.into_split();
                let (mut from_server, to_server) = server.into_split();
                tokio::spawn(count(from_client, to_server, Arc::clone(&counter)));
                tokio::spawn(async move {
                    drop(tokio::io::copy(&mut from_server, &mut to_client).await);
                });
            }
        });
        Self { address, messages }
    }

    /// The URL, through the tap.
    pub(crate) fn url(&self, url: &str) -> String {
        url.replacen(host(url), &self.address, 1)
    }

    /// How many messages asked for an answer so far: simple queries, and the ends of extended ones.
    pub(crate) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }
}

/// Host and port of a URL.
fn host(url: &str) -> &str {
    let behind = url.split_once("://").map_or(url, |(_, behind)| behind);
    let place = behind.split(['/', '?']).next().unwrap_or_default();
    place.rsplit_once('@').map_or(place, |(_, host)| host)
}

/// What a client asks before it begins: whether the server speaks TLS. It has no letter either.
const TLS_ASKED: [u8; 4] = 80_877_103_u32.to_be_bytes();

/// Passes messages on; the first has no letter in front of its length.
async fn count(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, counter: Arc<AtomicU64>) {
    let mut letter = None;
    loop {
        let mut length = [0_u8; 4];
        if from.read_exact(&mut length).await.is_err() {
            return;
        }
        let rest = u32::from_be_bytes(length).saturating_sub(4);
        let mut message = Vec::new();
        message.extend(letter);
        message.extend(length);
        let begun = message.len();
        message.resize(begun + usize::try_from(rest).unwrap_or_default(), 0);
        if from.read_exact(&mut message[begun..]).await.is_err() {
            return;
        }
        if letter.is_some_and(|letter| matches!(letter, b'Q' | b'S')) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if to.write_all(&message).await.is_err() {
            return;
        }
        if letter.is_none() && message.ends_with(&TLS_ASKED) {
            continue;
        }
        let mut next = [0_u8; 1];
        if from.read_exact(&mut next).await.is_err() {
            return;
        }
        letter = Some(next[0]);
    }
}
