//! `cargo xtask dist`: the programs as the image has them, and the archives of a release that `cargo binstall` reads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use xtask::command::{capture, run};
use xtask::failure::{Explain, Outcome, failure};

use crate::folders::{cache, forget_package, workspace};
use crate::toolchain;
use crate::tools::DEB;

/// What builds them, here and in the Dockerfile. From the workspace's root.
const SCRIPT: &str = "deploy/image/build.sh";

/// A larger program was not stripped.
const BYTES_MAX: u64 = 48 << 20;

/// The exit code of a program that refuses its configuration, as one built without a feature does.
const REFUSED: i32 = 2;

/// A program, its crate, and a configuration that a build lacking one of the documented features refuses.
struct Program {
    name: &'static str,
    package: &'static str,
    configuration: &'static str,
}

const PROGRAMS: [Program; 2] = [
    Program {
        name: "inbox-consumer",
        package: "inbox-consumer",
        configuration: r#"
            consumer.name = "c"
            database.url = "sqlite:{folder}/c.db"
            intake.listen = "127.0.0.1:0"
            schemas = { registry = "http://127.0.0.1:1", topics = ["t"] }
            traces.endpoint = "http://127.0.0.1:1"
            kafka = { bootstrap = "127.0.0.1:1", topics = ["t"], security_protocol = "ssl" }
            [[handlers]]
            event_type = "E"
            columns = { n = "int8" }
            sql = "INSERT INTO t SELECT e.n FROM events e"
        "#,
    },
    Program {
        name: "outbox-relay",
        package: "inbox-outbox-relay",
        configuration: r#"
            database.url = "sqlite:{folder}/r.db"
            traces.endpoint = "http://127.0.0.1:1"
            kafka = { bootstrap = "127.0.0.1:1", topic = "t", security_protocol = "ssl" }
            [[webhooks]]
            name = "w"
            url = "http://127.0.0.1:1"
            [[routes]]
            to = "w"
        "#,
    },
];

/// What else is built.
#[derive(clap::Args, Clone, Copy, Default, Debug)]
pub(crate) struct Choice {
    /// Debian packages, too; cargo-deb is compiled first where it is missing
    #[arg(long)]
    deb: bool,
}

/// Builds both, tries them, and packs each.
pub(crate) fn build(choice: Choice) -> Outcome {
    toolchain::ensure(toolchain::BUILD)?;
    toolchain::ensure(toolchain::TLS)?;
    let folder = cache()?.join("dist");
    let mut script = Command::new(workspace().join(SCRIPT));
    script.arg(&folder).current_dir(workspace());
    forget_package(&mut script);
    run(&mut script)?;
    for program in &PROGRAMS {
        program.try_out(&folder)?;
        program.write_pages(&folder)?;
        let archive = program.pack(&folder)?;
        let size = fs::metadata(&archive).map_or(0, |file| file.len()) >> 10;
        println!("{} ({size} KiB)", archive.display());
        if choice.deb {
            program.package(&folder)?;
        }
    }
    Ok(())
}

impl Program {
    /// It is small, links to nothing that the image lacks, and has every feature that its configuration asks for.
    fn try_out(&self, folder: &Path) -> Outcome {
        let file = folder.join(self.name);
        let size = file.metadata().explain(|| format!("cannot read {}", file.display()))?.len();
        if size > BYTES_MAX {
            return failure(format!("{} has {size} bytes; is it stripped?", file.display()));
        }
        let linked = capture(Command::new("ldd").arg(&file))?;
        if let Some(strange) = linked.lines().find(|line| !is_in_the_image(line)) {
            return failure(format!("{} links to {}", self.name, strange.trim()));
        }
        let configuration = folder.join(format!("{}.toml", self.name));
        let text = self.configuration.replace("{folder}", &folder.display().to_string());
        fs::write(&configuration, text)
            .explain(|| format!("cannot write {}", configuration.display()))?;
        let mut check = Command::new(&file);
        check.arg("check").arg("--config").arg(&configuration).env_clear();
        let output = check.stdin(Stdio::null()).output();
        let output = output.explain(|| format!("cannot run {}", file.display()))?;
        if output.status.code().is_none_or(|code| code == REFUSED) {
            return failure(format!(
                "{} check: {}",
                self.name,
                told(output.status, &output.stderr)
            ));
        }
        Ok(())
    }

    /// Its manual pages, which the Debian package installs.
    fn write_pages(&self, folder: &Path) -> Outcome {
        let pages = folder.join("man");
        fs::create_dir_all(&pages).explain(|| format!("cannot create {}", pages.display()))?;
        capture(Command::new(folder.join(self.name)).arg("man").arg(&pages)).map(drop)
    }

    /// The package for Debian, as `[package.metadata.deb]` of the crate says; dpkg has to be able to read it.
    fn package(&self, folder: &Path) -> Outcome {
        let file = folder.join(format!("{}.deb", self.name));
        let mut deb = Command::new(DEB.find_or_install()?);
        deb.args(["--no-build", "--no-strip", "--package", self.package, "--output"]).arg(&file);
        run(deb.current_dir(workspace()))?;
        let listed = capture(Command::new("dpkg-deb").arg("--contents").arg(&file))?;
        let name = self.name;
        for path in [
            format!("/usr/bin/{name}"),
            format!("/usr/share/man/man1/{name}.1"),
            format!("/usr/lib/systemd/system/{name}@.service"),
        ] {
            if !listed.contains(&path) {
                return failure(format!("{} lacks {path}:\n{listed}", file.display()));
            }
        }
        println!("{}", file.display());
        Ok(())
    }

    /// The archive of a release, named as `[package.metadata.binstall]` of the crate says.
    fn pack(&self, folder: &Path) -> Outcome<PathBuf> {
        let rustc = capture(Command::new("rustc").arg("-vV"))?;
        let target = rustc.lines().find_map(|line| line.strip_prefix("host: "));
        let Some(target) = target else { return failure("rustc does not name its target") };
        let root = format!("{}-{}-{target}", self.package, env!("CARGO_PKG_VERSION"));
        let inside = folder.join(&root);
        fs::create_dir_all(&inside).explain(|| format!("cannot create {}", inside.display()))?;
        let sources = ["LICENSE-APACHE", "LICENSE-MIT"].map(|name| workspace().join(name));
        for source in sources.into_iter().chain([folder.join(self.name)]) {
            let to = inside.join(source.file_name().unwrap_or_default());
            fs::copy(&source, &to).explain(|| format!("cannot copy {}", source.display()))?;
        }
        let archive = folder.join(format!("{root}.tar.gz"));
        run(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(folder).arg(&root))?;
        Ok(archive)
    }
}

/// A library of Debian's base system, or of the packages that the Dockerfile installs.
fn is_in_the_image(line: &str) -> bool {
    const LIBRARIES: [&str; 8] = [
        "libc.so.",
        "libcrypto.so.3",
        "libgcc_s.so.",
        "libm.so.",
        "libssl.so.3",
        "libstdc++.so.",
        "linux-vdso",
        "ld-linux",
    ];
    line.trim().is_empty() || LIBRARIES.iter().any(|library| line.contains(library))
}

fn told(status: ExitStatus, error: &[u8]) -> String {
    format!("{status}: {}", String::from_utf8_lossy(error).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_named_as_the_manifests_say() {
        for program in &PROGRAMS {
            let folder =
                if program.name == "outbox-relay" { "outbox-relay" } else { program.package };
            let manifest = workspace().join(folder).join("Cargo.toml");
            let manifest = fs::read_to_string(manifest).unwrap();
            let section = manifest.split_once("[package.metadata.binstall]\n").unwrap().1;
            assert!(section.contains("{ name }-{ version }-{ target }.tar.gz"), "{section}");
            assert!(section.contains("{ name }-{ version }-{ target }/{ bin }"), "{section}");
        }
    }

    #[test]
    fn libraries_that_the_image_lacks_are_seen() {
        assert!(is_in_the_image("\tlibssl.so.3 => /lib/x86_64-linux-gnu/libssl.so.3 (0x00007f)"));
        assert!(!is_in_the_image(
            "\tlibsasl2.so.2 => /lib/x86_64-linux-gnu/libsasl2.so.2 (0x00007f)"
        ));
    }
}
