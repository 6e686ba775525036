//! Kafka's jars: fetched by Maven once, then kept under the build folder.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use xtask::command::run;
use xtask::failure::{Explain, Outcome};

use crate::folders;

const POM: &str = include_str!("../../services/kafka/pom.xml");

/// The folder of the jars.
pub(crate) fn kafka() -> Outcome<PathBuf> {
    let folder = folders::cache()?.join("kafka-4.1.1-tools");
    if folder.is_dir() {
        return Ok(folder);
    }
    println!("fetching Kafka 4.1.1 by Maven (54 MB, once)");
    let part = folder.with_extension("part");
    drop(fs::remove_dir_all(&part));
    fs::create_dir_all(&part).explain(|| format!("cannot create {}", part.display()))?;
    let pom = part.join("pom.xml");
    fs::write(&pom, POM).explain(|| format!("cannot write {}", pom.display()))?;
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f"]).arg(&pom);
    maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
    run(maven.arg(format!("-DoutputDirectory={}", part.display())))?;
    // A folder under its final name is complete.
    fs::rename(&part, &folder).explain(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
