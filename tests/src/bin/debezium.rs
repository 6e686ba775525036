//! The relay beside a real Debezium, on servers of its own: `debezium CONNECT-JARS DEBEZIUM-JARS`.

use std::{path::Path, process::ExitCode};

use tests::debezium::{CASES, Scene, compare, there_and_back};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [jars, plugin] = &arguments[..] else {
        eprintln!("usage: debezium CONNECT-JARS DEBEZIUM-JARS");
        return ExitCode::from(2);
    };
    let own = std::env::current_exe().expect("this program has a path");
    let relay = own.with_file_name("relay");
    let scene = Scene::set(Path::new(jars), Path::new(plugin)).await;
    for case in CASES {
        compare(&scene, &relay, case).await;
    }
    there_and_back(&scene, &relay).await;
    ExitCode::SUCCESS
}
