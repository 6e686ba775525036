//! Dockerfile, compose file and unit name only what exists, run with few rights, and give a consumer the time to stop.

use std::{path::Path, time::Duration};

use inbox_consumer::config::{Config, Overrides};
use tests::Executable;

use super::{Tree, none, shows};
use crate::programs::{RELAY, WORKER};

const DOCKERFILE: &str = "Dockerfile";
/// What the Dockerfile builds the programs with.
const BUILD: &str = "deploy/image/build.sh";
const COMPOSE: &str = "compose.yaml";
const UNIT: &str = "deploy/inbox-consumer@.service";
const ROLES: &str = "deploy/compose/roles.sql";
const GRANTS: &str = "deploy/compose/grants.sql";
const WORKSPACE: &str = "Cargo.toml";
const UNIT_OF_THE_RELAY: &str = "deploy/outbox-relay@.service";
const POD_OF_THE_CONSUMER: &str = "deploy/kubernetes/base/consumer.yaml";
const POD_OF_THE_RELAY: &str = "deploy/kubernetes/base/relay.yaml";

/// What sets variables of the two programs.
const DEPLOYED: [&str; 10] = [
    UNIT,
    UNIT_OF_THE_RELAY,
    COMPOSE,
    DOCKERFILE,
    "deploy/image/health.sh",
    POD_OF_THE_CONSUMER,
    POD_OF_THE_RELAY,
    "deploy/kubernetes/static-membership/kustomization.yaml",
    "docs/deploying.md",
    "docs/tutorial.md",
];

/// What stopping takes beside the two deadlines: watermarks, commits, the connection's end.
const MARGIN: Duration = Duration::from_secs(10);

/// Files that a COPY of the Dockerfile or a mount of the compose file takes from the project.
fn files_that_are_not_there(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let there = |place: &str| {
        let below = format!("{place}/");
        tree.files.iter().any(|(path, _)| path == place || path.starts_with(&below))
    };
    for line in tree.text(DOCKERFILE).unwrap_or_default().lines() {
        let Some(places) = line.strip_prefix("COPY ").filter(|line| !line.starts_with("--")) else {
            continue;
        };
        let places: Vec<&str> = places.split(' ').collect();
        let taken = places.split_last().map_or(&[][..], |(_, taken)| taken);
        let lost = taken.iter().filter(|place| !there(place));
        found.extend(lost.map(|place| format!("{DOCKERFILE} copies {place}, which is not there")));
    }
    for line in tree.text(COMPOSE).unwrap_or_default().lines() {
        let mount = line.trim().strip_prefix("- ./").and_then(|mount| mount.split(':').next());
        if let Some(place) = mount.filter(|place| !there(place)) {
            found.push(format!("{COMPOSE} mounts {place}, which is not there"));
        }
    }
    found
}

/// Each member of the workspace is copied into the image, or cargo could not read the workspace.
fn members_without_a_copy(tree: &Tree) -> Vec<String> {
    let manifest = tree.text("Cargo.toml").unwrap_or_default();
    let members = manifest.split_once("members = [").map_or("", |(_, rest)| rest);
    let members = members.split(']').next().unwrap_or_default();
    let names = members.split('"').skip(1).step_by(2);
    let dockerfile = tree.text(DOCKERFILE).unwrap_or_default();
    // A package in a package's folder comes along with it.
    let copied = |name: &str| {
        let folder = name.split('/').next().unwrap_or(name);
        dockerfile.contains(&format!("COPY {folder} {folder}\n"))
    };
    let lost = names.filter(|name| !copied(name));
    lost.map(|name| format!("{DOCKERFILE} does not copy the workspace's {name}")).collect()
}

/// Packages, features and programs that the image has.
fn builds_that_cannot_be(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let text = tree.text(BUILD).unwrap_or_default();
    for command in text.split("cargo build").skip(1) {
        let line = command.split(['\n', '&']).next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let behind = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1).copied()
        };
        let package = behind("--package").unwrap_or_default();
        let own = format!("name = \"{package}\"");
        let manifest = tree
            .files
            .iter()
            .find(|(path, text)| path.strip_suffix("/Cargo.toml").is_some() && text.contains(&own));
        let Some((path, manifest)) = manifest else {
            found.push(format!("{BUILD} builds {package}, which is no package"));
            continue;
        };
        for feature in behind("--features").unwrap_or_default().split(',') {
            if !manifest.contains(&format!("\n{feature} = [")) {
                found.push(format!("{path} has no feature {feature}, which {BUILD} builds"));
            }
        }
        let program = behind("--bin").unwrap_or_default();
        let folder = path.trim_end_matches("Cargo.toml");
        let named = manifest.split("[[bin]]").skip(1);
        let named = named.map(|bin| bin.contains(&format!("name = \"{program}\"")));
        let file = format!("{folder}src/bin/{program}.rs");
        if !named.into_iter().any(|is| is) && tree.text(&file).is_none() {
            found.push(format!("{package} has no program {program}, which {BUILD} builds"));
        }
    }
    found
}

/// Debian packages are of the same build as the image, of which the documents tell; what else they hold exists.
fn packages_that_differ(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["inbox-consumer", "outbox-relay"] {
        let manifest = tree.text(&format!("{folder}/Cargo.toml")).unwrap_or_default();
        let section = manifest.split_once("[package.metadata.deb]\n").map_or("", |(_, rest)| rest);
        let section = section.split("\n\n").next().unwrap_or_default();
        let features = section.lines().find_map(|line| line.strip_prefix("features = ["));
        let features = features.unwrap_or_default().replace(['"', ']', ' '], "");
        for file in [BUILD, "docs/deploying.md"] {
            let is_built = format!("--features {features}");
            let mut lines = tree.text(file).unwrap_or_default().lines();
            if !lines.any(|line| line.contains(&is_built) && line.contains(folder)) {
                found.push(format!("{file} does not build {folder} with {features}"));
            }
        }
        for asset in section.lines().filter_map(|line| line.trim().strip_prefix("[\"")) {
            let path = asset.split('"').next().unwrap_or_default();
            let whole = match path.strip_prefix("../") {
                Some(path) => path.to_owned(),
                None => format!("{folder}/{path}"),
            };
            // `cargo xtask dist` writes the programs and their pages.
            if !whole.starts_with("target/xtask/dist/") && tree.text(&whole).is_none() {
                found
                    .push(format!("the Debian package {folder} wants {whole}, which is not there"));
            }
        }
    }
    found
}

/// Times to stop that are shorter than a drain may take by default.
fn stops_that_are_too_short(tree: &Tree, needed: Duration) -> Vec<String> {
    let mut found = Vec::new();
    for (file, key) in [
        (UNIT, "TimeoutStopSec="),
        (UNIT_OF_THE_RELAY, "TimeoutStopSec="),
        (COMPOSE, "stop_grace_period: "),
        (POD_OF_THE_CONSUMER, "terminationGracePeriodSeconds: "),
        (POD_OF_THE_RELAY, "terminationGracePeriodSeconds: "),
    ] {
        let lines = tree.text(file).unwrap_or_default().lines().map(str::trim);
        let times: Vec<&str> = lines.filter_map(|line| line.strip_prefix(key)).collect();
        if times.is_empty() {
            found.push(format!("{file} does not say {key}"));
        }
        for time in times {
            let seconds = time.trim_end_matches('s').parse().map(Duration::from_secs);
            if seconds.is_ok_and(|seconds| seconds < needed) {
                found.push(format!("{file}: {key}{time} is less than {needed:?}"));
            }
        }
    }
    found
}

/// How long a consumer may take to stop with the defaults.
fn stop_time() -> Duration {
    let config = Config::new("c", "b", ["t"], "sqlite:x");
    config.limits.drain_deadline + config.limits.close_deadline + MARGIN
}

/// What the units pass are keys that exist.
fn variables_without_a_key(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (prefix, keys) in
        [("INBOX_", inbox_consumer::config::KEYS), ("OUTBOX_", outbox_relay::config::KEYS)]
    {
        for file in DEPLOYED {
            for (section, key) in variables(tree.text(file).unwrap_or_default(), prefix) {
                let key = key.strip_suffix("_file").unwrap_or(&key);
                if !keys.iter().any(|known| known.path == format!("{section}.{key}")) {
                    found.push(format!("{file} sets {prefix}{section}.{key}, which is no key"));
                }
            }
        }
    }
    found
}

/// Section and key of every variable that begins with a prefix, and not with a longer word.
fn variables(text: &str, prefix: &str) -> Vec<(String, String)> {
    let part = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    let words = text.split(|letter| !part(letter));
    let named = words.filter_map(|word| word.strip_prefix(prefix)?.split_once("__"));
    named.map(|(section, key)| (section.to_lowercase(), key.to_lowercase())).collect()
}

/// Whom the compose file's services are at the database, beside the roles that are made for them.
fn strangers_at_the_database(tree: &Tree) -> Vec<String> {
    let roles = tree.text(ROLES).unwrap_or_default();
    let made = |role: &str| roles.contains(&format!("CREATE ROLE {role} LOGIN PASSWORD "));
    let mut found = Vec::new();
    for word in ["SUPERUSER", "CREATEROLE", "CREATEDB", "BYPASSRLS", "GRANT pg_"] {
        if roles.contains(word) {
            found.push(format!("{ROLES} says {word}"));
        }
    }
    let files = tree.files.iter();
    for (path, text) in
        files.filter(|(path, _)| path == COMPOSE || path.starts_with("deploy/compose/"))
    {
        let users =
            text.split("postgres://").skip(1).filter_map(|url| url.split([':', '@']).next());
        let strangers = users.filter(|user| !made(user));
        found.extend(strangers.map(|user| format!("{path}: {user} is no role of {ROLES}")));
    }
    found
}

/// The image is built with a version of Rust that is named in full, and that the workspace takes.
fn toolchains_that_do_not_fit(tree: &Tree) -> Vec<String> {
    let version =
        |text: &str| -> Vec<u32> { text.split('.').map_while(|part| part.parse().ok()).collect() };
    let dockerfile = tree.text(DOCKERFILE).unwrap_or_default();
    let image = dockerfile.split("rust:").nth(1).and_then(|rest| rest.split('-').next());
    let image = version(image.unwrap_or_default());
    let least = tree.text(WORKSPACE).unwrap_or_default().split_once("rust-version = \"");
    let least = least.and_then(|(_, rest)| rest.split('"').next()).unwrap_or_default();
    let mut found = Vec::new();
    if image.len() != 3 {
        found.push(format!("{DOCKERFILE} names no version of Rust in full"));
    }
    if image < version(least) {
        found.push(format!("{DOCKERFILE} builds with Rust {image:?}, {WORKSPACE} wants {least}"));
    }
    found
}

/// Images whose name cannot be given with a digest (docs/deploying.md).
fn images_that_cannot_be_pinned(tree: &Tree) -> Vec<String> {
    let fixed = |file: &str, key: &str, ours: fn(&str) -> bool| -> Vec<String> {
        let lines = tree.text(file).unwrap_or_default().lines().map(str::trim);
        let images = lines.filter_map(|line| line.strip_prefix(key)).filter(|image| !ours(image));
        images.map(|image| format!("{file}: no variable names {image}")).collect()
    };
    let mut found = fixed(DOCKERFILE, "FROM ", |image| image.starts_with("${"));
    found.extend(fixed(COMPOSE, "image: ", |image| image.starts_with("${") || image == "inbox"));
    found
}

/// What a program says that a role needs, one statement a line.
fn printed(program: &Executable, role: &str, kind: &str) -> Vec<String> {
    let url = "postgres://nobody@localhost/none";
    let output = program
        .command()
        .args(["migrate", "--print-grants", role, "--for", kind])
        .current_dir(std::env::temp_dir())
        .envs([("INBOX_CONSUMER__NAME", "c"), ("INBOX_KAFKA__TOPICS", "t")])
        .envs([("INBOX_KAFKA__BOOTSTRAP", "localhost:9"), ("INBOX_DATABASE__URL", url)])
        .envs([("OUTBOX_KAFKA__BOOTSTRAP", "localhost:9"), ("OUTBOX_DATABASE__URL", url)])
        .env("OUTBOX_KAFKA__TOPIC", "t")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn services_of_the_compose_file_come_without_superusers() {
    none(&strangers_at_the_database(&Tree::here()));
}

#[test]
fn grants_of_the_compose_file_are_those_that_are_printed() {
    let tree = Tree::here();
    let ours = |line: &&str| line.contains(" inbox_") || line.contains(" outbox_");
    let statements = tree.text(GRANTS).unwrap().lines().filter(|line| line.starts_with("GRANT "));
    let given: Vec<&str> = statements.filter(ours).collect();
    let needed = [
        printed(&WORKER, "billing", "consumer"),
        printed(&RELAY, "relay", "relay"),
        printed(&RELAY, "shop", "appender"),
    ]
    .concat();
    assert_eq!(given, needed, "copy what is printed into {GRANTS}");
}

#[test]
fn the_image_is_built_with_a_rust_that_the_workspace_takes() {
    none(&toolchains_that_do_not_fit(&Tree::here()));
}

#[test]
fn every_image_can_be_pinned_to_a_digest() {
    none(&images_that_cannot_be_pinned(&Tree::here()));
}

#[test]
fn what_the_image_is_made_of_exists() {
    let tree = Tree::here();
    none(&files_that_are_not_there(&tree));
    none(&members_without_a_copy(&tree));
    none(&builds_that_cannot_be(&tree));
    none(&packages_that_differ(&tree));
}

#[test]
fn configurations_of_the_compose_file_can_be_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/compose");
    for file in ["consumer.toml", "debezium/consumer.toml"] {
        Config::load(Some(&root.join(file)), [], &Overrides::default()).unwrap();
    }
    let overrides = outbox_relay::config::Overrides::default();
    let relay = root.join("relay.toml");
    outbox_relay::config::Config::load(Some(&relay), [], &overrides).unwrap();
}

#[test]
fn a_deployed_consumer_has_the_time_to_stop() {
    none(&stops_that_are_too_short(&Tree::here(), stop_time()));
}

#[test]
fn deployments_set_keys_that_exist() {
    none(&variables_without_a_key(&Tree::here()));
}

#[test]
fn rules_about_deployment_see_what_breaks_them() {
    let dockerfile = "COPY a a\nCOPY gone here/\nCOPY --from=build /x /y\n";
    let build = "cargo build --package a --features one,two --bin no\ncargo build --package b\n";
    let tree = Tree::of(&[
        (DOCKERFILE, dockerfile),
        (BUILD, build),
        ("Cargo.toml", "members = [\"a\", \"a/b\", \"z\", \"z/y\"]"),
        ("a/Cargo.toml", "name = \"a\"\n[features]\none = []\n"),
        (COMPOSE, "  - ./a/Cargo.toml:/x:ro\n  - ./lost.sql:/y\n  stop_grace_period: 10s\n"),
        (
            UNIT,
            "TimeoutStopSec=30\nEnvironment=INBOX_DATABASE__URL_FILE=x INBOX_DATABASE__PORT=1\n",
        ),
        (UNIT_OF_THE_RELAY, "TimeoutStopSec=5\nEnvironment=OUTBOX_DATABASE__URL=x"),
    ]);
    shows(&files_that_are_not_there(&tree), &["copies gone", "mounts lost.sql"]);
    shows(&members_without_a_copy(&tree), &["workspace's z", "workspace's z/y"]);
    shows(&builds_that_cannot_be(&tree), &["no feature two", "no program no", "builds b"]);
    shows(
        &stops_that_are_too_short(&tree, Duration::from_secs(25)),
        &["compose.yaml", "relay", "consumer.yaml does not say", "relay.yaml does not say"],
    );
    shows(&variables_without_a_key(&tree), &["database.port"]);
}

#[test]
fn rules_about_packages_see_what_breaks_them() {
    let package = |assets: &str| {
        format!(
            "[package.metadata.deb]\nfeatures = [\"a\", \"b\"]\nassets = [\n    {assets}\n]\n\n[features]\n"
        )
    };
    let build = "cargo build --package inbox-consumer --features a,b\ncargo build --package outbox-relay --features a\n";
    let tree = Tree::of(&[
        (
            "inbox-consumer/Cargo.toml",
            &package("[\"../target/xtask/dist/x\", \"usr/bin/\", \"755\"],"),
        ),
        ("outbox-relay/Cargo.toml", &package("[\"../deploy/gone\", \"x/\", \"644\"],")),
        (BUILD, build),
        (
            "docs/deploying.md",
            "cargo install inbox-consumer --features a,b\n--path outbox-relay --features a,b",
        ),
    ]);
    shows(
        &packages_that_differ(&tree),
        &["build.sh does not build outbox-relay with a,b", "wants deploy/gone"],
    );
}

#[test]
fn rules_about_supply_see_what_breaks_them() {
    let tree = Tree::of(&[
        (WORKSPACE, "rust-version = \"1.94\"\n"),
        (DOCKERFILE, "ARG RUST_IMAGE=rust:1-slim\nFROM ${RUST_IMAGE} AS build\nFROM debian:12\n"),
        (
            COMPOSE,
            "image: ${A:-a:1}\nimage: inbox\nimage: postgres:17\nurl: postgres://root:x@db\n",
        ),
        (ROLES, "CREATE ROLE a LOGIN PASSWORD 'a';\nALTER ROLE a SUPERUSER;\n"),
        ("deploy/compose/consumer.toml", "url = \"postgres://a:a@db/a\""),
    ]);
    shows(&strangers_at_the_database(&tree), &["says SUPERUSER", "root is no role"]);
    shows(&toolchains_that_do_not_fit(&tree), &["no version of Rust in full", "builds with Rust"]);
    shows(&images_that_cannot_be_pinned(&tree), &["debian:12", "postgres:17"]);
}
