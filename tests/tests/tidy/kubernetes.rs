//! The manifests for Kubernetes fit the programs: configurations that they read, probes where they listen, the alerts of
//! `deploy/alerts`. That Kubernetes takes them shows `cargo xtask manifests`.

use inbox_consumer::config::{Config, Overrides};
use service_kit::testing::document;
use tests::{RULES, RULES_OF_RELAYS};

use super::{Tree, none, shows};

const FOLDER: &str = "deploy/kubernetes";
const ALERTS: &str = "deploy/kubernetes/monitoring/alerts.yaml";

/// The file of alerts as the Prometheus operator takes it.
fn alerts(tree: &Tree) -> String {
    let mut text = String::from(
        "# Made from deploy/alerts by a test with UPDATE_DOCS=1. Edit those files.\n\
         apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: inbox\nspec:\n  groups:\n",
    );
    for rules in [RULES, RULES_OF_RELAYS] {
        let (_, groups) = tree.text(rules).unwrap().split_once("\ngroups:\n").unwrap();
        text.extend(groups.lines().map(|line| format!("  {line}\n")));
    }
    text
}

/// What stands behind a key, line by line.
fn values<'t>(text: &'t str, key: &str) -> Vec<&'t str> {
    text.lines().filter_map(|line| line.trim().strip_prefix(key)).collect()
}

/// Ports of a pod that its program does not listen on, and paths that it does not answer.
fn probes_that_find_nothing(path: &str, text: &str) -> Vec<String> {
    let listen = values(text, "value: 0.0.0.0:").first().copied().unwrap_or_default();
    let mut found = Vec::new();
    let ports = [values(text, "containerPort: "), values(text, "port: ")].concat();
    for port in ports.into_iter().filter(|port| *port != "http" && *port != listen) {
        found.push(format!("{path}: port {port}, and the program listens on {listen:?}"));
    }
    let probes = text.matches("httpGet:").count();
    let named = values(text, "port: http").len();
    if probes < 3 || named != probes {
        found.push(format!("{path}: {named} of {probes} probes ask the port"));
    }
    for asked in values(text, "path: /") {
        if !["health/live", "health/ready"].contains(&asked) {
            found.push(format!("{path}: nothing answers /{asked}"));
        }
    }
    found
}

/// Variables of the pods, as the programs see them.
fn variables(text: &str) -> Vec<(String, String)> {
    let mut lines = text.lines().map(str::trim);
    let mut all = Vec::new();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix("- name: ").filter(|name| name.contains("__"));
        let value = lines.clone().next().and_then(|next| next.strip_prefix("value: "));
        if let (Some(name), Some(value)) = (name, value) {
            all.push((name.to_owned(), value.to_owned()));
        }
    }
    all
}

#[test]
fn the_operator_gets_the_alerts_of_the_rule_files() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/kubernetes/monitoring/alerts.yaml");
    let wanted = alerts(&Tree::here());
    let there = document(path, &wanted);
    assert!(there == wanted, "{ALERTS} is old: run this test with UPDATE_DOCS=1");
}

#[test]
fn probes_ask_where_the_programs_listen() {
    let tree = Tree::here();
    for pod in ["consumer", "relay"] {
        let path = format!("{FOLDER}/base/{pod}.yaml");
        none(&probes_that_find_nothing(&path, tree.text(&path).unwrap()));
    }
}

#[test]
fn configurations_of_the_pods_can_be_read() {
    let tree = Tree::here();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(FOLDER);
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "postgres://billing:billing@db/shop").unwrap();
    let environment = |pod: &str| -> Vec<(String, String)> {
        let all = variables(tree.text(&format!("{FOLDER}/base/{pod}.yaml")).unwrap());
        assert_eq!(all.len(), 3, "{all:?}");
        let file = secret.path().display().to_string();
        let placed = |(name, value): (String, String)| match name.ends_with("_FILE") {
            true => (name, file.clone()),
            false => (name, value),
        };
        all.into_iter().map(placed).collect()
    };
    let consumer = root.join("base/consumer.toml");
    let consumer = Config::load(Some(&consumer), environment("consumer"), &Overrides::default());
    assert_eq!(consumer.unwrap().http.listen, "0.0.0.0:9464");
    let relay = root.join("base/relay.toml");
    let relay = outbox_relay::config::Config::load(
        Some(&relay),
        environment("relay"),
        &outbox_relay::config::Overrides::default(),
    );
    assert_eq!(relay.unwrap().http.listen, "0.0.0.0:9465");
}

#[test]
fn rules_about_manifests_see_what_breaks_them() {
    let pod = "value: 0.0.0.0:1\ncontainerPort: 2\nhttpGet:\n  path: /healthz\n  port: http\nhttpGet:\n  port: web\n";
    shows(
        &probes_that_find_nothing("p", pod),
        &["port 2,", "port web,", "1 of 2 probes", "nothing answers /healthz"],
    );
}
