//! The table of keys, the types and the document say the same.

use std::collections::BTreeSet;

use serde::Deserialize;
use service_kit::testing::{self, document};

use super::{
    reference::{HEAD, reference},
    sections::TABLE,
    *,
};
use crate::telemetry;

/// A value for each key of the table, so that every field of the types is written out.
fn everything() -> toml::Table {
    let all = toml::Table::try_from(Config::new("b:1", "sqlite:d")).unwrap();
    testing::filled(TABLE, all, |kind| match kind {
        Kind::Settings => toml::Table::new().into(),
        Kind::Flag => true.into(),
        Kind::Number { .. } | Kind::Bytes { .. } => 7.into(),
        Kind::Duration { .. } => "90d".into(),
        Kind::List => vec!["x"].into(),
        _ => "x".into(),
    })
}

#[test]
fn every_key_of_the_types_is_in_the_table_and_none_else() {
    let config = Config::deserialize(everything()).unwrap();
    let written = testing::paths(TABLE, &toml::Table::try_from(&config).unwrap());
    let table: BTreeSet<String> = KEYS.iter().map(|key| key.path.to_owned()).collect();
    assert_eq!(written, table);
}

#[test]
fn defaults_of_the_table_are_the_defaults_of_the_types() {
    let defaults = toml::Table::try_from(Config::default()).unwrap();
    for (key, value, table) in testing::defaults(TABLE, &defaults) {
        assert_eq!(value, &table.unwrap(), "{key}");
    }
}

#[test]
fn a_file_the_environment_and_flags_lie_over_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.toml");
    let text = "[kafka]\nbootstrap = \"localhost:1\"\ntopic = \"{event_type}\"\nfencing = false\n\
                [database]\nurl = \"sqlite:x\"\n[batch]\nevents_max = 7\n";
    std::fs::write(&path, text).unwrap();
    let env = [("OUTBOX_BATCH__EVENTS_MAX".to_owned(), "9".to_owned())];
    let flags = Overrides::new().with("relay.lease", "30s");
    let config = Config::load(Some(&path), env, &flags).unwrap();
    assert_eq!((config.batch.events_max, config.relay.lease.as_secs()), (9, 30));
    assert!(!config.kafka.fencing);
}

/// A container needs no file.
#[test]
fn routes_and_webhooks_are_set_in_the_environment() {
    let env = [
        ("OUTBOX_KAFKA__BOOTSTRAP", "localhost:1"),
        ("OUTBOX_KAFKA__TOPIC", "orders"),
        ("OUTBOX_DATABASE__URL", "sqlite:x"),
        ("OUTBOX_WEBHOOKS__0__NAME", "shop"),
        ("OUTBOX_WEBHOOKS__0__URL", "https://shop.example/events"),
        ("OUTBOX_WEBHOOKS__0__SECRET_FILES", "/run/secrets/new, /run/secrets/old"),
        ("OUTBOX_WEBHOOKS__0__CALLS_MAX", "7"),
        ("OUTBOX_ROUTES__0__EVENT_TYPE", "Order*"),
        ("OUTBOX_ROUTES__0__TO", "shop"),
        ("OUTBOX_ROUTES__1__TO", "kafka"),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let all = TABLE.read(None, env, &Overrides::new()).unwrap();
    let config = Config::deserialize(all).unwrap();
    let [webhook] = &config.webhooks[..] else { panic!("{:?}", config.webhooks) };
    assert_eq!((webhook.name.as_str(), webhook.calls_max), ("shop", 7));
    assert_eq!(webhook.secret_files, ["/run/secrets/new", "/run/secrets/old"]);
    let routes: Vec<_> =
        config.routes.iter().map(|route| (&route.event_type[..], &route.to[..])).collect();
    assert_eq!(routes, [("Order*", "shop"), ("*", "kafka")]);
}

#[test]
fn the_port_of_metrics_is_another_one_than_the_consumers() {
    let listen = |listen: &str| Http { listen: listen.into() }.address(TABLE.port).unwrap();
    assert_eq!(listen("auto").port(), 9465);
    assert_eq!(listen("127.0.0.1:7").to_string(), "127.0.0.1:7");
}

#[test]
fn a_setting_that_runs_code_or_is_not_a_producers_never_reaches_the_client() {
    for name in ["plugin.library.paths", "queuing.strategy", "fetch.min.bytes", "no.such.thing"] {
        let mut config = Config::new("b:1", "postgres://u@h/d");
        config.kafka.raw.set(name, "x");
        config.kafka.raw.set("linger.ms", "2");
        let start = format!("`kafka.raw` may not contain `{name}`: ");
        assert!(config.validate().iter().any(|one| one.fatal && one.text.starts_with(&start)));
        let passed = vec![("linger.ms".to_owned(), "2".to_owned())];
        assert_eq!(config.kafka.client_settings(), passed.into());
    }
}

#[test]
fn a_port_that_is_no_address_is_refused() {
    let fatal = |listen: &str| {
        let mut config = Config::new("b:1", "postgres://u@h/d");
        config.http.listen = listen.into();
        let problems = config.validate();
        problems.iter().any(|one| one.fatal && one.text.starts_with("`http.listen` is "))
    };
    assert!(fatal("nowhere") && ["0.0.0.0:9464", "auto", "off"].iter().all(|one| !fatal(one)));
}

#[test]
fn no_secret_is_shown() {
    let mut config = Config::new("b:1", "postgres://u:c4n4ry@h/d");
    config.kafka.security.sasl_password = Some("c4n4ry".into());
    config.kafka.raw.set("ssl.keystore.password", "c4n4ry");
    assert!(!format!("{config:?}").contains("c4n4ry"));
    assert!(!toml::to_string(&config).unwrap().contains("c4n4ry"));
    assert!(config.validate().iter().all(|problem| !problem.text.contains("c4n4ry")));
}

#[test]
fn the_document_is_what_the_tables_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/relay-reference.md");
    let there = std::fs::read_to_string(path).unwrap_or_default();
    let written = there.split(HEAD).next().unwrap_or_default().trim_end();
    let wanted = format!("{written}\n\n{HEAD}\n{}{}", reference(), telemetry::reference());
    let there = document(path, &wanted);
    assert!(there == wanted, "docs/relay-reference.md is old: run this test with UPDATE_DOCS=1");
}
