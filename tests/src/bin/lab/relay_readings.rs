//! `cargo xtask relay-readings`: what polling for metrics costs the database, with Kafka from the environment and a
//! PostgreSQL of its own, which reports the whole text of a statement.
//!
//! A relay stands by beside unsent rows. The statement that it has sent is read from the server, which then
//! measures how long it takes, some rounds before it has statistics of the table, and as many afterwards.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use outbox_relay::config::Http;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};
use tests::{Outbox, OwnPostgres, SOON, Services, until_some};

/// What the sessions of a relay have that only look.
const SESSION: &str =
    "SET enable_bitmapscan = off; SET enable_seqscan = off; SET enable_sort = off; SET jit = off";

#[derive(Args, Debug)]
pub(crate) struct RelayReadingsArgs {
    /// Unsent rows.
    #[arg(long, default_value_t = 5_000_000)]
    rows: u32,
    /// How often the statement is measured.
    #[arg(long, default_value_t = 10)]
    rounds: u32,
}

pub(crate) async fn run(args: RelayReadingsArgs) -> ExitCode {
    let RelayReadingsArgs { rows, rounds } = args;
    let own = OwnPostgres::start_with("track_activity_query_size = 16384").await;
    let topic = Services::from_env().topic("readings", 1).await;
    let mut outbox = Outbox::with(topic, own.schema().await).await;
    outbox.config.http = Http { listen: "127.0.0.1:0".into() };
    outbox
        .schema
        .run("UPDATE outbox_relays SET owner = 'x', lease_until = now() + interval '9 minutes', lease_ms = 600000")
        .await;
    outbox.schema.run("ALTER TABLE outbox_events SET (autovacuum_enabled = off)").await;
    let fill = format!(
        "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, headers, payload)
         SELECT gen_random_uuid(), 'Counted', 'Account', (n % 1000)::text, '[]', '{{\"n\":1}}'
         FROM generate_series(1, {rows}) n"
    );
    outbox.schema.run(&fill).await;
    let relay = outbox.start().await;
    let sent = "SELECT query FROM pg_stat_activity WHERE application_name = 'outbox-relay'
        AND query LIKE '%pg_indexes_size%'";
    let text = until_some(SOON, "a look", async || {
        let found: Option<String> =
            sqlx::query_scalar(sent).fetch_optional(outbox.schema.pool()).await.expect("an answer");
        found
    })
    .await;
    relay.stop().await;
    let mut session = PgConnection::connect(&outbox.schema.url()).await.expect("a session");
    sqlx::raw_sql(SESSION).execute(&mut session).await.expect("settings");
    for learnt in [false, true] {
        if learnt {
            outbox.schema.run("VACUUM ANALYZE outbox_events").await;
            outbox.schema.run("VACUUM ANALYZE outbox_parked").await;
        }
        let (mut times, mut buffers) = (Vec::new(), 0);
        for _ in 0..rounds {
            let explain = format!("EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, FORMAT JSON) {text}");
            let row = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(&mut session).await;
            let plan: serde_json::Value = row.expect("a plan").try_get(0).expect("JSON");
            let time = |name: &str| plan[0][name].as_f64().expect("a time");
            times.push(time("Planning Time") + time("Execution Time"));
            let of = |name: &str| plan[0]["Plan"][name].as_i64().unwrap_or(0);
            buffers = of("Shared Hit Blocks") + of("Shared Read Blocks");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        times.sort_unstable_by(f64::total_cmp);
        println!(
            "{rows} rows that wait, {}: {:.1} ms (lowest {:.1}, highest {:.1}), {buffers} pages",
            if learnt { "vacuumed and analysed" } else { "never vacuumed nor analysed" },
            times[times.len() / 2],
            times[0],
            times[times.len() - 1],
        );
    }
    ExitCode::SUCCESS
}
