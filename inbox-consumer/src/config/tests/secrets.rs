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
    security.ssl_keystore_password = Some(CANARY.into());
    config.kafka.raw.set("https.ca.pem", CANARY);
    config.traces.headers = Some(format!("authorization={CANARY}").into());
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
        5,
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
    let expected = "`database.url` in consumer.toml, line 8: expected non-empty string (a secret), found a list";
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
fn a_secret_behind_a_byte_order_mark_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, format!("\u{feff}{CANARY}")).unwrap();
    let flags = [("kafka.sasl_password_file", path.to_str().unwrap())];
    let refusal = refusal(MINIMAL, &[], &flags);
    assert!(refusal.contains("begins with a byte order mark"), "{refusal}");
    assert!(!refusal.contains(CANARY), "{refusal}");
}

#[test]
fn a_secret_file_that_is_not_there_is_named() {
    let refusal = refusal(MINIMAL, &[], &[("database.url_file", "/nowhere/url")]);
    assert!(
        refusal.starts_with("`database.url_file` in --set: cannot read /nowhere/url: "),
        "{refusal}"
    );
}

/// What reading notices of a configuration.
fn doubts(text: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Vec<String> {
    let found = load(text, env, flags).unwrap().validate();
    assert!(!format!("{found:?}").contains(CANARY), "{found:?}");
    found.into_iter().map(|doubt| doubt.text).collect()
}

#[test]
fn a_secret_on_the_command_line_is_doubted() {
    let url = format!("postgres://user:{CANARY}@localhost/billing");
    let found = doubts(MINIMAL, &[], &[("database.url", &url)]);
    let start =
        "`database.url` is set on the command line, where every user of this machine can read";
    assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
    assert_eq!(doubts(MINIMAL, &[("INBOX_DATABASE__URL", &url)], &[]), [""; 0]);
    let bare = "postgres://user@localhost/billing";
    assert_eq!(doubts(MINIMAL, &[], &[("database.url", bare)]), [""; 0], "no password in it");
}

#[cfg(unix)]
#[test]
fn a_secret_file_that_others_may_read_is_doubted() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("url");
    std::fs::write(&path, format!("postgres://user:{CANARY}@localhost/billing\n")).unwrap();
    let name = path.to_str().unwrap();
    let with = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        doubts(MINIMAL, &[("INBOX_DATABASE__URL_FILE", name)], &[])
    };
    for open in [0o640, 0o604, 0o644] {
        let wanted = format!(
            "`database.url` is in {name}, which other users of this machine may read (mode \
             {open:04o}); run: chmod 600 {name}"
        );
        assert_eq!(with(open), [wanted]);
    }
    assert_eq!(with(0o600), [""; 0]);
}

#[test]
fn a_secret_and_its_file_in_one_layer_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("url");
    std::fs::write(&path, "postgres://user@localhost/other").unwrap();
    let name = path.to_str().unwrap();
    let both = [
        ("INBOX_DATABASE__URL", "postgres://user@localhost/billing"),
        ("INBOX_DATABASE__URL_FILE", name),
    ];
    let expected = "`database.url` in the environment variable INBOX_DATABASE__URL and `database.url_file` in the \
                    environment variable INBOX_DATABASE__URL_FILE are both set; remove one of them";
    assert_eq!(refusal(MINIMAL, &both, &[]), expected);
    // A later layer goes over an earlier one, whichever has the file.
    let config = load(MINIMAL, &both[1..], &[]).unwrap();
    assert!(config.database.url.expose().ends_with("/other"));
    let text = format!("{MINIMAL}url_file = {name:?}\n");
    assert!(refusal(&text, &[], &[]).ends_with("are both set; remove one of them"));
    let text = text.replace("url = ", "# url = ");
    let config = load(&text, &both[..1], &[]).unwrap();
    assert!(config.database.url.expose().ends_with("/billing"));
}

#[test]
fn a_password_of_its_own_is_told_where_it_belongs() {
    for key in ["database.password", "database.password_file"] {
        let expected = format!(
            "unknown key `{key}` in --set; the password is part of `database.url`, which `database.url_file` reads \
             from a file"
        );
        assert_eq!(refusal(MINIMAL, &[], &[(key, "x")]), expected);
    }
}
