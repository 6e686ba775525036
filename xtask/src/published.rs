//! The crates of the workspace that are published.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::failure::{Explain, Outcome};
use crate::folders::cargo;

/// A crate of the workspace that may be published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The package's name.
    pub name: String,
    /// The package's version.
    pub version: String,
    /// Where its manifest is.
    pub folder: PathBuf,
    /// The library's name, as code has it.
    pub library: String,
    /// Its features, by name.
    pub features: Vec<String>,
}

impl Published {
    /// The folder that its package has everything in.
    pub fn root(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// The file of its package.
    pub fn file(&self) -> String {
        format!("{}.crate", self.root())
    }
}

/// What cargo knows of the workspace, dependencies aside.
pub fn metadata() -> Outcome<Value> {
    let doing = || "cannot read `cargo metadata`".to_owned();
    let mut command = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let output = command.output().explain(doing)?;
    serde_json::from_slice(&output.stdout).explain(doing)
}

/// Those without `publish = false`, by name.
pub fn published(metadata: &Value) -> Vec<Published> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let published = packages.filter(|package| package["publish"].is_null());
    let mut found: Vec<Published> = published.filter_map(read).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn read(package: &Value) -> Option<Published> {
    let targets = package["targets"].as_array().into_iter().flatten();
    let is_library = |target: &&Value| target["kind"][0] == "lib";
    let mut libraries = targets.filter(is_library);
    let features = package["features"].as_object().into_iter().flatten();
    Some(Published {
        name: package["name"].as_str()?.to_owned(),
        version: package["version"].as_str()?.to_owned(),
        folder: Path::new(package["manifest_path"].as_str()?).parent()?.to_path_buf(),
        library: libraries.next()?["name"].as_str()?.to_owned(),
        features: features.map(|(feature, _)| feature.clone()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_to_be_published_is_left_out() {
        let package = |name: &str, publish: Value| {
            json!({
                "name": name,
                "version": "1.0.0",
                "manifest_path": format!("/w/{name}/Cargo.toml"),
                "publish": publish,
                "targets": [
                    {"kind": ["bin"], "name": "program"},
                    {"kind": ["lib"], "name": format!("lib_{name}")},
                ],
                "features": {"default": [], "sqlite": []},
            })
        };
        let packages =
            [package("b", Value::Null), package("tests", json!([])), package("a", Value::Null)];
        let found = published(&json!({"packages": packages}));
        let names: Vec<&str> = found.iter().map(|published| published.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(found[0].library, "lib_a");
        assert_eq!(found[0].features, ["default", "sqlite"]);
    }
}
