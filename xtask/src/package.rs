//! `cargo xtask package`: what would be published is whole.
//!
//! Every crate that may be published is packed as a registry would get it, its contents are looked
//! through, and it is compiled from the package alone.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use xtask::command::{capture, run};
use xtask::failure::{Explain, Outcome, failure};
use xtask::published::{Published, metadata, published};

use crate::folders::{cargo, workspace};
use crate::toolchain;

/// What every package holds, besides its sources.
const ALWAYS: [&str; 5] =
    ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs"];

/// A package carries nothing larger than this: what is larger is there by mistake.
const BYTES_MAX: u64 = 2 << 20;

/// Packs every crate, and compares what its package holds with what it has to hold.
pub(crate) fn check_contents() -> Outcome {
    let metadata = metadata()?;
    let crates = published(&metadata);
    let lost = without_addresses(&metadata);
    if !lost.is_empty() {
        return failure(lost.join("\n"));
    }
    let mut command = cargo(&["package", "--allow-dirty", "--quiet", "--no-verify"]);
    for package in &crates {
        command.args(["--package", &package.name]);
    }
    run(&mut command)?;
    let folder = target(&metadata)?.join("package");
    crates.iter().try_for_each(|package| look_through(package, &folder.join(package.file())))
}

/// Where a registry sends readers: published crates that lack an address.
fn without_addresses(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let published = packages.filter(|package| package["publish"].is_null());
    let lacking = published.flat_map(|package| {
        let name = package["name"].as_str().unwrap_or_default();
        let own = format!("https://docs.rs/{name}");
        let wrong = (package["documentation"] != own.as_str())
            .then(|| format!("{name}: `documentation` is not {own}"));
        let absent = ["homepage", "repository"].into_iter().filter(|key| package[*key].is_null());
        absent.map(move |key| format!("{name} has no `{key}`")).chain(wrong)
    });
    lacking.collect()
}

/// Compiles every crate out of its package alone. Not by cargo, which would compile others' crates once for each.
pub(crate) fn compile() -> Outcome {
    toolchain::ensure(toolchain::BUILD)?;
    toolchain::ensure(toolchain::TLS)?;
    check_contents()?;
    let metadata = metadata()?;
    let target = target(&metadata)?;
    unpack_and_check(&published(&metadata), &target.join("package"), &target)
}

/// Unpacks them as a workspace of nothing else, and lets cargo check that. With the lock file, the profile and the build
/// folder of the workspace, so that what they depend on is there already.
fn unpack_and_check(crates: &[Published], folder: &Path, target: &Path) -> Outcome {
    let unpacked = folder.join("unpacked");
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked)
            .explain(|| format!("cannot remove {}", unpacked.display()))?;
    }
    fs::create_dir_all(&unpacked).explain(|| format!("cannot create {}", unpacked.display()))?;
    for package in crates {
        let file = folder.join(package.file());
        // With the time of now: that in the archive is always the same, and Cargo would take what it compiled of an
        // earlier package for this one.
        run(Command::new("tar").arg("-xzmf").arg(file).arg("-C").arg(&unpacked))?;
    }
    let read = |name: &str| {
        let file = workspace().join(name);
        fs::read_to_string(&file).explain(|| format!("cannot read {}", file.display()))
    };
    let write = |name: &str, text: &str| {
        let file = unpacked.join(name);
        fs::write(&file, text).explain(|| format!("cannot write {}", file.display()))
    };
    write("Cargo.toml", &manifest(crates, &read("Cargo.toml")?))?;
    write("Cargo.lock", &read("Cargo.lock")?)?;
    let mut check = cargo(&["check", "--quiet", "--workspace", "--features"]);
    // As everywhere in these tests, so that the Kafka client is there already.
    check.arg("inbox-consumer/tls,inbox-outbox-relay/tls").arg("--target-dir").arg(target);
    run(check.current_dir(&unpacked))
}

/// The manifest of a workspace of packages that take each other for those of the registry, with the profiles of ours.
fn manifest(crates: &[Published], ours: &str) -> String {
    let profiles = ours.find("[profile").map_or("", |at| &ours[at..]);
    let line =
        |package: &Published| format!("{} = {{ path = \"{}\" }}\n", package.name, package.root());
    let patches: String = crates.iter().map(line).collect();
    format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n[patch.crates-io]\n{patches}\n{profiles}"
    )
}

fn entries(folder: &Path) -> Vec<DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten().collect()
}

fn target(metadata: &Value) -> Outcome<PathBuf> {
    match metadata["target_directory"].as_str() {
        Some(folder) => Ok(folder.into()),
        None => failure("`cargo metadata` does not name the build folder"),
    }
}

fn look_through(package: &Published, file: &Path) -> Outcome {
    let size = file.metadata().explain(|| format!("cannot read {}", file.display()))?.len();
    let list = capture(Command::new("tar").arg("-tzf").arg(file))?;
    let root = format!("{}/", package.root());
    let inside: BTreeSet<&str> = list.lines().filter_map(|line| line.strip_prefix(&root)).collect();
    let expected = ALWAYS.iter().map(|name| (*name).to_owned()).chain(migrations(package));
    let absent: Vec<String> = expected.filter(|name| !inside.contains(name.as_str())).collect();
    if !absent.is_empty() {
        return failure(format!("the package {} lacks {}", package.name, absent.join(", ")));
    }
    if size > BYTES_MAX {
        return failure(format!("the package {} has {size} bytes; look into it", package.name));
    }
    println!("{:<20} {:>4} files {:>5} KiB", package.name, inside.len(), size / 1024);
    Ok(())
}

/// The migrations that the crate's folder shows; a link to the workspace's is as good as files.
fn migrations(package: &Published) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![package.folder.join("migrations")];
    while let Some(folder) = folders.pop() {
        for entry in entries(&folder) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "sql")
                && let Ok(below) = path.strip_prefix(&package.folder)
            {
                found.push(below.display().to_string());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_without_addresses_are_seen() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "a", "publish": null, "homepage": "h", "documentation": "https://docs.rs/b" },
            { "name": "c", "publish": [] },
        ]});
        let found = without_addresses(&metadata);
        assert_eq!(found, ["a has no `repository`", "a: `documentation` is not https://docs.rs/a"]);
    }

    #[test]
    fn migrations_behind_a_link_are_seen() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../inbox-store");
        let package = Published { folder, ..Published::default() };
        let found = migrations(&package);
        assert!(found.contains(&"migrations/postgres/0001_inbox.sql".to_owned()), "{found:?}");
    }
}
