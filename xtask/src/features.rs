//! Clippy for each feature of a library alone, and for all of them together. A feature that a library only passes on to
//! others has its turn there.

use std::time::Instant;

use xtask::command::run;
use xtask::failure::Outcome;

use crate::folders::cargo;

/// Features of one library, each by itself beside some that are there every time.
#[derive(Debug)]
struct Library {
    package: &'static str,
    /// What it does not compile without; and `tls`, with which the Kafka client of the workspace is built already.
    /// Without it the client is built in "lints, small".
    always: &'static str,
    /// Empty: nothing else. With commas: together.
    each: &'static [&'static str],
}

const LIBRARIES: [Library; 12] = [
    Library { package: "inbox-engine", always: "", each: &["", "ablation"] },
    Library { package: "inbox-outbox-core", always: "", each: &["", "postgres", "sqlite"] },
    Library {
        package: "inbox-service-kit",
        always: "",
        each: &["", "cli", "postgres", "http", "opentelemetry", "otlp", "webhook", "testing"],
    },
    Library { package: "inbox-kafka", always: "tls", each: &["", "testing"] },
    Library {
        package: "inbox-store",
        always: "",
        each: &[
            "postgres",
            "sqlite",
            "postgres,cli",
            "postgres,testing",
            "sqlite,testing",
            "postgres,ablation",
            "postgres,sqlite,cli,testing,ablation",
        ],
    },
    Library {
        package: "inbox-store-conformance",
        always: "",
        each: &["postgres", "sqlite", "postgres,sqlite"],
    },
    Library {
        package: "inbox-handler",
        always: "",
        each: &[
            "postgres",
            "sqlite",
            "postgres,opentelemetry",
            "postgres,testing",
            "postgres,sqlite,opentelemetry,testing",
        ],
    },
    Library {
        package: "inbox-runtime",
        always: "",
        each: &[
            "postgres",
            "sqlite",
            "postgres,http",
            "postgres,testing",
            "postgres,ablation",
            "postgres,sqlite,http,testing,ablation",
        ],
    },
    Library {
        package: "inbox-intake",
        always: "",
        each: &["postgres", "sqlite", "postgres,sqlite"],
    },
    Library {
        package: "inbox-schemas",
        always: "",
        each: &["", "avro", "protobuf", "avro,protobuf"],
    },
    Library {
        package: "inbox-consumer",
        always: "tls",
        each: &[
            "postgres",
            "sqlite",
            "sqlite,cli",
            "postgres,cli",
            "postgres,http",
            "postgres,intake",
            "postgres,schemas",
            "postgres,otlp",
            "postgres,jemalloc",
            "postgres,testing",
            "postgres,sqlite,cli,http,intake,avro,protobuf,opentelemetry,otlp,jemalloc,testing,ablation",
        ],
    },
    Library {
        package: "inbox-outbox-relay",
        always: "tls",
        each: &[
            "postgres",
            "sqlite",
            "sqlite,cli",
            "sqlite,webhook",
            "postgres,cli",
            "postgres,webhook",
            "postgres,debezium",
            "postgres,http",
            "postgres,opentelemetry",
            "postgres,otlp",
            "postgres,ablation",
            "postgres,sqlite,http,otlp,webhook,debezium,ablation",
        ],
    },
];

/// Producers build it alone: it is checked with what it asks of other crates, and no more.
const SMALLEST: &str = "inbox-outbox-core";

/// Runs it. `tls-vendored` is not among them: its OpenSSL takes a minute, and "lints, small" builds it.
///
/// The package `third-party` is chosen beside each library but the smallest. So the crates of others have the same
/// features in all lists, but for sqlx's databases, and are compiled once. A library that forgets to ask another crate
/// for a feature is therefore not found here.
pub(crate) fn each_alone() -> Outcome {
    for Library { package, always, each } in &LIBRARIES {
        let start = Instant::now();
        for features in *each {
            let features = format!("{always},{features}");
            println!("{package}: {}", features.trim_start_matches(','));
            let mut clippy = cargo(&["clippy", "--quiet", "--no-default-features"]);
            clippy.args(["--package", package, "--features", &features]);
            if *package != SMALLEST {
                clippy.args(["--package", "third-party"]);
            }
            run(clippy.args(["--", "-D", "warnings"]))?;
        }
        println!("{package}: {} lists in {} s", each.len(), start.elapsed().as_secs());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use xtask::published::{Published, metadata, published};

    use super::*;
    use crate::folders;

    fn sources(folder: &std::path::Path) -> String {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries
            .map(|path| {
                if path.is_dir() { sources(&path) } else { std::fs::read_to_string(&path).unwrap() }
            })
            .collect()
    }

    #[test]
    fn every_feature_of_a_library_has_its_turn() {
        for Published { name, folder, features, .. } in published(&metadata().unwrap()) {
            let library = LIBRARIES.iter().find(|library| library.package == name);
            let library = library.unwrap_or_else(|| panic!("{name} is in no line"));
            let sources = sources(&folder.join("src"));
            for feature in features {
                if ["default", "tls-vendored", library.always].contains(&&*feature) {
                    continue;
                }
                let lists = library.each.iter().map(|each| each.split(',').collect::<Vec<_>>());
                let lists: Vec<_> = lists.filter(|list| list.contains(&&*feature)).collect();
                assert!(!lists.is_empty(), "{name} has {feature}");
                assert!(
                    lists.iter().any(|list| list.len() <= 2)
                        || !sources.contains(&format!("feature = \"{feature}\"")),
                    "{feature} of {name} is never without all others"
                );
            }
        }
    }

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
