//! No secret in `Debug`, in what is written out, or in an error.

use super::{super::*, MINIMAL, load, refusal};

const CANARY: &str = "c4n4ry";

fn full() -> Config {
    let url = format!("postgres://user:{CANARY}@localhost/billing");
    let mut config = Config::new("billing", "localhost:9092", ["orders"], url);
    let security = &mut config.kafka.security;
    security.ssl_key_pem = Some(CANARY.into());
    security.ssl_key_password = Some(CANARY.into());
    security.sasl_password = Some(CANARY.into());
    security.sasl_oauthbearer_config = Some(CANARY.into());
    security.sasl_oauthbearer_client_secret = Some(CANARY.into());
    security.ssl_keystore_password = Some(CANARY.into());
    config.kafka.raw.set("https.ca.pem", CANARY);
    config
}

#[test]
fn debug_and_serialize_never_show_a_secret() {
    let config = full();
    assert!(!format!("{config:?}{config:#?}").contains(CANARY));
    assert!(!toml::to_string(&config).unwrap().contains(CANARY));
    let overrides = Overrides::new().with("kafka.sasl_password", CANARY);
    assert!(!format!("{overrides:?}").contains(CANARY));
    let clear = config.kafka.client_settings();
    assert_eq!(
        clear.iter().filter(|(_, value)| value == CANARY).count(),
        7,
        "the client gets them"
    );
}

#[test]
fn every_secret_of_the_table_is_a_secret_of_the_types() {
    let all = toml::Table::try_from(full()).unwrap();
    for key in KEYS.iter().filter(|key| key.kind == Kind::Secret) {
        let shown = all[key.section()].get(key.name()).and_then(toml::Value::as_str);
        assert_eq!(shown, Some("***"), "{}", key.path);
    }
}

#[test]
fn no_problem_shows_a_secret() {
    let mut config = full();
    config.database.url = format!("oracle://user:{CANARY}@localhost/billing").into();
    config.kafka.raw.set("sasl.password", CANARY);
    let problems = config.validate();
    assert!(problems.iter().any(|one| one.fatal));
    assert!(!format!("{problems:?}").contains(CANARY));
}

#[test]
fn a_secret_of_the_wrong_form_is_not_shown() {
    let text = MINIMAL.replace("\"postgres://user@localhost/billing\"", "[\"c4n4ry\"]");
    let expected = "`database.url` in consumer.toml, line 8: expected text that is not empty (a secret), found a list";
    assert_eq!(refusal(&text, &[], &[]), expected);
}

#[test]
fn a_secret_is_read_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, format!("{CANARY}\n")).unwrap();
    let env = [
        ("INBOX_KAFKA__SASL_PASSWORD_FILE", path.to_str().unwrap()),
        ("INBOX_KAFKA__SECURITY_PROTOCOL", "sasl_plaintext"),
        ("INBOX_KAFKA__SASL_MECHANISM", "PLAIN"),
    ];
    let config = load(MINIMAL, &env, &[]).unwrap();
    assert_eq!(config.kafka.security.sasl_password, Some(Secret::new(CANARY)));
}

#[test]
fn a_secret_file_that_is_not_there_is_named() {
    let refusal = refusal(MINIMAL, &[], &[("database.url_file", "/nowhere/url")]);
    assert!(
        refusal.starts_with("`database.url_file` in --set: cannot read /nowhere/url: "),
        "{refusal}"
    );
}
