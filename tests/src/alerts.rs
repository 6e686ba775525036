//! The rules for alerts that come with the project, as Prometheus reads them, and whether they hold in what was
//! scraped.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command};

use crate::run_folder::{run_folder, unique_name};

/// Where the rules for consumers are.
pub const RULES: &str = "deploy/alerts/inbox.yml";
/// Where those for relays are.
pub const RULES_OF_RELAYS: &str = "deploy/alerts/outbox.yml";

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// What holds when it fires.
    pub expr: String,
    /// For how long it has to hold.
    pub time: String,
    /// Why somebody is told.
    pub summary: String,
    /// What is known of it, with the series' labels.
    pub description: String,
    /// The address of its section in the documents.
    pub runbook_url: String,
}

impl Alert {
    /// The rules of a file, in their order. It reads what [`RULES`] needs of YAML.
    pub fn all(text: &str) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for line in text.lines() {
            let Some((key, value)) = line.trim().trim_start_matches("- ").split_once(": ") else {
                continue;
            };
            if key == "alert" {
                all.push(Self { name: value.to_owned(), ..Self::default() });
            }
            let Some(alert) = all.last_mut() else { continue };
            match key {
                "expr" => value.clone_into(&mut alert.expr),
                "for" => value.clone_into(&mut alert.time),
                "summary" => value.clone_into(&mut alert.summary),
                "description" => value.clone_into(&mut alert.description),
                "runbook_url" => value.clone_into(&mut alert.runbook_url),
                _ => {}
            }
        }
        all
    }

    /// Its row in the documentation.
    pub fn row(&self) -> String {
        let Self { name, time, summary, .. } = self;
        format!("| `{name}` | {time} | {summary} |")
    }
}

/// What Prometheus knows after some scrapes, a minute apart. An empty one: nothing answered.
#[derive(Clone, Debug, Default)]
pub struct Scrapes(Vec<String>);

impl Scrapes {
    /// One more scrape.
    pub fn add(&mut self, text: String) {
        self.0.push(text);
    }

    /// The names of the rules that hold at the last scrape, `for` left aside; `None` where promtool is not there.
    pub fn hold(&self) -> Option<Vec<String>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project");
        let text = fs::read_to_string(root.join(RULES)).expect("the rules");
        Command::new("promtool").arg("--version").output().ok()?;
        let holds = |alert: &Alert| self.says(&alert.expr, 1);
        let all = Alert::all(&text);
        for alert in all.iter().filter(|alert| !holds(alert)) {
            assert!(self.says(&alert.expr, 0), "{} neither holds nor does it not", alert.name);
        }
        Some(all.iter().filter(|alert| holds(alert)).map(|alert| alert.name.clone()).collect())
    }

    /// Whether `promtool test rules` finds that an expression has an answer (1) or none (0).
    fn says(&self, expr: &str, answers: u8) -> bool {
        let mut test =
            String::from("evaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n");
        for (series, values) in self.series() {
            let _ = writeln!(test, "  - series: '{series}'\n    values: '{values}'");
        }
        let _ = writeln!(
            test,
            "  promql_expr_test:\n  - expr: '(count({expr}) > bool 0) or vector(0)'\n    eval_time: {}m\n    \
             exp_samples:\n    - labels: '{{}}'\n      value: {answers}",
            self.0.len() - 1
        );
        let file = run_folder().join(format!("{}.yaml", unique_name("alert")));
        fs::write(&file, test).expect("the run's folder takes files");
        let output = Command::new("promtool").args(["test", "rules"]).arg(&file).output();
        drop(fs::remove_file(&file));
        let output = output.expect("promtool runs");
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || said.contains("exp:"), "{said}");
        output.status.success()
    }

    /// Each series with its values, `stale` where one has gone.
    fn series(&self) -> BTreeMap<&str, String> {
        let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (count, text) in self.0.iter().enumerate() {
            let samples = text.lines().filter(|line| !line.starts_with('#'));
            for (series, value) in samples.filter_map(|line| line.rsplit_once(' ')) {
                let values = all.entry(series).or_default();
                values.resize(count, if values.is_empty() { "_" } else { "stale" });
                values.push(value);
            }
        }
        let length = self.0.len();
        let filled = |(series, mut values): (_, Vec<&str>)| {
            values.resize(length, "stale");
            (series, values.join(" "))
        };
        all.into_iter().map(filled).collect()
    }
}
