//! Jars: fetched by Maven once, then kept under the build folder.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use xtask::command::run;
use xtask::failure::{Explain, Outcome};

use crate::folders;

/// What is fetched together.
struct Set {
    /// Its folder.
    name: &'static str,
    /// For people.
    about: &'static str,
    pom: &'static str,
}

/// The folder of Kafka's jars.
pub(crate) fn kafka() -> Outcome<PathBuf> {
    fetched(&Set {
        name: "kafka-4.1.1-tools",
        about: "Kafka 4.1.1 by Maven (54 MB, once)",
        pom: include_str!("../../services/kafka/pom.xml"),
    })
}

/// The folder of Kafka Connect's jars.
pub(crate) fn connect() -> Outcome<PathBuf> {
    fetched(&Set {
        name: "connect-4.1.1",
        about: "Kafka Connect 4.1.1 by Maven (33 MB, once)",
        pom: include_str!("../../services/connect/pom.xml"),
    })
}

/// The folder of a plugin of Connect: Debezium's connector for PostgreSQL.
pub(crate) fn debezium() -> Outcome<PathBuf> {
    fetched(&Set {
        name: "debezium-3.7.0",
        about: "Debezium 3.7.0 by Maven (8 MB, once)",
        pom: include_str!("../../services/debezium/pom.xml"),
    })
}

fn fetched(set: &Set) -> Outcome<PathBuf> {
    let folder = folders::cache()?.join(set.name);
    if folder.is_dir() {
        return Ok(folder);
    }
    println!("fetching {}", set.about);
    let part = folder.with_extension("part");
    drop(fs::remove_dir_all(&part));
    fs::create_dir_all(&part).explain(|| format!("cannot create {}", part.display()))?;
    let pom = part.join("pom.xml");
    fs::write(&pom, set.pom).explain(|| format!("cannot write {}", pom.display()))?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f"]).arg(&pom);
    maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
    run(maven.arg(format!("-DoutputDirectory={}", part.display())))?;
    // A folder under its final name is complete.
    fs::rename(&part, &folder).explain(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
