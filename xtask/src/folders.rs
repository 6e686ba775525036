//! Where the workspace is, and where things are kept between runs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Explain, Outcome};

/// The workspace's root folder.
pub fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Jars, and the note of services that were left up: under the build folder that this program runs from.
pub fn cache() -> Outcome<PathBuf> {
    let program = env::current_exe().explain(|| "the program's own path is unknown".to_owned())?;
    let target = program.ancestors().nth(2).unwrap_or_else(|| Path::new("target"));
    let folder = target.join("xtask");
    fs::create_dir_all(&folder).explain(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// Cargo, at the workspace's root: the one that runs this program, if one does.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace());
    forget_package(&mut command);
    command
}

/// Takes from a command what `cargo run` says of this program's own package. Build scripts watch these variables (ring's
/// does): with other values in them the next cargo compiles rustls, sqlx and all of ours once more.
pub fn forget_package(command: &mut Command) {
    let own = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
    for (name, _) in env::vars_os() {
        if own.iter().any(|begin| name.to_string_lossy().starts_with(begin)) {
            command.env_remove(name);
        }
    }
}

/// Whether this run must not pass anything over in silence (`CI=true`).
pub fn strict() -> bool {
    env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_not_told_which_package_calls_it() {
        assert!(env::var_os("CARGO_PKG_NAME").is_some(), "cargo tells it to tests");
        let command = cargo(&["build"]);
        let removed = command.get_envs().filter(|(_, value)| value.is_none());
        let names: Vec<_> = removed.map(|(name, _)| name).collect();
        assert!(names.contains(&"CARGO_PKG_NAME".as_ref()), "{names:?}");
    }
}
