//! Features: that the libraries compile, without a warning, with fewer of them than the tests are built with.

use std::process::Command;

use xtask::command::run;
use xtask::failure::Outcome;

use crate::folders::{cargo, forget_package, workspace};
use crate::toolchain;
use crate::tools::HACK;

/// What users choose, by library, for every push: each database alone, and each part that brings other crates. The
/// crates between are compiled with them. The tests are built with all features together.
const LISTS: [(&str, &[&str]); 3] = [
    ("inbox-outbox-core", &["", "postgres", "sqlite"]),
    (
        "inbox-consumer",
        &[
            "tls,postgres",
            "tls,sqlite",
            "tls,sqlite,cli",
            "tls,postgres,intake",
            "tls,postgres,schemas",
            "tls,postgres,opentelemetry",
        ],
    ),
    (
        "inbox-outbox-relay",
        &[
            "tls,postgres",
            "tls,sqlite",
            "tls,sqlite,cli",
            "tls,postgres,webhook",
            "tls,postgres,opentelemetry",
        ],
    ),
];

/// What a library does not compile without, one list for each database; and `tls`, with which librdkafka is built.
const EACH: [(&str, &[&str]); 15] = [
    ("inbox-engine", &[""]),
    ("inbox-outbox-core", &[""]),
    ("inbox-service-kit", &[""]),
    ("inbox-kafka-kit", &["tls"]),
    ("inbox-store", &["postgres", "sqlite"]),
    ("inbox-store-conformance", &["postgres", "sqlite"]),
    ("inbox-handler", &["postgres", "sqlite"]),
    ("inbox-runtime", &["postgres", "sqlite"]),
    ("inbox-intake", &["postgres", "sqlite"]),
    ("inbox-schemas", &[""]),
    ("inbox-consumer", &["tls,postgres", "tls,sqlite"]),
    ("inbox-outbox-debezium", &[""]),
    ("inbox-outbox-webhook", &[""]),
    ("inbox-outbox-planner", &[""]),
    ("inbox-outbox-relay", &["tls,postgres", "tls,sqlite"]),
];

/// Its OpenSSL takes a minute to compile, and no other code depends on it.
const VENDORED: &str = "tls-vendored";

/// Producers build it alone: it is checked with what it asks of other crates, and no more.
const SMALLEST: &str = "inbox-outbox-core";

/// Lints the lists of every push.
///
/// The package `third-party` is chosen beside each library but the smallest. So the crates of others have the same
/// features in all lists, but for sqlx's databases, and are compiled once. A library that forgets to ask another crate
/// for a feature is therefore found by [`check_each`] alone.
pub(crate) fn check_lists() -> Outcome {
    for (package, lists) in LISTS {
        for features in lists {
            println!("{package}: {features}");
            let mut clippy = cargo(&["clippy", "--quiet", "--no-default-features"]);
            clippy.args(["--package", package, "--features", features]);
            if package != SMALLEST {
                clippy.args(["--package", "third-party"]);
            }
            run(clippy.args(["--", "-D", "warnings"]))?;
        }
    }
    Ok(())
}

/// Lints each feature of each library alone, and all of them together, by cargo-hack.
pub(crate) fn check_each() -> Outcome {
    let hack = HACK.find_or_install()?;
    for (package, always) in EACH {
        for features in always {
            let mut command = Command::new(&hack);
            forget_package(&mut command);
            command.args(["hack", "clippy", "--quiet", "--each-feature"]);
            command.args(["--exclude-features", &format!("default,{VENDORED}")]);
            command.args(["--package", package, "--features", features]);
            run(command.args(["--", "-D", "warnings"]).current_dir(workspace()))?;
        }
    }
    Ok(())
}

/// Lints what a service builds that needs the libraries and SQLite alone, with an OpenSSL of its own.
pub(crate) fn check_vendored() -> Outcome {
    toolchain::ensure(toolchain::BUILD)?;
    let mut clippy = cargo(&["clippy", "--quiet", "--no-default-features", "--features"]);
    clippy.arg(format!("sqlite,{VENDORED}"));
    clippy.args(["--package", "inbox-consumer", "--package", "inbox-outbox-relay"]);
    run(clippy.args(["--", "-D", "warnings"]))
}

#[cfg(test)]
mod tests {
    use crate::folders;

    #[test]
    fn third_party_has_every_crate_of_others() {
        let text = |file: &str| std::fs::read_to_string(folders::workspace().join(file)).unwrap();
        let (workspace, own) = (text("Cargo.toml"), text("xtask/third-party/Cargo.toml"));
        let (_, dependencies) = workspace.split_once("[workspace.dependencies]\n").unwrap();
        let (dependencies, _) = dependencies.split_once("\n[").unwrap();
        let named = dependencies.lines().filter(|line| !line.contains("path = "));
        let names: Vec<_> =
            named.filter_map(|line| line.split_once(" = ")).map(|it| it.0).collect();
        assert!(names.len() > 50, "{names:?}");
        for name in names.iter().filter(|name| !name.starts_with('#')) {
            let has = own.lines().any(|line| {
                line.starts_with(&format!("{name}.workspace = true"))
                    || line.starts_with(&format!("{name} = {{ workspace = true"))
            });
            assert!(has, "{name} is missing");
        }
    }

    /// A relay for Kafka alone, as it is built by default, has no client of HTTP.
    #[test]
    fn a_relay_for_kafka_builds_no_client_of_http() {
        let tree = |features: &[&str]| {
            let tree = std::process::Command::new(env!("CARGO"))
                .args(["tree", "--offline", "--edges", "normal", "--prefix", "none"])
                .args(["--package", "inbox-outbox-relay"])
                .args(features)
                .current_dir(folders::workspace())
                .output()
                .unwrap();
            assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
            let text = String::from_utf8(tree.stdout).unwrap();
            ["reqwest ", "ureq ", "hyper-rustls "]
                .map(|of| text.lines().any(|line| line.starts_with(of)))
        };
        assert_eq!(tree(&[]), [false; 3]);
        assert_eq!(tree(&["--features", "webhook"]), [true, false, true], "it would be seen");
    }
}
