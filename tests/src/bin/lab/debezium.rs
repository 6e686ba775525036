//! A real Debezium beside the relay and in front of a consumer, on servers of its own.

use std::{path::Path, process::ExitCode};

use tests::debezium::{
    CASES, Scene,
    changes::{Course, WORKER, course},
    compare, read_all, there_and_back,
};

const USAGE: &str = "usage: debezium CONNECT-JARS DEBEZIUM-JARS relay | consumer [NAME] | changes CHANGES KILLS SEED [numbered]";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [jars, plugin, part @ ..] = &arguments[..] else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (jars, plugin) = (Path::new(jars), Path::new(plugin));
    match part {
        ["relay"] => beside_the_relay(jars, plugin).await,
        ["consumer", named @ ..] => {
            let scene = Scene::set(jars, plugin).await;
            let (count, failed) = read_all(&scene, named.first().unwrap_or(&"")).await;
            println!(
                "{} of {count} configurations are read as they should be",
                count - failed.len()
            );
            if !failed.is_empty() {
                println!("not so: {}", failed.join(", "));
                return ExitCode::FAILURE;
            }
        }
        ["changes", numbers @ ..] if numbers.len() >= 3 => {
            let number = |at: usize| numbers[at].parse().unwrap_or_default();
            let [changes, kills, seed] = [0, 1, 2].map(number);
            let numbered = numbers.get(3) == Some(&"numbered");
            let scene = Scene::set_with(jars, plugin, WORKER).await;
            let report = course(&scene, Course { changes, kills, seed, numbered }).await;
            println!("{}", serde_json::to_string_pretty(&report).unwrap_or_default());
            if !report.violations.is_empty() {
                return ExitCode::FAILURE;
            }
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

async fn beside_the_relay(jars: &Path, plugin: &Path) {
    let own = std::env::current_exe().expect("this program has a path");
    let relay = own.with_file_name("relay");
    let scene = Scene::set(jars, plugin).await;
    for case in CASES {
        compare(&scene, &relay, case).await;
    }
    there_and_back(&scene, &relay).await;
}
