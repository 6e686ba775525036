//! Roles with exactly the rights that `migrate --print-grants` prints.
//!
//! They are at work on a real server; an error says what gives a right that is missing.

use std::process::Command;

use outbox_core::{Aggregate, OutboxEvent};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tests::{Outbox, Record, SOON, Schema, Services, Stage, Worker, eventually};

use super::commands::{ran, worker};
use crate::programs::RELAY;

/// A role that may log in and do nothing, and the URL that comes as it.
async fn role(schema: &Schema) -> (String, String) {
    let role = tests::unique("role").replace('-', "_");
    schema.run(&format!("CREATE ROLE {role} LOGIN")).await;
    let server = Services::from_env().postgres;
    let address = server.split_once('@').unwrap().1;
    let url = schema.url_at(&format!("postgres://{role}@{address}"));
    (role, url)
}

async fn dropped(schema: &Schema, role: &str) {
    schema.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

/// Gives a role what a binary says that it needs.
async fn granted(schema: &Schema, mut command: Command, variable: &str, role: &str, kind: &str) {
    command.env(variable, schema.name());
    let (code, out, err) =
        ran(command, &format!("migrate --print-grants {role} --for {kind}")).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    schema.run(&out).await;
}

fn consumer(stage: &Stage, url: &str) -> Command {
    let mut command = worker(stage);
    command.env("INBOX_DATABASE__URL", url);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_works_with_exactly_the_rights_that_are_printed() {
    let stage = Stage::set("rights", 1).await;
    let (role, url) = role(&stage.schema).await;
    let schema = stage.schema.name();

    // Without any: all of them at once, as a block that is the cure.
    let (code, out, err) = ran(consumer(&stage, &url), "check").await;
    assert_eq!(code, Some(5), "{err}");
    let block =
        out.split("run, as the owner of the tables: ").nth(1).unwrap().lines().next().unwrap();
    assert!(
        block.starts_with(&format!("GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT ")),
        "{out}"
    );
    assert_eq!(out.matches("error ").count(), 1, "{out}");
    stage.schema.run(block).await;
    let (code, out, _) = ran(consumer(&stage, &url), "check").await;
    assert_eq!(code, Some(0), "{out}");
    stage.schema.run(&format!("DROP OWNED BY {role}")).await;

    granted(&stage.schema, worker(&stage), "INBOX_DATABASE__SCHEMA", &role, "consumer").await;
    // The handler's own table is not the runtime's business: its error says what is missing.
    stage.count("a", 1, 1).await;
    let running = Worker::spawn(consumer(&stage, &url).arg("run"));
    eventually(SOON, "it is parked", async || stage.parked("exhausted").await == 1).await;
    let why = format!(
        "SELECT count(*) FROM inbox_parked WHERE errors::text LIKE '%permission denied for table effects \
         (code 42501); run as its owner: GRANT SELECT, INSERT, UPDATE, DELETE ON effects TO {role}%'"
    );
    assert_eq!(stage.schema.number(&why).await, 1);
    stage.schema.run(&format!("GRANT ALL ON effects TO {role}")).await;
    for command in ["parked release --all --yes --why x --wait 30s", "status", "parked audit"] {
        let (code, out, err) = ran(consumer(&stage, &url), command).await;
        assert_eq!(code, Some(0), "{command}: {out}{err}");
    }
    stage.count("a", 2, 9).await;
    eventually(SOON, "all are applied", async || stage.effects().await == 9).await;
    drop(running);

    // Who only looks, looks.
    stage.schema.run(&format!("DROP OWNED BY {role}")).await;
    granted(&stage.schema, worker(&stage), "INBOX_DATABASE__SCHEMA", &role, "reader").await;
    for command in ["status", "parked list", "parked audit"] {
        let (code, out, err) = ran(consumer(&stage, &url), command).await;
        assert_eq!(code, Some(0), "{command}: {out}{err}");
    }
    let (code, _, err) = ran(consumer(&stage, &url), "prune").await;
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("GRANT SELECT, INSERT, UPDATE, DELETE ON inbox_"), "{err}");
    dropped(&stage.schema, &role).await;
}

/// Runs commands that have to end well; the first that does not.
async fn refused(stage: &Stage, url: &str, commands: &[&str]) -> Option<String> {
    for command in commands {
        let (code, out, err) = ran(consumer(stage, url), command).await;
        if code != Some(0) {
            return Some(format!("{command}: {out}{err}"));
        }
    }
    None
}

/// Each privilege that is printed for a kind, one statement for each.
async fn printed(stage: &Stage, role: &str, kind: &str) -> Vec<String> {
    let mut command = worker(stage);
    command.env("INBOX_DATABASE__SCHEMA", stage.schema.name());
    let (code, out, err) =
        ran(command, &format!("migrate --print-grants {role} --for {kind}")).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let each = out.lines().flat_map(|line| {
        let (privileges, on) = line.trim_start_matches("GRANT ").split_once(" ON ").unwrap();
        privileges.split(", ").map(move |one| format!("{one} ON {on}"))
    });
    each.collect()
}

/// With one right less than is printed something that the role is for fails: there is none too many.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_looks_and_one_that_erases_have_no_right_too_many() {
    let stage = Stage::set("least", 1).await;
    let (role, url) = role(&stage.schema).await;
    let running = Worker::spawn(worker(&stage).arg("run"));
    let park = async || {
        let strange = Record::event(&tests::unique("s"), "Strange", "7", "{}");
        stage.send(&[strange.header("aggregate_type", "Order")]).await;
        eventually(SOON, "it is parked", async || stage.parked("").await == 1).await;
    };
    park().await;
    let show = format!("parked show {}", super::parked_support::seq(&stage, 0).await);
    let looks = ["status", "parked list", &show, "parked audit"];
    let erases = ["forget --aggregate Order/7 --yes"];
    for (kind, commands) in [("reader", &looks[..]), ("eraser", &erases)] {
        let rights = printed(&stage, &role, kind).await;
        for right in &rights {
            stage.schema.run(&format!("GRANT {right}")).await;
        }
        assert_eq!(refused(&stage, &url, commands).await, None, "{kind}");
        // The outbox is looked at by the relay's command.
        for right in rights.iter().filter(|right| !right.contains("outbox_")) {
            if stage.parked("").await == 0 {
                park().await;
            }
            stage.schema.run(&format!("REVOKE {}", right.replace(" TO ", " FROM "))).await;
            let why = refused(&stage, &url, commands).await;
            assert!(why.is_some(), "{kind} does without: {right}");
            stage.schema.run(&format!("GRANT {right}")).await;
        }
        stage.schema.run(&format!("DROP OWNED BY {role}")).await;
    }
    drop(running);
    dropped(&stage.schema, &role).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_and_who_appends_work_with_exactly_the_rights_that_are_printed() {
    let mut outbox = Outbox::set("rights", 1).await;
    let (appender, url) = role(&outbox.schema).await;
    let command = outbox.command(&RELAY);
    granted(&outbox.schema, command, "OUTBOX_DATABASE__SCHEMA", &appender, "appender").await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    for n in 1..=3 {
        let event = OutboxEvent::new("Paid", &Aggregate::new("Order", "a").unwrap(), &n).unwrap();
        let event = event.with_dedup_key(format!("paid/{n}")).unwrap();
        outbox_core::append(&mut conn, &event).await.unwrap();
    }
    let look = "SELECT payload FROM outbox_events";
    let looked = sqlx::query(AssertSqlSafe(look)).execute(&mut conn).await;
    assert!(looked.is_err(), "who appends does not read");

    let (relay, url) = role(&outbox.schema).await;
    outbox.config.database.url = url.into();
    let (code, out, _) = ran(outbox.command(&RELAY), "check").await;
    assert_eq!(code, Some(5), "{out}");
    assert!(out.starts_with("cannot start: 1 error\n"), "{out}");
    let block =
        out.split("run, as the owner of the tables: ").nth(1).unwrap().lines().next().unwrap();
    outbox.schema.run(block).await;
    let (code, _, err) = ran(outbox.command(&RELAY), "check").await;
    assert_eq!(code, Some(0), "{err}");
    outbox.schema.run(&format!("DROP OWNED BY {relay}")).await;
    let command = outbox.command(&RELAY);
    granted(&outbox.schema, command, "OUTBOX_DATABASE__SCHEMA", &relay, "relay").await;
    let running = outbox.spawn(&RELAY);
    outbox.drained(SOON).await;
    drop(running);

    outbox.schema.run(&format!("DROP OWNED BY {relay}")).await;
    let command = outbox.command(&RELAY);
    granted(&outbox.schema, command, "OUTBOX_DATABASE__SCHEMA", &relay, "reader").await;
    let (code, out, err) = ran(outbox.command(&RELAY), "status").await;
    assert_eq!(code, Some(0), "{out}{err}");
    dropped(&outbox.schema, &appender).await;
    dropped(&outbox.schema, &relay).await;
}

/// A function of a stranger would run with the rights of whoever looks for one there.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_path_that_everybody_may_create_in_is_told() {
    let stage = Stage::set("open-path", 1).await;
    let outbox = Outbox::set("open-path", 1).await;
    let told = async |schema: &Schema, command: &dyn Fn() -> Command| {
        schema.run(&format!("GRANT CREATE ON SCHEMA {} TO PUBLIC", schema.name())).await;
        let revoke = format!("REVOKE CREATE ON SCHEMA {} FROM PUBLIC", schema.name());
        let (_, out, err) = ran(command(), "check").await;
        let said = format!("run, as the owner of the schema: {revoke};");
        assert!((out + &err).contains(&said), "{said}");
        schema.run(&revoke).await;
        let (_, out, err) = ran(command(), "check").await;
        assert!(!(out + &err).contains("REVOKE"));
    };
    told(&stage.schema, &|| worker(&stage)).await;
    told(&outbox.schema, &|| outbox.command(&RELAY)).await;
}
