//! Databases whose inbox has grown: made once for each kind, copied for each run.

use inbox_consumer::config::Config;
use inbox_consumer::migrate;
use sqlx::Postgres;
use xtask::failure::{Explain as _, Outcome};

use crate::candidate::Inbox;
use crate::plan::{CONSUMER, Ids};
use crate::scenario::Case;
use crate::server::{Database, Server};

/// Inserted at once.
const SLICE: u64 = 500_000;

/// The name of a database with as many rows in its inbox as the case wants.
pub(crate) async fn template(server: &Server, inbox: Inbox, case: &Case) -> Outcome<String> {
    let ids = if case.plan.ids == Ids::Random { "random" } else { "timed" };
    let table = inbox.table()?;
    let name = format!("grown_{table}_{ids}_{}", case.grown);
    if server.has(&name).await? {
        return Ok(name);
    }
    println!("filling {table} with {} rows, {ids} ids", case.grown);
    // It gets its name when it is complete.
    let database = server.create(&format!("{name}_filling"), "").await?;
    database.make_tables(inbox).await?;
    if inbox == Inbox::Ours {
        own_tables(&database).await?;
    }
    let mut first = 0;
    while first < case.grown {
        let next = (first + SLICE).min(case.grown);
        database.run(&slice(inbox, case.plan.ids, first, next)?).await?;
        first = next;
    }
    database.run(&format!("VACUUM (FREEZE, ANALYZE) {table}")).await?;
    database.run("CREATE EXTENSION pg_prewarm").await?;
    server.rename(database, &name).await?;
    Ok(name)
}

/// Reads the key into the server's memory, where it is once a consumer has run for a while: a copied database
/// begins with none of it.
pub(crate) async fn warm(database: &Database, inbox: Inbox) -> Outcome {
    let table = inbox.table()?;
    database.run(&format!("SELECT pg_prewarm('{table}_pkey')")).await
}

/// What `migrate` makes, and the row of our consumer.
async fn own_tables(database: &Database) -> Outcome {
    let none: [&str; 0] = [];
    let config = Config::new(CONSUMER, "", none, database.url.as_str());
    migrate::<Postgres>(&config).await.explain(|| "cannot make the tables".to_owned())?;
    database.run(&format!("INSERT INTO inbox_consumers (consumer) VALUES ('{CONSUMER}')")).await
}

/// Rows of events that happened before those of the plan, written a day ago.
fn slice(inbox: Inbox, ids: Ids, first: u64, next: u64) -> Outcome<String> {
    let id = match ids {
        Ids::Random => "gen_random_uuid()".to_owned(),
        // Version 7: fifty in each millisecond, from 2020 on.
        Ids::Timed => {
            "overlay(overlay(lpad(to_hex(1577836800000 + n / 50), 12, '0') || md5(n::text)
            PLACING '7' FROM 13 FOR 1) PLACING '8' FROM 17 FOR 1)::varchar(32)::uuid"
                .to_owned()
        }
    };
    let table = inbox.table()?;
    let (columns, values) = match inbox {
        Inbox::Ours => (
            "consumer_ref, partition_ref, \"offset\", processed_at, event_id, fingerprint",
            format!("(SELECT consumer_ref FROM inbox_consumers), 1 + n % 8, n / 8, now() - interval '1 day', {id},
                decode(md5(n::text), 'hex')"),
        ),
        Inbox::Plain | Inbox::None => {
            ("processed_at, event_id", format!("now() - interval '1 day', {id}"))
        }
    };
    let last = next - 1;
    Ok(format!(
        "INSERT INTO {table} ({columns}) SELECT {values} FROM generate_series({first}::bigint, {last}) AS n"
    ))
}
