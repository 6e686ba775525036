//! File, environment and flags; typos and wrong types.

use std::time::Duration;

use super::{super::*, MINIMAL, load, refusal};

#[test]
fn four_lines_are_a_configuration() {
    let config = load(MINIMAL, &[], &[]).unwrap();
    assert_eq!(config.group(), "billing", "the group is the consumer's name unless it is set");
    let new =
        Config::new("billing", "localhost:9092", ["orders"], "postgres://user@localhost/billing");
    assert_eq!(config, new, "a file and `new` agree on every default");
}

#[test]
fn the_environment_goes_over_the_file_and_flags_over_both() {
    let text = format!("{MINIMAL}[lanes]\ncount = 4\n[batch]\nevents_max = 7\n");
    let env =
        [("INBOX_LANES__COUNT", "8"), ("INBOX_BATCH__EVENTS_MAX", "9"), ("INBOX_CONFIG", "x")];
    let config = load(&text, &env, &[("lanes.count", "12")]).unwrap();
    assert_eq!((config.lanes.count, config.batch.events_max), (12, 9));
}

#[test]
fn lists_durations_and_bytes_are_read_from_text() {
    let env = [
        ("INBOX_KAFKA__TOPICS", "orders, payments"),
        ("INBOX_RETRY__DELAY_MAX", "5s"),
        ("INBOX_BATCH__BYTES_MAX", "1MiB"),
    ];
    let config = load(MINIMAL, &env, &[]).unwrap();
    assert_eq!(config.kafka.topics, ["orders", "payments"]);
    assert_eq!(config.retry.delay_max, Duration::from_secs(5));
    assert_eq!(config.batch.bytes_max, 1024 * 1024);
}

#[test]
fn other_producers_are_read_by_saying_where_things_are() {
    let text = format!("{MINIMAL}[events]\nformat = \"custom\"\nrules.id = \"position\"\n");
    let env = [("INBOX_EVENTS__RULES__TYPE", "header:type")];
    let flags = [("events.rules.aggregate_id", "header:order, key")];
    let config = load(&text, &env, &flags).unwrap();
    let rules = config.events.rules.unwrap();
    assert_eq!(rules.aggregate_id.unwrap().as_slice().len(), 2);
    assert_eq!(rules.id.unwrap().as_slice(), [outbox_core::Source::Position]);

    let expected = "`events.rules.type` is missing: set it in [events.rules] to a place such as \
                    header:NAME";
    assert_eq!(refusal(&text, &[], &[]), expected);
    let refused = refusal(&text, &[], &[("events.rules.type", "heder:x")]);
    assert!(
        refused.starts_with("`events.rules.type` in --set: `heder:x` is not a place"),
        "{refused}"
    );
    let text = format!("{MINIMAL}[events.rules]\nid = \"position\"\ntyp = \"header:t\"\n");
    let refused = refusal(&text, &[], &[]);
    let expected = "unknown key `events.rules.typ` in consumer.toml, line 11; did you mean `events.rules.type`?";
    assert!(refused.starts_with(expected), "{refused}");
    let refused = refusal(MINIMAL, &[], &[("events.format", "custom")]);
    assert!(refused.starts_with("`events.format` is custom, but [events.rules]"), "{refused}");
}

#[test]
fn settings_of_librdkafka_are_taken_quoted_bare_and_from_the_environment() {
    let text =
        format!("{MINIMAL}[kafka.raw]\n\"fetch.min.bytes\" = 10\nsocket.keepalive.enable = true\n");
    let env = [("INBOX_KAFKA__RAW__FETCH_WAIT_MAX_MS", "50")];
    let config = load(&text, &env, &[("kafka.raw.client.rack", "a")]).unwrap();
    let expected = [
        ("client.rack", "a"),
        ("fetch.min.bytes", "10"),
        ("fetch.wait.max.ms", "50"),
        ("socket.keepalive.enable", "true"),
    ];
    assert_eq!(config.kafka.raw.iter().collect::<Vec<_>>(), expected);
    assert_eq!(config.kafka.client_settings().len(), 4);
}

#[test]
fn a_typo_names_the_file_the_line_and_the_nearest_key() {
    let text = MINIMAL.replace("bootstrap", "botstrap");
    assert_eq!(
        refusal(&text, &[], &[]),
        "unknown key `kafka.botstrap` in consumer.toml, line 5; did you mean `kafka.bootstrap`?"
    );
}

#[test]
fn a_typo_in_the_environment_or_a_flag_names_it() {
    assert_eq!(
        refusal(MINIMAL, &[("INBOX_KAFKA__BOTSTRAP", "x")], &[("lane.count", "1")]),
        "unknown key `kafka.botstrap` in the environment variable INBOX_KAFKA__BOTSTRAP; did you \
         mean `kafka.bootstrap`?\n\
         unknown key `lane.count` in --set; did you mean `lanes.count`?"
    );
}

#[test]
fn a_key_in_the_wrong_section_is_told_its_section() {
    let text = format!("{MINIMAL}[batch]\ndrain_deadline = \"1s\"\n");
    let expected = "unknown key `batch.drain_deadline` in consumer.toml, line 10; `drain_deadline` belongs in [limits]";
    assert_eq!(refusal(&text, &[], &[]), expected);
}

#[test]
fn an_unknown_section_is_told_the_nearest() {
    let text = format!("{MINIMAL}[retries]\nattempts_max = 2\n");
    let expected =
        "unknown section or key `retries` in consumer.toml, line 9; did you mean [retry]?";
    assert_eq!(refusal(&text, &[], &[]), expected);
    let text = format!("name = \"x\"\n{MINIMAL}");
    let expected =
        "unknown section or key `name` in consumer.toml, line 1; `name` belongs in [consumer]";
    assert_eq!(refusal(&text, &[], &[]), expected);
}

#[test]
fn a_wrong_type_names_key_source_and_what_was_expected() {
    let cases = [
        (
            "[lanes]\ncount = \"many\"",
            "`lanes.count` in consumer.toml, line 10: expected integer 1–256, found \"many\"",
        ),
        (
            "[lanes]\ncount = 0",
            "`lanes.count` in consumer.toml, line 10: expected integer 1–256, found `0`",
        ),
        (
            "[retry]\ndelay_min = 100",
            "`retry.delay_min` in consumer.toml, line 10: expected duration 1ms–1m, found `100`; add a unit, such as \"10s\"",
        ),
        (
            "[retry]\ndelay_min = \"100\"",
            "`retry.delay_min` in consumer.toml, line 10: expected duration 1ms–1m, found \"100\"; add a unit, such as \"10s\"",
        ),
        (
            "[batch]\nbytes_max = \"4 apples\"",
            "`batch.bytes_max` in consumer.toml, line 10: expected size 1KiB–64MiB, found \"4 apples\"",
        ),
        (
            "[log]\nformat = \"xml\"",
            "`log.format` in consumer.toml, line 10: expected one of auto, human, json, found \"xml\"",
        ),
    ];
    for (lines, expected) in cases {
        assert_eq!(refusal(&format!("{MINIMAL}{lines}\n"), &[], &[]), expected);
    }
    let env = [("INBOX_LANES__COUNT", "1e3")];
    let expected = "`lanes.count` in the environment variable INBOX_LANES__COUNT: expected integer 1–256, found \"1e3\"";
    assert_eq!(refusal(MINIMAL, &env, &[]), expected);
    let expected =
        "`kafka.start` in --set: expected one of earliest, latest, error, found \"first\"";
    assert_eq!(refusal(MINIMAL, &[], &[("kafka.start", "first")]), expected);
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let text = "[kafka]\nbotstrap = \"a\"\n[lanes]\ncount = 1000\n";
    assert_eq!(refusal(text, &[], &[]).lines().count(), 2);
    assert_eq!(
        refusal("", &[], &[]),
        "`consumer.name` is missing: set `name` in [consumer] of the configuration file, or INBOX_CONSUMER__NAME in the environment\n\
         `kafka.bootstrap` is missing: set `bootstrap` in [kafka] of the configuration file, or INBOX_KAFKA__BOOTSTRAP in the environment\n\
         `kafka.topics` is missing: set `topics` in [kafka] of the configuration file, or INBOX_KAFKA__TOPICS in the environment\n\
         `database.url` is missing: set `url` in [database] of the configuration file, or INBOX_DATABASE__URL in the environment"
    );
}

#[test]
fn a_file_that_is_no_toml_names_the_line_and_shows_no_text() {
    let text = "[database]\nurl = \"postgres://u:c4n4ry@h/d\nschema = \"x\"\n";
    let refusal = refusal(text, &[], &[]);
    assert!(refusal.starts_with("consumer.toml, line 2 is not TOML: "), "{refusal}");
    assert!(!refusal.contains("c4n4ry"), "{refusal}");
}

#[test]
fn a_file_that_is_not_there_says_how_to_name_another() {
    let missing = std::path::Path::new("nowhere.toml");
    let error = Config::load(Some(missing), [], &Overrides::new()).unwrap_err().to_string();
    assert!(error.starts_with("cannot read the configuration file nowhere.toml: "), "{error}");
    assert!(error.ends_with("name another one with --config or INBOX_CONFIG"), "{error}");
}

#[test]
fn a_variable_with_one_underscore_is_named_with_the_right_one() {
    let cases = [
        ("INBOX_DATABASE_URL", "INBOX_DATABASE__URL"),
        ("INBOX_DATABASE_URL_FILE", "INBOX_DATABASE__URL_FILE"),
        ("INBOX_KAFKA_BOOTSTRAP", "INBOX_KAFKA__BOOTSTRAP"),
        ("INBOX_KAFKA_BOTSTRAP", "INBOX_KAFKA__BOOTSTRAP"),
        ("INBOX_EVENTS_RULES_TYPE", "INBOX_EVENTS__RULES__TYPE"),
        ("INBOX_BOOTSTRAP", "INBOX_KAFKA__BOOTSTRAP"),
    ];
    for (wrong, right) in cases {
        let expected = format!(
            "unknown environment variable {wrong}; did you mean {right}? Two underscores separate section and key"
        );
        assert_eq!(refusal(MINIMAL, &[(wrong, "x")], &[]), expected);
    }
    let expected = "unknown environment variable INBOX_DATABASE_PASSPHRASE; write variables of \
                    [database] as INBOX_DATABASE__KEY, with two underscores between section and \
                    key; unset it, or see ";
    let expected = format!("{expected}{}", service_kit::docs_url("configuration"));
    assert_eq!(refusal(MINIMAL, &[("INBOX_DATABASE_PASSPHRASE", "x")], &[]), expected);
}

/// A service that is called `inbox` or `inbox-kafka` has Kubernetes set these; tools have names of their own.
#[test]
fn variables_that_are_not_of_this_program_are_ignored() {
    let env = [
        "INBOX_PORT",
        "INBOX_SERVICE_HOST",
        "INBOX_PORT_9464_TCP_ADDR",
        "INBOX_KAFKA_SERVICE_HOST",
        "INBOX_KAFKA_PORT",
        "INBOX_KAFKA_PORT_9092_TCP",
        "INBOX_DATABASE_SERVICE_PORT_POSTGRES",
        "INBOX_TEST_KAFKA",
        "INBOX_ROUNDS",
        "INBOX_VERSIONS",
        "OUTBOX_DATABASE_URL",
    ];
    load(MINIMAL, &env.map(|name| (name, "x")), &[]).unwrap();
}

#[test]
fn tables_of_a_list_are_set_in_the_environment() {
    let env = [
        ("INBOX_HANDLERS__0__EVENT_TYPE", "OrderPaid"),
        ("INBOX_HANDLERS__0__MODE", "run"),
        ("INBOX_HANDLERS__0__COLUMNS__AMOUNT", "int8"),
        ("INBOX_HANDLERS__0__SQL", "DELETE FROM x"),
        ("INBOX_EVENTS__TOPICS__0__TOPIC", "orders"),
        ("INBOX_EVENTS__TOPICS__0__FORMAT", "custom"),
        ("INBOX_EVENTS__TOPICS__0__RULES__ID", "header:id"),
        ("INBOX_EVENTS__TOPICS__0__RULES__TYPE", "header:type"),
    ];
    let config = load(MINIMAL, &env, &[("handlers.1.event_type", "b"), ("handlers.1.sql", "y")]);
    let config = config.unwrap();
    let [first, second] = &config.handlers[..] else { panic!("{:?}", config.handlers) };
    assert_eq!((first.event_type.as_str(), first.mode), ("OrderPaid", DeclaredMode::Run));
    assert_eq!(first.columns["amount"], "int8");
    assert_eq!(second.sql, "y");
    let [topic] = &config.events.topics.0[..] else { panic!("{:?}", config.events.topics) };
    assert_eq!((topic.topic.as_str(), topic.format), ("orders", Format::Custom));

    let text = format!("{MINIMAL}[[handlers]]\nevent_type = \"a\"\nsql = \"x\"\n");
    let config = load(&text, &[("INBOX_HANDLERS__0__SQL", "y")], &[]).unwrap();
    assert_eq!((config.handlers.len(), config.handlers[0].sql.as_str()), (1, "y"));
}

#[test]
fn a_table_of_a_list_that_cannot_be_is_named() {
    let cases = [
        (
            ("INBOX_HANDLERS__1__SQL", "x"),
            "`handlers.1.sql` in the environment variable INBOX_HANDLERS__1__SQL: `handlers` has \
             0 tables before it; number them without gaps: the next one is `handlers.0`",
        ),
        (
            ("INBOX_HANDLERS__SQL", "x"),
            "`handlers.sql` in the environment variable INBOX_HANDLERS__SQL: `handlers` is a list of tables; number \
             them from 0, such as `handlers.0.KEY`",
        ),
        (
            ("INBOX_HANDLERS__0__SQL", "x"),
            "`event_type` is missing in the [[handlers]] of the environment variable INBOX_HANDLERS__0__SQL",
        ),
        (
            ("INBOX_HANDLERS__0__SLQ", "x"),
            "unknown key `handlers.slq` in the environment variable INBOX_HANDLERS__0__SLQ; did you mean `handlers.sql`?",
        ),
    ];
    for (variable, expected) in cases {
        assert_eq!(refusal(MINIMAL, &[variable], &[]), expected);
    }
}

#[test]
fn a_value_that_cannot_be_names_its_place() {
    let text = MINIMAL.replace("\"billing\"", "\"bil ling\"");
    let expected = "`consumer.name` (consumer.toml, line 3) is \"bil ling\"; use letters, digits, `.`, `_` and `-` only, \
                    at most 120";
    assert_eq!(refusal(&text, &[], &[]), expected);
    let refused = refusal(MINIMAL, &[], &[("http.listen", "nowhere")]);
    assert!(refused.starts_with("`http.listen` (--set) is \"nowhere\", which is not"), "{refused}");
}
