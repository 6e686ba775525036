//! Which addresses are accepted, and how the way there is protected.

use super::*;

fn read(url: &str, tls: Option<DatabaseTls>) -> Result<(&'static str, usize), String> {
    match PostgresAddress::read(url, tls) {
        Ok(read) => Ok((name(read.options.get_ssl_mode()), read.doubts.len())),
        Err(problem) => Err(problem.text),
    }
}

#[test]
fn another_machine_is_verified_unless_somebody_says_otherwise() {
    let insecure = Some(DatabaseTls::Insecure);
    assert_eq!(read("postgres://u:p@db/x", None), Ok(("verify-full", 0)));
    assert_eq!(read("postgres://u:p@10.0.0.7/x?sslmode=prefer", None), Ok(("verify-full", 0)));
    assert_eq!(read("postgres://u:p@db/x?sslmode=verify-full", None), Ok(("verify-full", 0)));
    assert_eq!(read("postgres://u:p@db/x?sslmode=verify-ca", None), Ok(("verify-ca", 1)));
    for mode in ["disable", "allow", "require"] {
        let url = format!("postgres://u:c4n4ry@db/x?sslmode={mode}");
        let refused = read(&url, None).unwrap_err();
        assert!(refused.contains("receive the password; set sslmode=verify-full"), "{refused}");
        assert!(!refused.contains("c4n4ry"), "{refused}");
        assert_eq!(read(&url, insecure), Ok((mode, 1)));
    }
    assert_eq!(read("postgres://u:p@db/x", insecure), Ok(("prefer", 1)));
    let ca = Some(DatabaseTls::VerifyCa);
    assert_eq!(read("postgres://u:p@db/x", ca), Ok(("verify-ca", 1)));
}

#[test]
fn this_machine_needs_no_word() {
    let here = [
        "postgres://u:p@localhost/x",
        "postgres://u:p@127.0.0.1:5433/x",
        "postgres://u:p@[::1]/x",
        "postgres://u:p@%2Fvar%2Frun%2Fpostgresql/x",
        "postgres:///x?user=u&host=/var/run/postgresql",
        "postgres://u:p@db/x?host=/tmp",
    ];
    for url in here {
        assert_eq!(read(url, None), Ok(("prefer", 0)), "{url}");
    }
    let full = Some(DatabaseTls::VerifyFull);
    assert_eq!(read("postgres://u:p@localhost/x", full), Ok(("verify-full", 0)), "a tunnel");
    // The parameter counts, not what stands in front.
    assert_eq!(read("postgres://u@localhost/x?host=db", None), Ok(("verify-full", 0)));
    assert_eq!(read("postgres://u@localhost.evil/x", None), Ok(("verify-full", 0)));
    assert_eq!(read("postgres://u@127.0.0.1.evil/x", None), Ok(("verify-full", 0)));
}

#[test]
fn two_words_that_contradict_each_other_are_refused() {
    for mode in ["disable", "require", "verify-ca"] {
        let url = format!("postgres://u:p@db/x?sslmode={mode}");
        let refused = read(&url, Some(DatabaseTls::VerifyFull)).unwrap_err();
        assert!(refused.starts_with("`database.tls` is verify-full, and"), "{refused}");
    }
    let both = "postgres://u:p@db/x?sslmode=verify-full";
    assert_eq!(read(both, Some(DatabaseTls::VerifyCa)), Ok(("verify-full", 0)));
}

#[test]
fn a_parameter_that_would_be_passed_over_is_refused_without_its_value() {
    for unknown in ["sslpassword", "channel_binding", "sslcrl", "passwort"] {
        let refused = read(&format!("postgres://db/x?{unknown}=c4n4ry"), None).unwrap_err();
        let start = format!("`database.url` has the unsupported parameter {unknown:?}");
        assert!(refused.starts_with(&start) && !refused.contains("c4n4ry"), "{refused}");
    }
    let options = "postgres://u@localhost/x?options=-c%20a%3Db&options%5Bb%5D=c";
    assert_eq!(read(options, None), Ok(("prefer", 0)));
}

/// The test process has no `PGUSER`.
#[test]
fn an_address_without_a_user_is_refused() {
    for url in ["postgres://localhost/x", "postgres://:c4n4ry@db/x", "postgres:///x?host=/tmp"] {
        let refused = read(url, None).unwrap_err();
        assert!(refused.starts_with("`database.url` names no user"), "{refused}");
    }
    for url in ["postgres://anonymous@localhost/x", "postgres:///x?host=/tmp&user=anonymous"] {
        assert_eq!(read(url, None), Ok(("prefer", 0)), "{url}");
    }
}

#[test]
fn a_certificate_that_is_not_there_is_named() {
    let url = "postgres://u:c4n4ry@db/x?sslrootcert=%2Fnowhere%2Fca.pem";
    let refused = read(url, None).unwrap_err();
    let start = "`sslrootcert` in `database.url`: cannot read /nowhere/ca.pem: ";
    assert!(refused.starts_with(start), "{refused}");
}

#[test]
fn an_address_that_cannot_be_read_is_not_shown() {
    for wrong in ["postgres://u:c4n4ry#r/et@@:x/y", "mysql://u:c4n4ry@db/x"] {
        let refused = read(wrong, None).unwrap_err();
        assert!(refused.starts_with("cannot parse `database.url`"), "{refused}");
    }
}

#[test]
fn a_login_that_is_refused_is_told_what_to_change() {
    let advice = |message| login_advice(message).split([':', ' ']).next().unwrap_or_default();
    let entry = "no pg_hba.conf entry for host \"10.0.0.7\", user \"app\", database \"shop\"";
    assert!(login_advice(&format!("{entry}, no encryption")).contains("sslmode=disable"));
    assert!(login_advice(&format!("{entry}, SSL encryption")).contains("pg_hba.conf allow"));
    assert_eq!(advice("password authentication failed for user \"app\""), "correct");
}
