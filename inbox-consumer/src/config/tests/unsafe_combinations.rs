//! Values that do not go together: refused or doubted, each in one sentence.

use std::time::Duration;

use super::{super::*, MINIMAL, refusal};

fn config() -> Config {
    Config::new("billing", "localhost:9092", ["orders"], "postgres://user@localhost/billing")
}

/// What is fatal about a configuration after a change.
fn fatal(change: impl FnOnce(&mut Config)) -> Vec<String> {
    let mut config = config();
    change(&mut config);
    config.validate().into_iter().filter(|one| one.fatal).map(|one| one.text).collect()
}

/// What is doubtful, but not fatal.
fn doubts(change: impl FnOnce(&mut Config)) -> Vec<String> {
    let mut config = config();
    change(&mut config);
    let all = config.validate();
    assert!(all.iter().all(|one| !one.fatal), "{all:?}");
    all.into_iter().map(|one| one.text).collect()
}

#[track_caller]
fn one(found: Vec<String>, start: &str) {
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(start), "{found:?}");
}

#[test]
fn the_defaults_are_safe() {
    assert_eq!(config().validate(), []);
}

#[test]
fn an_address_that_is_none_is_refused() {
    for wrong in ["", "9464", "localhost:9464", "0.0.0.0", "Off", "127.0.0.1:99999"] {
        let start =
            format!("`http.listen` is {wrong:?}, which is not an address; set an IP address");
        one(fatal(|c| c.http.listen = wrong.into()), &start);
    }
    for right in ["auto", "off", "0.0.0.0:9464", "[::1]:0"] {
        assert_eq!(fatal(|c| c.http.listen = right.into()), [""; 0], "{right}");
    }
}

#[test]
fn dead_letters_need_a_topic_of_their_own() {
    for (topic, start) in [
        (None, "`events.dead_letter_topic` is not set"),
        (Some("no topic"), "`events.dead_letter_topic` is \"no topic\", which is not the name"),
        (Some("orders"), "`events.dead_letter_topic` is orders, which is read by this consumer"),
    ] {
        let change = |config: &mut Config| {
            config.events.undecodable = Unwanted::DeadLetter;
            config.events.dead_letter_topic = topic.map(Into::into);
        };
        one(fatal(change), start);
    }
}

#[test]
fn deadlines_that_contradict_each_other_are_refused() {
    one(
        fatal(|c| c.limits.drain_deadline = Duration::from_secs(16)),
        "`limits.drain_deadline` (16s) must be at most a third of `kafka.session_timeout` (10s)",
    );
    one(
        fatal(|c| c.kafka.session_timeout = Duration::from_secs(400)),
        "`kafka.session_timeout`: expected duration 1s–5m, found \"6m 40s\"",
    );
    one(
        fatal(|c| c.kafka.raw.set("max.poll.interval.ms", "12000")),
        "`kafka.raw` may not contain `max.poll.interval.ms`: the runtime polls without",
    );
    one(
        fatal(|c| c.database.lock_timeout = Duration::from_secs(20)),
        "`database.lock_timeout` (20s) must be shorter than `database.statement_timeout` (20s)",
    );
    one(
        fatal(|c| c.retry.attempt_deadline = Duration::from_secs(20)),
        "`database.statement_timeout` (20s) must be shorter than `retry.attempt_deadline` (20s)",
    );
    one(
        fatal(|c| c.retry.attempt_deadline = Duration::from_secs(40)),
        "`database.idle_timeout` (40s) must be longer than `retry.attempt_deadline` (40s)",
    );
    one(
        fatal(|c| c.park.delay_min = Duration::from_hours(2)),
        "`park.delay_min` (2h) is longer than `park.delay_max` (1h)",
    );
    one(
        fatal(|c| c.retry.delay_min = Duration::from_secs(3)),
        "`retry.delay_min` (3s) is longer than `retry.delay_max` (2s)",
    );
}

#[test]
fn values_set_by_a_program_are_held_to_the_bounds_of_the_table() {
    one(
        fatal(|c| c.database.connections = 65),
        "`database.connections`: expected integer 1–64, found `65`",
    );
    one(fatal(|c| c.lanes.count = 257), "`lanes.count`: expected integer 1–256");
    one(fatal(|c| c.log.level = String::new()), "`log.level`: expected non-empty string");
    // Rule of thumb of operators: "0 means for ever". Here it would mean no dedup at all.
    let found = fatal(|c| c.retention.inbox = Duration::ZERO);
    one(found, "`retention.inbox`: expected duration 1m–3650d");
}

#[cfg(feature = "intake")]
#[test]
fn a_signed_request_is_known_for_as_long_as_it_can_be_sent_again() {
    let signed = |inbox: Duration, tolerance: Duration| {
        move |config: &mut Config| {
            config.intake.listen = "127.0.0.1:0".into();
            config.intake.secret_files = vec!["/etc/inbox/secret".into()];
            config.intake.signature_tolerance = tolerance;
            config.retention.inbox = inbox;
        }
    };
    let minutes = Duration::from_mins;
    let seconds = Duration::from_secs;
    one(
        fatal(signed(seconds(629), minutes(5))),
        "`retention.inbox` (10m 29s) is shorter than the time in which a signed request can be \
         replayed",
    );
    assert_eq!(fatal(signed(seconds(630), minutes(5))), [""; 0]);
    one(fatal(signed(minutes(60), minutes(60))), "`retention.inbox` (1h) is shorter");
    let unsigned = |config: &mut Config| {
        signed(minutes(1), minutes(5))(config);
        config.intake.secret_files.clear();
    };
    assert_eq!(fatal(unsigned), [""; 0]);
}

#[test]
fn names_that_kafka_or_sql_would_refuse_are_refused_first() {
    one(fatal(|c| c.consumer.name = "a b".into()), "`consumer.name` is \"a b\"; use letters");
    one(
        fatal(|c| c.kafka.topics = vec!["^orders.*".into()]),
        "`kafka.topics`: \"^orders.*\" is not the name of a topic",
    );
    one(
        fatal(|c| c.database.schema = Some("Robert\"; --".into())),
        "`database.schema` \"Robert\\\"; --\" is not a plain name",
    );
}

#[test]
fn an_address_says_which_database_it_means() {
    let kind = |url: &str| {
        let mut config = config();
        config.database.url = url.into();
        config.database.kind()
    };
    assert_eq!(kind("postgres://h/d"), Ok(DatabaseKind::Postgres));
    assert_eq!(kind("postgresql://h/d"), Ok(DatabaseKind::Postgres));
    assert_eq!(kind("sqlite:inbox.db"), Ok(DatabaseKind::Sqlite));
    assert!(kind("mysql://h/d").unwrap_err().text.contains("is not supported yet"));
    assert!(kind("h/d").unwrap_err().text.contains("begin it with postgres:// or sqlite:"));
}

#[test]
fn settings_that_would_break_the_promise_are_refused() {
    let refused = [
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "isolation.level",
        "partitioner",
        "group.id",
        "partition.assignment.strategy",
    ];
    for name in refused {
        let start = format!("`kafka.raw` may not contain `{name}`: ");
        one(fatal(|c| c.kafka.raw.set(name, "x")), &start);
    }
    for value in ["cgrp,security", "all", "SECURITY", "+all", "cgrp,-fetch", "conf", "protocol", ""]
    {
        one(fatal(|c| c.kafka.raw.set("debug", value)), "`kafka.raw` may not contain `debug` with");
    }
    for value in ["cgrp", "cgrp,fetch", "cgrp, topic"] {
        assert_eq!(fatal(|c| c.kafka.raw.set("debug", value)), <[String; 0]>::default());
    }
    for value in ["aNULL", "DEFAULT@SECLEVEL=0", "eNull"] {
        let found = fatal(|c| c.kafka.raw.set("ssl.cipher.suites", value));
        one(found, "`kafka.raw` may not contain `ssl.cipher.suites` with `@` or `NULL`");
    }
}

/// One of these ran a library of somebody's choice within the process, another one a command.
#[test]
fn a_setting_that_is_not_known_or_runs_code_never_reaches_the_client() {
    let refused = [
        "plugin.library.paths",
        "ssl.engine.location",
        "ssl.providers",
        "sasl.kerberos.kinit.cmd",
        "enable.ssl.certificate.verification",
        "ssl.endpoint.identification.algorithm",
        "test.mock.num.brokers",
        "Plugin.Library.Paths",
        "fetch.min.byte",
    ];
    for name in refused {
        let mut config = config();
        config.kafka.raw.set(name, "x");
        config.kafka.raw.set("fetch.min.bytes", "1");
        let fatal = config.validate().into_iter().filter(|one| one.fatal);
        one(
            fatal.map(|one| one.text).collect(),
            &format!("`kafka.raw` may not contain `{name}`: "),
        );
        let passed = [("fetch.min.bytes".to_owned(), "1".to_owned())];
        assert_eq!(config.kafka.client_settings(), passed, "{name}");
    }
}

#[test]
fn brokers_that_nobody_checks_are_doubted() {
    let insecure = |c: &mut Config| c.kafka.security.ssl_insecure_any_certificate = true;
    one(
        doubts(insecure),
        "`kafka.ssl_insecure_any_certificate` is true: no certificate is checked",
    );
    let mut config = config();
    insecure(&mut config);
    let set = ("enable.ssl.certificate.verification".to_owned(), "false".to_owned());
    assert!(config.kafka.client_settings().contains(&set));
    one(
        doubts(|c| {
            let algorithm = &mut c.kafka.security.ssl_endpoint_identification_algorithm;
            *algorithm = Some("none".into());
        }),
        "`kafka.ssl_endpoint_identification_algorithm` is none: ",
    );
}

#[test]
fn a_refused_setting_in_a_file_is_told() {
    let text = format!("{MINIMAL}[kafka.raw]\n\"enable.auto.commit\" = true\n");
    let refusal = refusal(&text, &[], &[]);
    assert!(
        refusal.starts_with("`kafka.raw` may not contain `enable.auto.commit`: the runtime"),
        "{refusal}"
    );
}

#[test]
fn protection_that_is_configured_but_not_used_is_refused() {
    one(
        fatal(|c| c.kafka.security.sasl_password = Some("x".into())),
        "SASL is configured but not used",
    );
    let found =
        fatal(|c| c.kafka.security.security_protocol = Some(SecurityProtocol::SaslPlaintext));
    one(found, "`kafka.sasl_mechanism` is missing");
}

/// Parked, one event may take three times as much.
#[test]
fn one_event_fits_what_may_be_parked() {
    one(
        fatal(|c| c.limits.parked_bytes_max = 2 << 20),
        "a single event of `events.event_bytes_max` (1048576) may stall its partition",
    );
    assert!(fatal(|c| c.limits.parked_bytes_max = 3 << 20).is_empty());
}

#[test]
fn plaintext_to_another_machine_has_to_be_said() {
    let elsewhere = |c: &mut Config| c.kafka.bootstrap = "localhost:9092,kafka.example:9092".into();
    one(
        fatal(elsewhere),
        "`kafka.bootstrap` names another machine, and `kafka.security_protocol` is not set",
    );
    let said = doubts(|c| {
        elsewhere(c);
        c.kafka.security.security_protocol = Some(SecurityProtocol::Plaintext);
    });
    one(
        said,
        "events travel unencrypted and unauthenticated: `kafka.security_protocol` is plaintext",
    );
    let plain = doubts(|c| {
        elsewhere(c);
        c.kafka.security.security_protocol = Some(SecurityProtocol::SaslPlaintext);
        c.kafka.security.sasl_mechanism = Some("PLAIN".into());
    });
    one(plain, "events travel unencrypted and unauthenticated, and so does the password (PLAIN)");
    for here in ["127.0.0.1:9092", "[::1]:9092", "localhost:9092"] {
        assert_eq!(fatal(|c| c.kafka.bootstrap = here.into()), [""; 0], "{here}");
    }
    one(
        fatal(|c| c.kafka.bootstrap = "127.0.0.1.example:9092".into()),
        "`kafka.bootstrap` names another machine",
    );
}

#[test]
fn a_database_on_another_machine_is_verified_or_the_word_is_said() {
    let with = |url: &str, tls| {
        let url = url.to_owned();
        move |c: &mut Config| (c.database.url, c.database.tls) = (url.into(), tls)
    };
    assert_eq!(doubts(with("postgres://u:p@db/x", None)), [""; 0]);
    let refused = fatal(with("postgres://u:p@db/x?sslmode=require", None));
    one(
        refused,
        "`database.url` names another machine with sslmode=require, which lets anybody on the \
         network",
    );
    let insecure = Some(DatabaseTls::Insecure);
    one(
        doubts(with("postgres://u:p@db/x?sslmode=disable", insecure)),
        "`database.tls` is insecure, and `database.url` names another machine (sslmode=disable)",
    );
}

#[test]
fn mechanisms_that_no_build_has_are_refused_by_name() {
    for unknown in ["OAUTHBEARER", "GSSAPI"] {
        let found = fatal(|c| {
            c.kafka.security.security_protocol = Some(SecurityProtocol::SaslPlaintext);
            c.kafka.security.sasl_mechanism = Some(unknown.into());
        });
        let text = format!(
            "`kafka.sasl_mechanism`: expected one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, found {unknown:?}"
        );
        one(found, &text);
    }
}

#[test]
fn doubtful_combinations_do_not_keep_a_consumer_from_starting() {
    one(
        doubts(|c| c.database.idle_timeout = Duration::from_secs(61)),
        "locks of a frozen process outlive the reassignment of",
    );
    one(
        doubts(|c| c.limits.close_deadline = Duration::from_secs(2)),
        "`limits.close_deadline` (2s) is shorter",
    );
    one(doubts(|c| c.batch.bytes_max = 5 << 20), "`batch.bytes_max` (5242880) is never reached");
}

/// Each bound can be changed alone: what nobody has set follows it.
#[test]
fn limits_that_are_not_set_follow_those_that_bound_them() {
    let with = |key: &str, value: &str| super::load(MINIMAL, &[], &[(key, value)]).unwrap();
    let fast = with("kafka.session_timeout", "6s");
    assert_eq!(fast.limits.drain_deadline, Duration::from_secs(2));
    assert_eq!(with("kafka.session_timeout", "60s").limits.drain_deadline, Duration::from_secs(3));
    let short = with("retry.attempt_deadline", "3s").database;
    assert_eq!(
        (short.statement_timeout, short.lock_timeout),
        (Duration::from_secs(2), Duration::from_secs(1))
    );
    // What a frozen process has locked is free soon after its session is over, if handlers are as fast.
    let idle = |config: Config| config.database.idle_timeout;
    let minimal = super::load(MINIMAL, &[], &[]).unwrap();
    assert_eq!(idle(minimal.clone()), Duration::from_secs(40));
    assert_eq!(idle(with("retry.attempt_deadline", "60s")), Duration::from_secs(80));
    assert_eq!(idle(with("retry.attempt_deadline", "3s")), minimal.kafka.session_timeout);
    let slow = with("limits.drain_deadline", "12s");
    assert_eq!(slow.limits.close_deadline, Duration::from_secs(12));
    assert_eq!(slow.kafka.session_timeout, Duration::from_secs(36));
    // What is set is not touched.
    let flags = [("kafka.session_timeout", "6s"), ("limits.drain_deadline", "5s")];
    let refused = refusal(MINIMAL, &[], &flags);
    assert!(refused.contains("a third of `kafka.session_timeout` (6s)"), "{refused}");
}
