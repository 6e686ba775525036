//! `cargo xtask sbom`: what the two programs of a release are made of, as a `CycloneDX` document.
//!
//! It has no time and no number of its own, so that the same tree gives the same file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use xtask::failure::{Explain, Failure, Outcome, failure};

use crate::folders::{cargo, workspace};

/// Beside the packages, below the build folder.
const FILE: &str = "package/inbox.cdx.json";

/// The packages of the two programs, and the features that the Dockerfile builds them with.
const PROGRAMS: [&str; 2] = ["inbox-consumer", "inbox-outbox-relay"];
const FEATURES: &str = "inbox-consumer/sqlite,inbox-consumer/tls,inbox-consumer/otlp,\
    inbox-consumer/jemalloc,inbox-outbox-relay/tls,inbox-outbox-relay/otlp,\
    inbox-outbox-relay/webhook,inbox-outbox-relay/debezium";

/// What the image runs on; other systems' crates are not in it.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// A library in C that a crate carries and builds.
#[derive(Debug)]
struct Bundled {
    by: &'static str,
    name: &'static str,
    purl: &'static str,
    license: &'static str,
    version: Said,
}

/// Where the crate says which version it carries.
#[derive(Debug)]
enum Said {
    /// Behind the `+` of its own version, and behind this.
    Version(&'static str),
    /// A file of it, and what is defined there.
    Header(&'static str, &'static str),
}

const BUNDLED: [Bundled; 5] = [
    Bundled {
        by: "rdkafka-sys",
        name: "librdkafka",
        purl: "pkg:github/confluentinc/librdkafka@v",
        license: "BSD-2-Clause",
        version: Said::Version(""),
    },
    Bundled {
        by: "libsqlite3-sys",
        name: "sqlite",
        purl: "pkg:generic/sqlite@",
        license: "blessing",
        version: Said::Header("sqlite3/sqlite3.h", "SQLITE_VERSION"),
    },
    Bundled {
        by: "zstd-sys",
        name: "zstd",
        purl: "pkg:github/facebook/zstd@v",
        license: "BSD-3-Clause OR GPL-2.0-only",
        version: Said::Version("zstd."),
    },
    Bundled {
        by: "libz-sys",
        name: "zlib",
        purl: "pkg:generic/zlib@",
        license: "Zlib",
        version: Said::Header("src/zlib/zlib.h", "ZLIB_VERSION"),
    },
    Bundled {
        by: "tikv-jemalloc-sys",
        name: "jemalloc",
        purl: "pkg:github/jemalloc/jemalloc@",
        license: "BSD-2-Clause",
        version: Said::Version(""),
    },
];

/// Writes the document.
pub(crate) fn write() -> Outcome {
    let doing = || "cannot read `cargo metadata`".to_owned();
    let output = cargo(&["metadata", "--locked", "--format-version", "1"])
        .args(["--features", FEATURES, "--filter-platform", PLATFORM])
        .output()
        .explain(doing)?;
    if !output.status.success() {
        return failure(format!("{}: {}", doing(), String::from_utf8_lossy(&output.stderr).trim()));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).explain(doing)?;
    let lock = fs::read_to_string(workspace().join("Cargo.lock"))
        .explain(|| "cannot read Cargo.lock".to_owned())?;
    let read = |path: &Path| {
        fs::read_to_string(path).explain(|| format!("cannot read {}", path.display()))
    };
    let document = document(&metadata, &checksums(&lock), &read)?;
    let Some(target) = metadata["target_directory"].as_str() else {
        return failure("`cargo metadata` does not name the build folder");
    };
    let file = Path::new(target).join(FILE);
    let writing = || format!("cannot write {}", file.display());
    fs::create_dir_all(file.parent().unwrap_or(&file)).explain(writing)?;
    let text = serde_json::to_string_pretty(&document).explain(writing)?;
    fs::write(&file, text + "\n").explain(writing)?;
    let parts = document["components"].as_array().map_or(0, Vec::len);
    println!("{parts} components in {}", file.display());
    Ok(())
}

/// Of each package in Cargo.lock that a registry gives, by name and version.
fn checksums<'a>(lock: &'a str) -> BTreeMap<(&'a str, &'a str), &'a str> {
    let one = |package: &'a str| {
        Some(((named(package, "name")?, named(package, "version")?), named(package, "checksum")?))
    };
    lock.split("[[package]]").skip(1).filter_map(one).collect()
}

/// The text of a key of Cargo.lock.
fn named<'a>(package: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = package.lines().filter_map(|line| line.split_once(" = \""));
    lines.find(|(name, _)| *name == key).map(|(_, text)| text.trim_end_matches('"'))
}

/// The whole document: every package that the programs are linked from or built by, and what is in them in C.
fn document(
    metadata: &Value,
    checksums: &BTreeMap<(&str, &str), &str>,
    read: &dyn Fn(&Path) -> Outcome<String>,
) -> Outcome<Value> {
    let packages: BTreeMap<&str, &Value> =
        each(&metadata["packages"]).map(|package| (text(&package["id"]), package)).collect();
    let needs: BTreeMap<&str, Vec<&str>> =
        each(&metadata["resolve"]["nodes"]).map(|node| (text(&node["id"]), needed(node))).collect();
    let roots = packages.iter().filter(|(_, package)| PROGRAMS.contains(&text(&package["name"])));
    let (mut open, programs): (Vec<&str>, Vec<String>) =
        roots.map(|(id, package)| (*id, purl(package))).unzip();
    if open.len() != PROGRAMS.len() {
        return failure(format!("`cargo metadata` does not know all of {}", PROGRAMS.join(", ")));
    }
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            open.extend(needs.get(id).into_iter().flatten());
        }
    }
    let mut parts = Vec::new();
    let mut edges = vec![json!({"ref": "inbox", "dependsOn": programs})];
    for id in reached {
        let package = *packages
            .get(id)
            .ok_or_else(|| Failure(format!("`cargo metadata` does not describe {id}")))?;
        let below = needs.get(id).into_iter().flatten().filter_map(|id| packages.get(id));
        let mut below: BTreeSet<String> = below.map(|package| purl(package)).collect();
        parts.push(component(package, checksums));
        for library in BUNDLED.iter().filter(|library| package["name"] == library.by) {
            let part = library.component(package, read)?;
            below.insert(text(&part["purl"]).to_owned());
            edges.push(json!({"ref": part["purl"], "dependsOn": []}));
            parts.push(part);
        }
        edges.push(json!({"ref": purl(package), "dependsOn": below}));
    }
    parts.sort_by(|a, b| text(&a["bom-ref"]).cmp(text(&b["bom-ref"])));
    let version = each(&metadata["packages"]).find(|package| package["name"] == PROGRAMS[0]);
    let version = version.map_or("", |package| text(&package["version"]));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component":
            {"type": "application", "bom-ref": "inbox", "name": "inbox", "version": version}},
        "components": parts,
        "dependencies": edges,
    }))
}

/// What a node is linked from or built by; not what its tests alone take.
fn needed(node: &Value) -> Vec<&str> {
    let shipped = |one: &&Value| each(&one["dep_kinds"]).any(|kind| kind["kind"] != "dev");
    each(&node["deps"]).filter(shipped).map(|one| text(&one["pkg"])).collect()
}

fn component(package: &Value, checksums: &BTreeMap<(&str, &str), &str>) -> Value {
    let (name, version) = (text(&package["name"]), text(&package["version"]));
    let mut part = json!({
        "type": "library",
        "bom-ref": purl(package),
        "name": name,
        "version": version,
        "purl": purl(package),
    });
    // Older manifests say `MIT/Apache-2.0`, which is no expression.
    if let Some(license) = package["license"].as_str() {
        part["licenses"] = json!([{"expression": license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")}]);
    }
    if let Some(sum) = checksums.get(&(name, version)) {
        part["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    part
}

fn purl(package: &Value) -> String {
    // A version's `+` is one of the letters that a package URL writes as a number.
    let version = text(&package["version"]).replace('+', "%2B");
    format!("pkg:cargo/{}@{version}", text(&package["name"]))
}

impl Bundled {
    fn component(
        &self,
        package: &Value,
        read: &dyn Fn(&Path) -> Outcome<String>,
    ) -> Outcome<Value> {
        let Some(version) = self.version(package, read)? else {
            let (name, by) = (self.name, self.by);
            return failure(format!("{by} does not say where it did which {name} it carries"));
        };
        let purl = format!("{}{version}", self.purl);
        Ok(json!({
            "type": "library",
            "bom-ref": purl,
            "name": self.name,
            "version": version,
            "purl": purl,
            "licenses": [{"expression": self.license}],
        }))
    }

    fn version(
        &self,
        package: &Value,
        read: &dyn Fn(&Path) -> Outcome<String>,
    ) -> Outcome<Option<String>> {
        match self.version {
            Said::Version(before) => {
                let behind = text(&package["version"]).split_once('+');
                let version = behind.and_then(|(_, behind)| behind.strip_prefix(before));
                Ok(version.map(str::to_owned))
            }
            Said::Header(file, define) => {
                let folder = Path::new(text(&package["manifest_path"])).parent();
                let header = read(&folder.unwrap_or(Path::new("")).join(file))?;
                let defined = |line: &str| -> Option<String> {
                    let (name, value) = line.strip_prefix("#define ")?.split_once(' ')?;
                    (name == define).then(|| value.trim().trim_matches('"').to_owned())
                };
                Ok(header.lines().find_map(defined))
            }
        }
    }
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"rdkafka-sys\"\nversion = \"4.10.0+2.12.1\"\n\
        source = \"registry+x\"\nchecksum = \"c0ffee\"\ndependencies = [\n \"libz-sys\",\n]\n\n\
        [[package]]\nname = \"inbox-consumer\"\nversion = \"0.1.0\"\n";

    fn metadata() -> Value {
        let package = |id: &str, name: &str, version: &str| {
            json!({"id": id, "name": name, "version": version, "license": "MIT/Apache-2.0",
                "manifest_path": format!("/r/{name}/Cargo.toml")})
        };
        let on = |pkg: &str, kind: Option<&str>| json!({"pkg": pkg, "dep_kinds": [{"kind": kind}]});
        json!({
            "packages": [
                package("c", "inbox-consumer", "0.1.0"), package("r", "inbox-outbox-relay", "0.1.0"),
                package("k", "rdkafka-sys", "4.10.0+2.12.1"), package("z", "libz-sys", "1.1.0"),
                package("t", "only-in-tests", "1.0.0"), package("b", "builds", "1.0.0"),
            ],
            "resolve": {"nodes": [
                {"id": "c", "deps": [on("k", None), on("t", Some("dev"))]},
                {"id": "r", "deps": [on("k", None)]},
                {"id": "k", "deps": [on("z", None), on("b", Some("build"))]},
                {"id": "z", "deps": []}, {"id": "t", "deps": []}, {"id": "b", "deps": []},
            ]},
        })
    }

    const HEADER: &str = "#define ZLIB_VERNUM 0x1320\n#define ZLIB_VERSION \"1.3.2\"\n";

    #[test]
    fn a_document_names_what_is_shipped_with_licence_and_checksum() {
        let document = document(&metadata(), &checksums(LOCK), &|_| Ok(HEADER.to_owned())).unwrap();
        assert_eq!(
            (&document["bomFormat"], &document["specVersion"]),
            (&json!("CycloneDX"), &json!("1.5"))
        );
        let purls: Vec<&str> =
            each(&document["components"]).map(|part| text(&part["purl"])).collect();
        assert_eq!(
            purls,
            [
                "pkg:cargo/builds@1.0.0",
                "pkg:cargo/inbox-consumer@0.1.0",
                "pkg:cargo/inbox-outbox-relay@0.1.0",
                "pkg:cargo/libz-sys@1.1.0",
                "pkg:cargo/rdkafka-sys@4.10.0%2B2.12.1",
                "pkg:generic/zlib@1.3.2",
                "pkg:github/confluentinc/librdkafka@v2.12.1",
            ]
        );
        assert_eq!(
            document["components"][4],
            json!({
                "type": "library",
                "bom-ref": purls[4],
                "name": "rdkafka-sys",
                "version": "4.10.0+2.12.1",
                "purl": purls[4],
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
                "hashes": [{"alg": "SHA-256", "content": "c0ffee"}],
            })
        );
        let edge = each(&document["dependencies"]).find(|edge| edge["ref"] == purls[4]).unwrap();
        assert_eq!(edge["dependsOn"], json!([purls[0], purls[3], purls[6]]));
    }

    #[test]
    fn a_library_whose_version_is_not_said_is_an_error() {
        let Failure(said) =
            document(&metadata(), &checksums(LOCK), &|_| Ok(String::new())).unwrap_err();
        assert_eq!(said, "libz-sys does not say where it did which zlib it carries");
    }
}
