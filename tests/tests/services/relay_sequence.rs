//! The relay: a database that came without its sequences, so that new rows have numbers below older ones.

use std::time::Duration;

use outbox_relay::{BuildError, Ended, Relay};
use tests::{Markdown, Outbox, Proxy, SOON, Services, eventually, firsts};

use super::{commands::ran, relay_order::in_order};
use crate::programs::RELAY;

const OPERATIONS: &str = include_str!("../../../docs/operations.md");

/// What the page prints for a table without rows that came later, and for one with such rows.
fn steps() -> [String; 2] {
    let fences = Markdown::read(OPERATIONS).fences;
    let ours = fences.into_iter().filter(|fence| fence.heading == "`sequence_behind`");
    let texts: Vec<String> = ours.map(|fence| fence.text).collect();
    texts.try_into().expect("two statements")
}

/// The second one, with the moment of the move.
fn step_with(moved: &str) -> String {
    let [_, block] = steps();
    let example = "2026-11-24 03:00:00+00";
    assert!(block.contains(example), "{block}");
    block.replace(example, moved)
}

/// Rows of two aggregates, from number 1001 on, and a sequence that begins anew, as a logical copy has them.
/// Answers the moment of the move.
async fn moved(outbox: &Outbox) -> String {
    let restart = "ALTER TABLE outbox_events ALTER COLUMN seq RESTART WITH";
    outbox.schema.run(&format!("{restart} 1001")).await;
    both(outbox, 1, 20).await;
    outbox.schema.run(&format!("{restart} 1")).await;
    sqlx::query_scalar("SELECT clock_timestamp()::text")
        .fetch_one(outbox.schema.pool())
        .await
        .unwrap()
}

async fn both(outbox: &Outbox, from: i64, to: i64) {
    for n in from..=to {
        outbox.append("a", n, n).await;
        outbox.append("b", n, n).await;
    }
}

/// Waits until the relay says so in the database, for `status`, or sends what it should not.
async fn behind(outbox: &Outbox) -> String {
    let told = "SELECT coalesce(standstill, '') FROM outbox_relays WHERE relay_ref = 1";
    let said = async || -> String {
        sqlx::query_scalar(told).fetch_one(outbox.schema.pool()).await.unwrap()
    };
    eventually(SOON, "it stands still, or sends everything", async || {
        said().await.starts_with("sequence_behind: ") || outbox.waiting().await == 0
    })
    .await;
    said().await
}

async fn is_over(outbox: &Outbox) {
    let over = "SELECT count(*) FROM outbox_relays WHERE relay_ref = 1 AND standstill IS NULL";
    eventually(SOON, "it is over", async || outbox.schema.number(over).await == 1).await;
}

/// `check` and start refuse by name; after the step of the operations page everything goes in order, what was
/// appended since included.
#[tokio::test]
async fn new_rows_do_not_overtake_older_ones() {
    let outbox = Outbox::set("sequence", 2).await;
    let moment = moved(&outbox).await;
    both(&outbox, 21, 25).await;
    let built = Relay::builder(outbox.config.clone()).build().await;
    if built.is_ok() {
        let running = outbox.start().await;
        outbox.drained(SOON).await;
        running.stop().await;
        in_order(&outbox.arrivals().await, &["a", "b"], 25);
    }
    let Err(BuildError::Unsafe(found)) = built else { panic!("{built:?}") };
    assert_eq!(found.len(), 1, "{found:?}");
    let told = "sequence_behind: 11 is the number that the next row of outbox_events gets, but \
                1040 is already the largest";
    assert!(found[0].text.starts_with(told), "{found:?}");
    let (code, out, _) = ran(outbox.command(&RELAY), "check").await;
    assert_eq!(code, Some(5), "{out}");
    assert!(out.contains(told), "{out}");
    let [alone, _] = steps();
    assert!(out.contains(alone.trim().trim_end_matches(';')), "{out}");
    let (code, _, err) = ran(outbox.command(&RELAY), "run").await;
    assert_eq!((code, err.contains(told)), (Some(3), true), "{err}");

    outbox.schema.run(&step_with(&moment)).await;
    let (code, out, _) = ran(outbox.command(&RELAY), "check").await;
    assert_eq!(code, Some(0), "{out}");
    let running = outbox.start().await;
    both(&outbox, 26, 30).await;
    outbox.drained(SOON).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    in_order(&outbox.arrivals().await, &["a", "b"], 30);
}

/// A relay that stood by when the database was moved: it has the turn, sends nothing, and goes on by itself.
#[tokio::test]
async fn a_relay_that_takes_over_sends_nothing_before_it_is_mended() {
    let outbox = Outbox::set("taken-over", 2).await;
    let other = "UPDATE outbox_relays SET epoch = 7, owner = 'other', token = gen_random_uuid(), token_epoch = 7,
        lease_ms = 4000, lease_until = now() + interval '4 seconds'";
    outbox.schema.run(other).await;
    let relay = outbox.start().await;
    let moment = moved(&outbox).await;
    both(&outbox, 21, 25).await;
    assert_eq!(relay.counters.read().turns, 0, "the turn is another's until then");
    let said = behind(&outbox).await;
    let (_, out, _) = ran(outbox.command(&RELAY), "status").await;
    // Longer than its lease: it keeps the turn.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let read = relay.counters.read();
    assert_eq!((read.turns, read.looks), (1, 0), "{:?}", firsts(&outbox.arrivals().await));
    assert!(said.starts_with("sequence_behind: 11 is") && out.contains("sequence_behind"), "{out}");
    assert!(outbox.arrivals().await.is_empty());

    outbox.schema.run(&step_with(&moment)).await;
    outbox.drained(SOON).await;
    both(&outbox, 26, 30).await;
    outbox.drained(SOON).await;
    is_over(&outbox).await;
    assert_eq!(relay.counters.read().turns, 1);
    assert_eq!(relay.stop().await, Ended::Shutdown);
    in_order(&outbox.arrivals().await, &["a", "b"], 30);
}

/// Another server takes the place of the old one under a relay that has the turn, and the turn was copied. Nothing
/// was appended there before the sequence is set.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_finds_another_server_asks_anew() {
    let services = Services::from_env();
    let mut outbox = Outbox::set("new-server", 2).await;
    let server = services.postgres.rsplit(['@', '/']).nth(1).unwrap();
    let proxy = Proxy::start(server).await;
    outbox.config.database.url = outbox.schema.url_at(&proxy.url(&services.postgres)).into();
    outbox.config.relay.lease = Duration::from_secs(15);
    let relay = outbox.start().await;
    outbox.append("warm", 1, 1).await;
    outbox.drained(SOON).await;
    // What it was told of the row may cause one look more.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let looks = relay.counters.read().looks;
    proxy.cut();
    moved(&outbox).await;
    proxy.heal();
    let standing =
        "SELECT count(*) FROM outbox_relays WHERE standstill LIKE 'sequence_behind: 1 is%'";
    // The lease is renewed, with the reason in it, every five seconds.
    eventually(SOON, "it stands still", async || outbox.schema.number(standing).await == 1).await;
    let read = relay.counters.read();
    assert_eq!((read.turns, read.looks), (1, looks), "{:?}", firsts(&outbox.arrivals().await));
    let [alone, _] = steps();
    outbox.schema.run(&alone).await;
    both(&outbox, 21, 25).await;
    outbox.drained(SOON).await;
    assert_eq!(relay.counters.read().turns, 1);
    assert_eq!(relay.stop().await, Ended::Shutdown);
    let found = outbox.arrivals().await;
    let found: Vec<_> = found.into_iter().filter(|arrival| arrival.key != "warm").collect();
    in_order(&found, &["a", "b"], 25);
}

/// Who may not read the sequence sees nothing of this: `check` says so, and a relay starts.
#[tokio::test]
async fn check_names_the_privilege_that_comparing_lacks() {
    let services = Services::from_env();
    let mut outbox = Outbox::set("unseen", 1).await;
    let role = tests::unique("role").replace('-', "_");
    let schema = outbox.schema.name();
    let grants = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};
         GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}"
    );
    outbox.schema.run(&grants).await;
    let address = services.postgres.split_once('@').unwrap().1;
    let url = outbox.schema.url_at(&format!("postgres://{role}@{address}"));
    outbox.config.database.url = url.into();
    let (code, out, err) = ran(outbox.command(&RELAY), "check").await;
    let running = outbox.start().await;
    outbox.append("a", 1, 3).await;
    outbox.drained(SOON).await;
    assert_eq!(running.stop().await, Ended::Shutdown);
    let grant = format!("GRANT SELECT ON SEQUENCE {schema}.outbox_events_seq_seq TO");
    outbox.schema.run(&format!("{grant} {role}")).await;
    let (later, said, _) = ran(outbox.command(&RELAY), "check").await;
    outbox.schema.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        out.contains(&format!("{grant} {role}")) && out.starts_with("OK to start, 1 warning\n"),
        "{out}{err}"
    );
    assert_eq!((later, said.trim()), (Some(0), "OK to start"), "{said}");
}

/// What a sequence is made of may change under a relay, too: numbers in stock are given late, and would be sent first.
#[tokio::test]
async fn a_sequence_that_hands_numbers_out_of_order_is_refused() {
    let outbox = Outbox::set("sequence-cache", 1).await;
    let sequence = "outbox_events_seq_seq";
    for (change, back) in [
        ("CACHE 20", "CACHE 1"),
        ("CYCLE", "NO CYCLE"),
        ("MINVALUE -100 START 50 RESTART INCREMENT -1", "MINVALUE 1 START 1 RESTART INCREMENT 1"),
    ] {
        outbox.schema.run(&format!("ALTER SEQUENCE {sequence} {change}")).await;
        let (code, out, _) = ran(outbox.command(&RELAY), "check").await;
        assert_eq!(code, Some(5), "{change}: {out}");
        assert!(out.contains("of outbox_events.seq has INCREMENT "), "{change}: {out}");
        let built = Relay::builder(outbox.config.clone()).build().await;
        assert!(matches!(built, Err(BuildError::Unsafe(_))), "{change}");
        outbox.schema.run(&format!("ALTER SEQUENCE {sequence} {back}")).await;
        assert_eq!(ran(outbox.command(&RELAY), "check").await.0, Some(0), "{back}");
    }
}

/// As after a copy by hand: nobody can say what numbers new rows will have.
#[tokio::test]
async fn a_column_without_a_sequence_of_its_own_is_told() {
    let outbox = Outbox::set("no-sequence", 1).await;
    outbox.schema.run("ALTER TABLE outbox_events ALTER seq DROP IDENTITY").await;
    let (code, out, _) = ran(outbox.command(&RELAY), "check").await;
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("outbox_events.seq owns no sequence"), "{out}");
}

/// A partitioned table has a unique index only with the columns that part it; rows twice by one key are nobody's error.
#[tokio::test]
async fn what_is_unique_no_more_is_told() {
    let outbox = Outbox::set("not-unique", 1).await;
    outbox.schema.run("DROP INDEX outbox_events_dedup").await;
    outbox.schema.run("CREATE UNIQUE INDEX other ON outbox_events (dedup_key, created_at)").await;
    outbox
        .schema
        .run("CREATE UNIQUE INDEX of_a_few ON outbox_events (dedup_key) WHERE dedup_key LIKE 'a%'")
        .await;
    let (code, out, _) = ran(outbox.command(&RELAY), "check").await;
    assert_eq!(code, Some(0), "{out}");
    let told = "no unique index of outbox_events has exactly the column(s) dedup_key";
    assert!(out.contains(told), "{out}");
    outbox.schema.run("CREATE UNIQUE INDEX all_of_them ON outbox_events (dedup_key)").await;
    let (_, out, _) = ran(outbox.command(&RELAY), "check").await;
    assert!(!out.contains(told), "{out}");
    outbox.schema.run("ALTER TABLE outbox_parked SET UNLOGGED; CREATE RULE swallow AS ON INSERT TO outbox_parked DO INSTEAD NOTHING").await;
    let (_, out, _) = ran(outbox.command(&RELAY), "check").await;
    for told in ["outbox_parked is unlogged", "outbox_parked has rules"] {
        assert!(out.contains(told), "{out}");
    }
}

/// Whoever sees other rows than are there sends some late, or never.
#[tokio::test]
async fn rows_that_are_hidden_from_the_role_are_told() {
    let mut outbox = Outbox::set("hidden", 1).await;
    let role = tests::unique("role").replace('-', "_");
    let schema = outbox.schema.name();
    let grants = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};
         GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}; GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role}"
    );
    outbox.schema.run(&grants).await;
    let server = Services::from_env().postgres;
    let address = server.split_once('@').unwrap().1;
    let url = outbox.schema.url_at(&format!("postgres://{role}@{address}"));
    outbox.config.database.url = url.into();
    let told = "row security of outbox_events applies to this role";
    let (_, before, _) = ran(outbox.command(&RELAY), "check").await;
    outbox.schema.run("ALTER TABLE outbox_events ENABLE ROW LEVEL SECURITY").await;
    let (_, after, _) = ran(outbox.command(&RELAY), "check").await;
    outbox.schema.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    assert!(!before.contains(told) && after.contains(told), "{before}{after}");
}

/// A statement of the relay is a transaction of its own: under such a default it fails where it has waited for another.
#[tokio::test]
async fn a_default_isolation_above_read_committed_is_no_outage() {
    let mut outbox = Outbox::set("serializable", 1).await;
    let role = tests::unique("role").replace('-', "_");
    let schema = outbox.schema.name();
    let grants = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};
         GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}; GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role};
         ALTER ROLE {role} SET default_transaction_isolation = serializable"
    );
    outbox.schema.run(&grants).await;
    let server = Services::from_env().postgres;
    let address = server.split_once('@').unwrap().1;
    let url = outbox.schema.url_at(&format!("postgres://{role}@{address}"));
    outbox.config.database.url = url.into();
    outbox.append("a", 1, 3).await;
    let mut tx = outbox.schema.pool().begin().await.unwrap();
    let touched = "UPDATE outbox_events SET created_at = created_at";
    sqlx::query(touched).execute(&mut *tx).await.unwrap();
    let running = outbox.start().await;
    eventually(SOON, "they are sent", async || !outbox.arrivals().await.is_empty()).await;
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = '{role}' AND wait_event_type = 'Lock'"
    );
    eventually(SOON, "the mark waits", async || outbox.schema.number(&waits).await > 0).await;
    tx.commit().await.unwrap();
    outbox.drained(SOON).await;
    let outages = running.counters.read().outages;
    assert_eq!(running.stop().await, Ended::Shutdown);
    outbox.schema.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    assert_eq!(outages, 0);
}
