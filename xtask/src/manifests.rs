//! `cargo xtask manifests`: the manifests for Kubernetes are built by kustomize, and have no field that Kubernetes or the
//! Prometheus operator does not know.

use std::process::Command;

use xtask::command::capture;
use xtask::failure::{Outcome, failure};

use crate::folders::{cache, strict, workspace};

/// The Go program that builds and checks them, from the workspace's root.
const PROGRAM: &str = "deploy/kubernetes/check";

/// Kustomizations beside it. The example has the component `monitoring`.
const BUILT: [&str; 3] = ["../base", "../static-membership", "../example"];

/// Builds and checks all of them.
pub(crate) fn check() -> Outcome {
    if capture(Command::new("go").arg("version")).is_err() {
        let advice =
            "checking the manifests needs Go 1.21 or newer: install Debian's package golang";
        if strict() {
            return failure(advice);
        }
        println!("skipped: {advice}");
        return Ok(());
    }
    let caches = cache()?.join("go");
    let mut go = Command::new("go");
    go.args(["run", "."]).args(BUILT).current_dir(workspace().join(PROGRAM));
    go.env("GOMODCACHE", caches.join("modules")).env("GOCACHE", caches.join("build"));
    // Or nobody could remove the build folder.
    go.env("GOFLAGS", "-modcacherw -buildvcs=false");
    let manifests = capture(&mut go)?;
    let count = manifests.lines().filter(|line| *line == "---").count();
    println!("{count} manifests of {} kustomizations are as their types want them", BUILT.len());
    Ok(())
}
