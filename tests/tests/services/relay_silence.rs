//! The relay: connections that fall silent without being closed.

use std::time::Duration;

use outbox_relay::Ended;
use tests::{Outbox, Proxy, Services, eventually};

/// Everything has to be there again within this.
const MEND: Duration = Duration::from_mins(1);

/// An outbox whose relay reaches the database through a proxy and never polls.
async fn behind_a_proxy(stem: &str) -> (Outbox, Proxy) {
    let services = Services::from_env();
    let mut outbox = Outbox::set(stem, 1).await;
    let server = services.postgres.rsplit(['@', '/']).nth(1).unwrap();
    let proxy = Proxy::start(server).await;
    outbox.config.database.url = outbox.schema.url_at(&proxy.url(&services.postgres)).into();
    outbox.config.wake.poll_interval = Duration::ZERO;
    (outbox, proxy)
}

async fn shipped(outbox: &Outbox, rows: i64) {
    let sent = "SELECT count(*) FROM outbox_events WHERE sent_at IS NOT NULL";
    eventually(MEND, "all rows are shipped", async || outbox.schema.number(sent).await == rows)
        .await;
}

/// The session that listens: nobody writes on it, so that nothing would notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_listening_connection_that_fell_silent_is_noticed_without_a_poll() {
    let (outbox, proxy) = behind_a_proxy("deaf").await;
    let relay = outbox.start().await;
    outbox.append("a", 1, 3).await;
    shipped(&outbox, 3).await;
    proxy.silence();
    outbox.append("a", 4, 10).await;
    shipped(&outbox, 10).await;
    assert_eq!(relay.stop().await, Ended::Shutdown);
}

/// Each of its sessions at work: opening, taking and keeping the turn, reading, marking.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_relay_that_falls_silent_is_given_up() {
    let places: [(&str, &[u8]); 5] = [
        ("the turn", b"WITH free AS (SELECT relay_ref"),
        ("the lease", b"UPDATE outbox_relays SET lease_until"),
        ("reading", b"SELECT seq, event_id, event_type"),
        ("marking", b"WITH mine AS MATERIALIZED"),
        ("listening", b"LISTEN"),
    ];
    let tests = places.map(async |(place, bytes)| {
        let (mut outbox, proxy) = behind_a_proxy("silent").await;
        outbox.config.database.statement_timeout = Duration::from_secs(2);
        let trap = proxy.silence_at(bytes, 1);
        let relay = outbox.start().await;
        outbox.append("a", 1, 5).await;
        eventually(MEND, &format!("{place}: it fell silent"), async || trap.hits() == 1).await;
        outbox.append("a", 6, 10).await;
        shipped(&outbox, 10).await;
        assert_eq!(relay.stop().await, Ended::Shutdown, "{place}");
    });
    futures::future::join_all(tests).await;
}

/// A new session asks for the next number before it reads. No answer is an outage: it is asked again.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_for_the_next_number_that_stays_unanswered_is_asked_again() {
    let (mut outbox, proxy) = behind_a_proxy("unnumbered").await;
    outbox.config.database.statement_timeout = Duration::from_secs(2);
    outbox.config.wake.poll_interval = Duration::from_secs(1);
    let relay = outbox.start().await;
    outbox.append("a", 1, 3).await;
    shipped(&outbox, 3).await;
    let trap = proxy.silence_at(b"SELECT last_value, is_called", 1);
    proxy.silence();
    outbox.append("a", 4, 10).await;
    shipped(&outbox, 10).await;
    assert_eq!(trap.hits(), 1);
    let read = relay.counters.read();
    assert!(read.outages >= 2 && read.turns == 1, "{read:?}");
    assert_eq!(relay.stop().await, Ended::Shutdown);
}
