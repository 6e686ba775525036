//! The relay: rows of another outbox table, copied by the trigger of `adopt`.

use std::process::Command;

use outbox_relay::config::RecordFormat;
use tests::{Outbox, SOON};

use crate::programs::RELAY;

async fn ran(mut command: Command) -> (i32, String, String) {
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const TABLE: &str =
    "CREATE TABLE outbox (id uuid NOT NULL PRIMARY KEY, aggregatetype varchar(255) NOT NULL,
    aggregateid varchar(255), type varchar(255) NOT NULL, payload jsonb, version integer)";

/// A row of an order; `end` is how its transaction ends.
fn row(order: &str, n: i64, end: &str) -> String {
    format!(
        "BEGIN; INSERT INTO outbox VALUES (gen_random_uuid(), 'order', '{order}', 'Counted', '{{\"n\": {n}}}', {n}); {end}"
    )
}

/// Exit, output and complaints of `adopt` under further settings.
async fn adopt(outbox: &Outbox, settings: &[&str], more: &[&str]) -> (i32, String, String) {
    let mut command = outbox.command(&RELAY);
    command.arg("adopt").arg("--table").arg(format!("{}.outbox", outbox.schema.name())).args(more);
    for setting in settings {
        command.arg("--set").arg(setting);
    }
    ran(command).await
}

/// Debezium's users delete a row in the transaction that inserts it: it is relayed nevertheless. What is rolled back is not.
#[tokio::test]
async fn a_row_of_another_table_is_relayed_though_its_transaction_deletes_it() {
    let outbox = Outbox::set("adopted", 4).await;
    outbox.schema.run(TABLE).await;
    outbox.schema.run(&row("a", 0, "COMMIT")).await;
    let placed = "debezium.table_fields_additional_placement=version:header:aggregate_version";
    let (exit, said, complaints) = adopt(&outbox, &[placed], &[]).await;
    assert_eq!((exit, complaints.as_str()), (0, ""), "{said}");
    assert!(said.contains("is copied into outbox_events") && said.contains("log is at "), "{said}");
    outbox.schema.run(&row("a", 1, "DELETE FROM outbox; COMMIT")).await;
    outbox.schema.run(&row("a", 99, "ROLLBACK")).await;
    outbox.schema.run(&row("b", 1, "COMMIT")).await;
    outbox
        .schema
        .run(&row("a", 2, "UPDATE outbox SET version = 7; DELETE FROM outbox; COMMIT"))
        .await;
    let (exit, ..) = adopt(&outbox, &[placed], &[]).await;
    assert_eq!(exit, 0, "adopting twice is adopting once");
    outbox.schema.run(&row("a", 3, "COMMIT")).await;
    let running = outbox.start().await;
    let found = outbox.arrived(4).await;
    let of = |key: &str| -> Vec<i64> {
        found.iter().filter(|one| one.key == key).map(|one| one.n).collect()
    };
    assert_eq!((of("a"), of("b")), (vec![1, 2, 3], vec![1]), "what was there before is not copied");
    let (exit, ..) = adopt(&outbox, &[], &["--end"]).await;
    assert_eq!(exit, 0);
    outbox.schema.run(&row("a", 4, "COMMIT")).await;
    outbox.drained(SOON).await;
    running.stop().await;
    assert_eq!(outbox.arrivals().await.len(), 4);
    let versions = "SELECT sum(aggregate_version)::bigint FROM outbox_events";
    assert_eq!(outbox.schema.number(versions).await, 7);
}

/// A role that inserts into the other table needs nothing on ours.
#[tokio::test]
async fn who_inserts_into_the_other_table_needs_no_right_on_ours() {
    let outbox = Outbox::set("adopted-role", 1).await;
    outbox.schema.run(TABLE).await;
    assert_eq!(adopt(&outbox, &[], &[]).await.0, 0);
    let (schema, role) = (outbox.schema.name(), format!("{}_shop", outbox.schema.name()));
    outbox
        .schema
        .run(&format!(
            "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT INSERT ON outbox TO {role};
             SET ROLE {role}; INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'a', 'Counted', '{{}}'); RESET ROLE;
             DROP OWNED BY {role}; DROP ROLE {role}"
        ))
        .await;
    assert_eq!(outbox.schema.number("SELECT count(*) FROM outbox_events").await, 1);
}

/// Whoever could make a trigger with the function could forge events from a table of their own. The table's owner needs it
/// for partitions.
#[tokio::test]
async fn only_the_owner_of_the_table_may_use_the_function() {
    let outbox = Outbox::set("adopted-forged", 1).await;
    let schema = outbox.schema.name();
    let (owner, stranger) = (format!("{schema}_owner"), format!("{schema}_stranger"));
    let table = TABLE.replace(" PRIMARY KEY", "");
    outbox
        .schema
        .run(&format!(
            "CREATE ROLE {owner}; CREATE ROLE {stranger}; GRANT ALL ON SCHEMA {schema} TO {owner};
             GRANT USAGE ON SCHEMA {schema} TO {stranger};
             {table} PARTITION BY LIST (aggregatetype); ALTER TABLE outbox OWNER TO {owner}"
        ))
        .await;
    let (exit, said, complaints) = adopt(&outbox, &[], &[]).await;
    assert_eq!((exit, complaints.as_str()), (0, ""), "{said}");
    let public =
        "SELECT has_function_privilege('public', 'outbox_adopt_outbox()', 'EXECUTE')::int::bigint";
    assert_eq!(outbox.schema.number(public).await, 0);
    outbox
        .schema
        .run(&format!(
            "SET ROLE {owner}; CREATE TABLE orders PARTITION OF outbox FOR VALUES IN ('order');
             INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'a', 'Counted', '{{}}'); RESET ROLE;
             SET ROLE {stranger}; CREATE TEMP TABLE forged (id uuid);
             DO $$ BEGIN
                 CREATE TRIGGER forge AFTER INSERT ON forged FOR EACH ROW EXECUTE FUNCTION {schema}.outbox_adopt_outbox();
                 RAISE EXCEPTION 'a stranger may use the function';
             EXCEPTION WHEN insufficient_privilege THEN NULL;
             END $$;
             RESET ROLE; DROP OWNED BY {stranger}; DROP OWNED BY {owner} CASCADE; DROP ROLE {stranger}; DROP ROLE {owner}"
        ))
        .await;
    assert_eq!(outbox.schema.number("SELECT count(*) FROM outbox_events").await, 1);
}

/// A trigger of the right name alone copies nothing: it may be disabled, or another table's.
#[tokio::test]
async fn a_trigger_that_does_not_copy_is_replaced() {
    let outbox = Outbox::set("adopted-again", 1).await;
    outbox.schema.run(TABLE).await;
    assert_eq!(adopt(&outbox, &[], &[]).await.0, 0);
    let copied = async || outbox.schema.number("SELECT count(*) FROM outbox_events").await;
    outbox.schema.run("ALTER TABLE outbox DISABLE TRIGGER ALL").await;
    outbox.schema.run(&row("a", 1, "COMMIT")).await;
    assert_eq!(copied().await, 0);
    let (exit, said, complaints) = adopt(&outbox, &[], &[]).await;
    assert_eq!((exit, complaints.as_str()), (0, ""), "{said}");
    outbox.schema.run(&row("a", 2, "COMMIT")).await;
    assert_eq!(copied().await, 1);
    outbox.schema.run("ALTER FUNCTION outbox_adopt_outbox() RENAME TO outbox_adopt_former").await;
    assert_eq!(adopt(&outbox, &[], &[]).await.0, 0);
    outbox.schema.run("DROP FUNCTION outbox_adopt_former()").await;
    outbox.schema.run(&row("a", 3, "COMMIT")).await;
    assert_eq!(copied().await, 2);
}

/// A row that the router cannot expand is parked, and so is one whose partition is not there; others go on.
#[tokio::test]
async fn a_row_that_debezium_would_stop_at_is_parked() {
    let mut outbox = Outbox::set("adopted-aside", 2).await;
    outbox.schema.run(TABLE).await;
    outbox.config.kafka.format = RecordFormat::DebeziumOutbox;
    let debezium = &mut outbox.config.debezium;
    outbox.topic.name().clone_into(&mut debezium.route_topic_replacement);
    debezium.table_expand_json_payload = true;
    debezium.value_converter = outbox_relay::config::ValueConverter::Json;
    debezium.value_converter_schemas_enable = false;
    debezium.table_fields_additional_placement = "version:partition".into();
    let settings = [
        "kafka.format=debezium-outbox",
        "debezium.value_converter=json",
        "debezium.value_converter_schemas_enable=false",
        "debezium.table_fields_additional_placement=version:partition",
    ];
    let (exit, said, complaints) = adopt(&outbox, &settings, &[]).await;
    assert_eq!((exit, complaints.as_str()), (0, ""), "{said}");
    for (order, payload, partition) in [
        ("a", "[1]", 0),
        ("b", r#"{"n": 1, "gone": null}"#, 1),
        ("c", r#"{"n": 2}"#, 7),
        ("d", r#"{"n": 3}"#, 0),
    ] {
        let insert = format!(
            "INSERT INTO outbox VALUES (gen_random_uuid(), 'order', '{order}', 'Counted', '{payload}', {partition})"
        );
        outbox.schema.run(&insert).await;
    }
    let running = outbox.start().await;
    let found = outbox.arrived(2).await;
    let found: Vec<_> = found.iter().map(|one| (one.partition, one.key.as_str(), one.n)).collect();
    assert_eq!(found, [(0, "d", 3), (1, "b", 1)]);
    outbox.has_parked("state = 'parked'", 2).await;
    let errors = "error LIKE '%cannot be expanded%' AND aggregate_id = 'a'
        OR error LIKE '%no partition with the number%' AND aggregate_id = 'c'";
    assert_eq!(outbox.parked(errors).await, 2);
    running.stop().await;
}

/// What does not fit is told before anything is made, all of it at once.
#[tokio::test]
async fn a_table_that_does_not_fit_is_told_with_what_to_do() {
    let outbox = Outbox::set("adopted-unfit", 1).await;
    let (exit, _, complaints) = adopt(&outbox, &[], &[]).await;
    assert_eq!(exit, 2);
    assert!(complaints.contains("does not exist"), "{complaints}");
    outbox
        .schema
        .run(
            "CREATE TABLE outbox (id numeric, aggregatetype integer, \"Key\" text, type text, payload xml, at timestamptz,
             tags text[], kept integer DEFAULT 5)",
        )
        .await;
    let (exit, _, complaints) = adopt(&outbox, &[], &[]).await;
    assert_eq!(exit, 2);
    assert!(
        complaints.contains("no column aggregateid") && complaints.contains("it has id,"),
        "{complaints}"
    );
    let settings = [
        "kafka.format=debezium-outbox",
        "debezium.table_field_event_key=Key",
        "debezium.table_field_event_timestamp=at",
        "debezium.table_fields_additional_placement=tags:header,kept:header",
    ];
    let (exit, _, complaints) = adopt(&outbox, &settings, &[]).await;
    assert_eq!(exit, 2);
    for part in [
        "the column id, which `debezium.table_field_event_id` names, is numeric",
        "the column aggregatetype, which `debezium.route_by_field` names, is int4",
        "the column payload, which `debezium.table_field_event_payload` names, is xml",
        "Debezium supports timestamp only",
    ] {
        assert!(complaints.contains(part), "{part}: {complaints}");
    }
    let triggers = "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'outbox'::regclass";
    assert_eq!(outbox.schema.number(triggers).await, 0);
}

/// Names that have to be quoted are; `--print` writes out what would be done, and does nothing.
#[tokio::test]
async fn names_are_quoted_and_the_statements_can_be_printed() {
    let outbox = Outbox::set("adopted-names", 1).await;
    let schema = outbox.schema.name().to_owned();
    outbox
        .schema
        .run(
            "CREATE TABLE \"My \"\"Outbox'\" (\"order\" uuid NOT NULL, \"a'type\" text NOT NULL, \"Id \"\"x\" bigint NOT NULL, \"select\" text NOT NULL,
             payload bytea)",
        )
        .await;
    let adopt = |more: &[&str]| {
        let mut command = outbox.command(&RELAY);
        command.args(["adopt", "--table", &format!("{schema}.\"My \"\"Outbox'\"")]).args(more);
        for setting in [
            "debezium.table_field_event_id=order",
            "debezium.route_by_field=a'type",
            "debezium.table_field_event_key=Id \"x",
            "debezium.table_field_event_type=select",
        ] {
            command.arg("--set").arg(setting);
        }
        ran(command)
    };
    let (exit, printed, complaints) = adopt(&["--print"]).await;
    assert_eq!((exit, complaints.as_str()), (0, ""), "{printed}");
    assert_eq!(outbox.schema.number("SELECT count(*) FROM pg_trigger WHERE tgname = 'outbox_adopt' AND tgrelid = '\"My \"\"Outbox''\"'::regclass").await, 0);
    outbox.schema.run(&printed).await;
    outbox
        .schema
        .run("INSERT INTO \"My \"\"Outbox'\" VALUES (gen_random_uuid(), 'order', 7, 'Counted', '{\"n\": 1}')")
        .await;
    let running = outbox.start().await;
    let found = outbox.arrived(1).await;
    assert_eq!((found[0].key.as_str(), found[0].n), ("7", 1));
    running.stop().await;
    let (exit, ..) = adopt(&["--end"]).await;
    assert_eq!(exit, 0);
    assert_eq!(outbox.schema.number("SELECT count(*) FROM pg_proc WHERE proname LIKE 'outbox_adopt_My%' AND pronamespace = current_schema()::regnamespace").await, 0);
}

/// PostgreSQL deletes such a row in one partition and inserts it into the other.
#[tokio::test]
async fn a_row_that_moves_to_another_partition_is_relayed_once() {
    let outbox = Outbox::set("adopted-moved", 1).await;
    let table =
        TABLE.replace(" PRIMARY KEY", "").replace("version integer)", "version integer NOT NULL)");
    outbox
        .schema
        .run(&format!(
            "{table} PARTITION BY LIST (version); CREATE TABLE even PARTITION OF outbox FOR VALUES IN (0, 2);
             CREATE TABLE odd PARTITION OF outbox FOR VALUES IN (1)"
        ))
        .await;
    assert_eq!(adopt(&outbox, &[], &[]).await.0, 0);
    assert_eq!(adopt(&outbox, &[], &[]).await.0, 0, "adopting twice is adopting once");
    let copied = async || outbox.schema.number("SELECT count(*) FROM outbox_events").await;
    for n in 0..3 {
        outbox.schema.run(&row("a", n, "COMMIT")).await;
    }
    outbox.schema.run("UPDATE outbox SET version = (version + 1) % 3").await;
    outbox
        .schema
        .run(&row("a", 1, "UPDATE outbox SET version = 1; UPDATE outbox SET version = 2; COMMIT"))
        .await;
    assert_eq!(copied().await, 4);
    // Others are copied behind one that has gone, and after one that has moved.
    outbox.schema.run(&row("a", 0, "DELETE FROM outbox; INSERT INTO outbox SELECT gen_random_uuid(), 'order', 'a', 'Counted', '{}', n FROM generate_series(0, 2) n; UPDATE outbox SET version = 0; COMMIT")).await;
    assert_eq!(copied().await, 8);
    assert_eq!(adopt(&outbox, &[], &["--end"]).await.0, 0);
    outbox
        .schema
        .run(&row("a", 0, "UPDATE outbox SET version = 1; DELETE FROM outbox; COMMIT"))
        .await;
    assert_eq!(copied().await, 8);
    assert_eq!(
        outbox
            .schema
            .number("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'outbox_adopt%' AND tgrelid = 'outbox'::regclass")
            .await,
        0
    );
}

/// What a trigger does not see, `check` does.
#[tokio::test]
async fn check_names_a_trigger_that_is_silent() {
    let outbox = Outbox::set("adopted-silent", 1).await;
    outbox.schema.run(TABLE).await;
    assert_eq!(adopt(&outbox, &[], &[]).await.0, 0);
    let check = async || {
        let mut command = outbox.command(&RELAY);
        command.arg("check");
        ran(command).await
    };
    let (exit, complaints, _) = check().await;
    assert_eq!((exit, complaints.contains("outbox_adopt")), (0, false), "{complaints}");
    outbox.schema.run("ALTER TABLE outbox DISABLE TRIGGER outbox_adopt").await;
    let (exit, complaints, _) = check().await;
    assert_eq!(exit, 0, "{complaints}");
    assert!(
        complaints.contains("outbox_adopt of ") && complaints.contains("is disabled"),
        "{complaints}"
    );
    outbox.schema.run("ALTER TABLE outbox ENABLE TRIGGER outbox_adopt").await;
    let subscription = format!("{}_sub", outbox.schema.name());
    outbox
        .schema
        .run(&format!(
            "CREATE SUBSCRIPTION {subscription} CONNECTION 'dbname=none' PUBLICATION none
                 WITH (connect = false, slot_name = NONE, enabled = false);
             SET allow_system_table_mods = on;
             INSERT INTO pg_subscription_rel SELECT s.oid, 'outbox'::regclass, 'r', NULL FROM pg_subscription s
                 WHERE s.subname = '{subscription}';
             RESET allow_system_table_mods"
        ))
        .await;
    let (_, complaints, _) = check().await;
    outbox.schema.run(&format!("DROP SUBSCRIPTION {subscription}")).await;
    assert!(complaints.contains("ENABLE ALWAYS TRIGGER outbox_adopt"), "{complaints}");
}
