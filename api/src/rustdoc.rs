//! The public items of crates, out of what rustdoc writes of them as JSON.
//!
//! That is a feature of unstable Rust, and the stable rustdoc has it behind `RUSTC_BOOTSTRAP`. The variable is set for
//! rustdoc alone: cargo would give it to build scripts, too, and compile half of all dependencies anew for it. So
//! this program stands in for rustdoc, and calls the real one.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde::Deserialize;
use serde_json::Value;

use xtask::command::run;
use xtask::failure::{Explain, Failure, Outcome, failure};
use xtask::folders::cargo;
use xtask::published::Published;

/// The format that `public-api` reads: the number behind the dot in its version of `rustdoc-types`.
const FORMAT: u32 = 57;

/// What rustdoc is asked for; its lints are looked at elsewhere.
const FLAGS: &str = "-Z unstable-options --output-format json --cap-lints allow";

/// Names the real rustdoc to the program that stands in for it.
const REAL: &str = "INBOX_API_RUSTDOC";

/// It compiles an OpenSSL, and adds no item.
const LEFT_OUT: &str = "tls-vendored";

/// What came of asking rustdoc.
#[derive(Debug)]
pub(crate) enum Listed {
    /// The items of each crate, by the package's name.
    Items(Vec<(String, Vec<String>)>),
    /// This rustdoc writes another format; a sentence about it.
    Foreign(String),
}

/// The first lines of what rustdoc writes.
#[derive(Deserialize, Debug)]
struct Head {
    format_version: u32,
}

/// Runs the real rustdoc where cargo called this program instead of it.
pub(crate) fn stand_in() -> Option<ExitCode> {
    let real = env::var_os(REAL)?;
    let mut rustdoc = Command::new(real);
    let status = rustdoc.args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    let success = status.is_ok_and(|status| status.success());
    Some(if success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Lists the items of these crates.
pub(crate) fn list(crates: &[Published], metadata: &Value) -> Outcome<Listed> {
    let folder = documents(metadata)?;
    let files: Vec<PathBuf> =
        crates.iter().map(|each| folder.join(format!("{}.json", each.library))).collect();
    document(crates)?;
    let mut listed = Vec::new();
    for (each, file) in crates.iter().zip(&files) {
        let reading = || format!("cannot read {}", file.display());
        let text = fs::read_to_string(file).explain(reading)?;
        let head: Head = serde_json::from_str(&text).explain(reading)?;
        if head.format_version != FORMAT {
            return Ok(Listed::Foreign(format!(
                "rustdoc of this Rust writes format {}, and public-api reads {FORMAT}; pin a version of it that fits \
                 in Cargo.toml, and write its format into api/src/rustdoc.rs",
                head.format_version
            )));
        }
        listed.push((each.name.clone(), items(file)?));
    }
    Ok(Listed::Items(listed))
}

fn items(file: &Path) -> Outcome<Vec<String>> {
    let builder = public_api::Builder::from_rustdoc_json(file);
    let built = builder.omit_blanket_impls(true).omit_auto_trait_impls(true).build();
    let api = built.explain(|| format!("cannot list the items of {}", file.display()))?;
    Ok(api.items().map(ToString::to_string).collect())
}

/// The folder that cargo gives documents.
fn documents(metadata: &Value) -> Outcome<PathBuf> {
    match metadata["target_directory"].as_str() {
        Some(folder) => Ok(Path::new(folder).join("doc")),
        None => failure("`cargo metadata` does not name the build folder"),
    }
}

/// Has rustdoc write of all of them at once, so that what they depend on is compiled once.
fn document(crates: &[Published]) -> Outcome {
    let myself = env::current_exe().explain(|| "the program's own path is unknown".to_owned())?;
    let mut command = cargo(&["doc", "--quiet", "--no-deps", "--lib"]);
    for each in crates {
        command.args(["--package", &each.name]);
        let features = each.features.iter().filter(|feature| *feature != LEFT_OUT);
        let features = features.map(|feature| format!("{}/{feature}", each.name));
        command.args(["--features", &features.collect::<Vec<_>>().join(",")]);
    }
    command.env("RUSTDOC", myself).env(REAL, real()?).env("RUSTDOCFLAGS", FLAGS);
    run(&mut command)
}

/// The rustdoc beside the compiler that cargo uses.
fn real() -> Outcome<PathBuf> {
    let mut command = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let output = command.args(["--print", "sysroot"]).output();
    let output = output.explain(|| "cannot run `rustc --print sysroot`".to_owned())?;
    let root = String::from_utf8(output.stdout)
        .map_err(|error| Failure(format!("the compiler's folder is no text: {error}")))?;
    Ok(Path::new(root.trim()).join("bin/rustdoc"))
}
