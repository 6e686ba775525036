//! Who may name what.

use super::source::Source;
use super::{Tree, none, shows};

/// A word, where it may be said, and why nowhere else.
const WORDS: &[(&str, &[&str], &str)] = &[
    ("rdkafka", &["kafka-kit/", "tests/", "bench/"], KAFKA),
    ("rdkafka_sys", &["kafka-kit/"], KAFKA),
    (
        "reqwest",
        &["outbox-webhook/", "inbox-schemas/src/registry/"],
        "one destination calls by HTTP, and the client of schema registries",
    ),
    ("apache_avro", &["inbox-schemas/src/avro/", "tests/", "bench/"], "others see JSON"),
    ("sqlx", SQLX, "the other rooms do not know which databases there are"),
    (
        "unsafe",
        // The other one names a symbol, which is all that it can do wrong.
        &["kafka-kit/src/ffi/", "inbox-consumer/src/allocator.rs"],
        "one folder is enough to read with care",
    ),
];

const KAFKA: &str = "only one room knows librdkafka";

/// Where types of sqlx are part of what users touch, and where its statements are.
const SQLX: &[&str] = &[
    "inbox-consumer/src/cli/",
    "inbox-consumer/src/consumer",
    "inbox-consumer/src/testing/",
    "inbox-conformance/",
    "inbox-handler/",
    "inbox-runtime/src/pipeline/",
    // The one place that reads an address.
    "service-kit/src/postgres.rs",
    "inbox-store/",
    "outbox-core/src/store/",
    "outbox-relay/src/feed/",
    "bench/",
    "examples/",
    "tests/",
];

/// Where a statement of SQL may be written down.
const SQL: &[&str] = &[
    "inbox-conformance/",
    "inbox-consumer/src/testing/",
    "inbox-store/",
    "outbox-core/src/store/",
    "outbox-relay/src/feed/",
    "bench/",
    "examples/",
    "tests/",
    "xtask/src/server/postgres.rs",
];

/// The crates of ours that a crate may depend on, and of the others rdkafka. Cargo proves the rest.
const DEPENDENCIES: &[(&str, &[&str])] = &[
    ("inbox-engine", &[]),
    ("outbox-core", &[]),
    ("service-kit", &["inbox-engine", "outbox-core"]),
    ("kafka-kit", &["inbox-engine", "outbox-core", "rdkafka", "service-kit"]),
    ("inbox-store", &["inbox-engine", "outbox-core", "service-kit"]),
    ("inbox-conformance", &["inbox-engine", "inbox-store", "outbox-core", "service-kit"]),
    ("inbox-handler", &["inbox-engine", "inbox-store", "outbox-core", "service-kit"]),
    (
        "inbox-runtime",
        &[
            "inbox-engine",
            "inbox-handler",
            "kafka-kit",
            "inbox-store",
            "outbox-core",
            "service-kit",
        ],
    ),
    (
        "inbox-intake",
        &["inbox-engine", "inbox-runtime", "inbox-store", "outbox-core", "service-kit"],
    ),
    (
        "inbox-consumer",
        &[
            "inbox-conformance",
            "inbox-engine",
            "inbox-handler",
            "inbox-intake",
            "kafka-kit",
            "inbox-runtime",
            "inbox-schemas",
            "inbox-store",
            "outbox-core",
            "service-kit",
        ],
    ),
    ("inbox-schemas", &["outbox-core"]),
    ("outbox-debezium", &["outbox-core", "service-kit"]),
    ("outbox-planner", &[]),
    ("outbox-webhook", &["outbox-core", "service-kit"]),
    (
        "outbox-relay",
        &[
            "inbox-engine",
            "kafka-kit",
            "outbox-core",
            "outbox-debezium",
            "outbox-planner",
            "outbox-webhook",
            "service-kit",
        ],
    ),
    ("xtask", &[]),
];

/// A room, and paths that it does not name, though its crate could.
const ABSENT: &[(&str, &[&str])] = &[
    ("inbox-engine/src/", &["std::fs", "std::net", "std::thread"]),
    ("outbox-core/src/", &["std::thread"]),
    // Their interfaces may be named, what implements them may not.
    (
        "inbox-runtime/src/pipeline/",
        &[
            "kafka_kit::internal::KafkaBroker",
            "kafka_kit::internal::connect",
            "inbox_store::internal::PgSettings",
            "inbox_store::internal::SqliteSettings",
        ],
    ),
    (
        "outbox-relay/src/destination/",
        &["crate::feed", "crate::port", "crate::pump", "crate::sink"],
    ),
    ("outbox-relay/src/feed/", &["crate::sink", "crate::pump"]),
    ("outbox-relay/src/pump/", &["crate::feed", "crate::port::Operators"]),
    ("outbox-relay/src/cli/", &["crate::port::Owners", "crate::port::Rounds"]),
    ("service-kit/src/", &["tokio"]),
];

/// A file, what its room may not name and it may, for a reason that it tells itself.
const DESPITE: &[(&str, &str)] = &[
    ("service-kit/src/cli/signals.rs", "tokio"),
    ("service-kit/src/server/io.rs", "tokio"),
    ("service-kit/src/server/mod.rs", "tokio"),
    ("service-kit/src/server/places.rs", "tokio"),
    ("service-kit/src/telemetry/port.rs", "tokio"),
];

fn words_out_of_place(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for source in tree.production() {
        for (word, rooms, why) in WORDS {
            if source.says(word) && !source.below(rooms) {
                found.push(format!("{} names {word}, outside its rooms: {why}", source.path));
            }
        }
    }
    found
}

fn paths_that_should_be_absent(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for source in tree.production() {
        let paths = source.paths();
        let names = |prefix: &str| paths.iter().any(|path| is_below(path, prefix));
        for (room, absent) in ABSENT {
            let here = |path: &&str| !DESPITE.contains(&(source.path.as_str(), *path));
            let absent = absent.iter().copied().filter(here);
            for path in absent.filter(|path| source.below(&[room]) && names(path)) {
                found.push(format!("{} names {path}, which nothing in {room} may", source.path));
            }
        }
    }
    found
}

fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// A literal that begins like a statement: more than the name of one, and no sentence about it.
fn is_statement(literal: &str) -> bool {
    const OF_ROWS: [&str; 8] =
        ["ALTER", "CREATE", "DELETE", "DROP", "INSERT", "SELECT", "UPDATE", "WITH"];
    const OF_TRANSACTIONS: [&str; 4] = ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT"];
    let words: Vec<&str> = literal.split_whitespace().collect();
    let [verb, next, ..] = words[..] else { return false };
    let capitals = next.chars().all(|letter| letter.is_ascii_uppercase());
    let more = verb.ends_with(';') || (capitals && (words.len() > 2 || next == "IMMEDIATE"));
    OF_ROWS.contains(&verb) || (OF_TRANSACTIONS.contains(&verb.trim_end_matches(';')) && more)
}

fn statements_out_of_place(tree: &Tree) -> Vec<String> {
    let outside = |source: &Source| !source.below(SQL);
    let mut found = Vec::new();
    for source in tree.production().filter(outside) {
        for literal in source.literals.iter().filter(|literal| is_statement(literal)) {
            let line = literal.lines().next().unwrap_or_default();
            found
                .push(format!("{} has SQL: \"{line}\"; statements are in the stores", source.path));
        }
    }
    found
}

/// What a crate depends on, tests aside.
fn dependencies<'t>(tree: &'t Tree, folder: &str) -> impl Iterator<Item = &'t str> {
    let manifest = tree.text(&format!("{folder}/Cargo.toml")).unwrap_or_default();
    let behind = manifest.split_once("\n[dependencies]\n").map_or("", |(_, behind)| behind);
    let section = behind.split("\n[").next().unwrap_or_default();
    let lines = section.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| line.split(['.', ' ', '=']).next())
}

/// The proof that a crate knows little is the list of what it depends on.
fn dependencies_too_many(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (folder, may) in DEPENDENCIES {
        let ours = |name: &&str| {
            *folder == "inbox-engine"
                || *name == "rdkafka"
                || tree.text(&format!("{name}/Cargo.toml")).is_some()
        };
        for name in dependencies(tree, folder).filter(ours).filter(|name| !may.contains(name)) {
            found.push(format!("{folder} depends on {name}, which is not among {may:?}"));
        }
    }
    found
}

#[test]
fn words_stay_in_their_rooms() {
    none(&words_out_of_place(&Tree::here()));
}

#[test]
fn rooms_import_only_what_they_may() {
    none(&paths_that_should_be_absent(&Tree::here()));
}

#[test]
fn sql_is_written_in_the_stores() {
    none(&statements_out_of_place(&Tree::here()));
}

#[test]
fn crates_depend_only_on_what_they_may() {
    none(&dependencies_too_many(&Tree::here()));
}

#[test]
fn rules_about_rooms_see_what_breaks_them() {
    let tree = Tree::of(&[
        (
            "inbox-runtime/src/pipeline/a.rs",
            "use inbox_store::internal::PgSettings;\nuse kafka_kit::internal::connect;\nfn f() { unsafe {} }",
        ),
        ("inbox-consumer/src/cli/b.rs", "// rdkafka\nconst S: &str = \"INSERT INTO t\";"),
        ("inbox-consumer/src/cli/c.rs", "const S: &str = \"COMMIT\"; // a word, not a statement"),
        ("inbox-consumer/src/config/d.rs", "use sqlx::Row;"),
        ("inbox-store/src/postgres/e.rs", "const S: &str = \"SELECT 1\"; use sqlx::Row;"),
        ("service-kit/src/f.rs", "use tokio::time;"),
        ("service-kit/src/cli/signals.rs", "use tokio::signal;"),
        ("inbox-engine/Cargo.toml", "[package]\n\n[dependencies]\nserde = \"1\"\n\n[lints]\nx = 1"),
        ("kafka-kit/Cargo.toml", "[package]"),
        ("inbox-handler/Cargo.toml", "\n[dependencies]\nserde = \"1\"\nkafka-kit.workspace = true"),
    ]);
    shows(&words_out_of_place(&tree), &["a.rs names unsafe", "d.rs names sqlx"]);
    shows(&statements_out_of_place(&tree), &["b.rs has SQL: \"INSERT INTO t\""]);
    let absent =
        ["kafka_kit::internal::connect", "inbox_store::internal::PgSettings", "f.rs names tokio"];
    shows(&paths_that_should_be_absent(&tree), &absent);
    shows(&dependencies_too_many(&tree), &["serde", "inbox-handler depends on kafka-kit"]);
}
