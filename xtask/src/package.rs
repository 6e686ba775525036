//! `cargo xtask package`: what would be published is whole.
//!
//! Every crate that may be published is packed as a registry would get it, its contents are looked
//! through, and it is built from the package alone. What all is made of is written beside them.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use xtask::command::{capture, run};
use xtask::failure::{Explain, Outcome, failure};
use xtask::published::{Published, metadata, published};

use crate::folders::cargo;
use crate::sbom;
use crate::toolchain;

/// What every package holds, besides its sources.
const ALWAYS: [&str; 5] =
    ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs"];

/// A package carries nothing larger than this: what is larger is there by mistake.
const BYTES_MAX: u64 = 2 << 20;

/// Packs, looks through and builds.
pub(crate) fn run_all() -> Outcome {
    toolchain::ensure(toolchain::BUILD)?;
    toolchain::ensure(toolchain::TLS)?;
    let metadata = metadata()?;
    let crates = published(&metadata);
    let mut command = cargo(&["package", "--allow-dirty", "--quiet"]);
    // The workspace's profile, so that what features leave alone, such as sqlx, is not built once more for it.
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    command.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
    // With default features, as somebody who depends on it: a feature of one crate would be asked of those, too,
    // whose examples depend on that crate. librdkafka is compiled once more, without TLS.
    for package in &crates {
        command.args(["--package", &package.name]);
    }
    let target = target(&metadata)?;
    forget(&crates, &target)?;
    run(&mut command)?;
    let folder = target.join("package");
    for package in &crates {
        let file = folder.join(format!("{}-{}.crate", package.name, package.version));
        look_through(package, &file)?;
    }
    sbom::write()
}

/// Removes what cargo keeps of earlier packages of the same version. `cargo package` gives the
/// crates to each other through a registry in the build folder, whose packages it takes for
/// immutable as any registry's: what it unpacked and built of them once, it uses again.
fn forget(crates: &[Published], target: &Path) -> Outcome {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::home_dir().map(|user| user.join(".cargo")));
    // A registry that is a folder has no host, which is what the others' folders begin with.
    let unpacked = home.map(|home| entries(&home.join("registry/src"))).unwrap_or_default();
    let unpacked: Vec<DirEntry> =
        unpacked.into_iter().filter(|entry| name(entry).starts_with('-')).collect();
    let built = target.join("debug/.fingerprint");
    for package in crates {
        for registry in &unpacked {
            remove(&registry.path().join(format!("{}-{}", package.name, package.version)))?;
        }
        // A fingerprint's folder is the crate's name and a hash of hexadecimal digits.
        let start = format!("{}-", package.name);
        for entry in entries(&built) {
            let hash = name(&entry).strip_prefix(&start).map(str::to_owned);
            if hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit())) {
                remove(&entry.path())?;
            }
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Vec<DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten().collect()
}

fn name(entry: &DirEntry) -> String {
    entry.file_name().to_string_lossy().into_owned()
}

fn remove(folder: &Path) -> Outcome {
    if !folder.exists() {
        return Ok(());
    }
    fs::remove_dir_all(folder).explain(|| format!("cannot remove {}", folder.display()))
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
    let root = format!("{}-{}/", package.name, package.version);
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
    fn migrations_behind_a_link_are_seen() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../inbox-store");
        let package = Published { folder, ..Published::default() };
        let found = migrations(&package);
        assert!(found.contains(&"migrations/postgres/0001_inbox.sql".to_owned()), "{found:?}");
    }
}
