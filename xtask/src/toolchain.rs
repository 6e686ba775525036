//! What must be installed, and installing it where that is allowed.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use xtask::command::{capture, find, root, run};
use xtask::failure::{Failure, Outcome};
use xtask::server::{pgbouncer_program, postgres_binaries};

use crate::folders::strict;

/// Something that a command needs from the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    Chromium,
    CompilerCpp,
    Make,
    Perl,
    Java,
    Maven,
    OpenSsl,
    OpenSslProgram,
    PgBouncer,
    PkgConfig,
    Postgres,
}

/// What building needs: librdkafka and SQLite are compiled from source.
pub(crate) const BUILD: &[Need] = &[Need::CompilerCpp, Need::Make, Need::Perl];

/// What building with TLS needs, besides, and what makes the certificates of tests. All tests are one build, so
/// that librdkafka is compiled once.
pub(crate) const TLS: &[Need] = &[Need::PkgConfig, Need::OpenSsl, Need::OpenSslProgram];

/// What running the real services needs, besides.
pub(crate) const SERVICES: &[Need] = &[Need::Java, Need::Maven, Need::PgBouncer, Need::Postgres];

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chromium => "Chromium",
            Self::CompilerCpp => "a C++ compiler",
            Self::Make => "make",
            Self::Perl => "perl",
            Self::Java => "Java 17 or newer",
            Self::Maven => "Maven",
            Self::OpenSsl => "OpenSSL's headers",
            Self::OpenSslProgram => "openssl",
            Self::PkgConfig => "pkg-config",
            Self::PgBouncer => "PgBouncer",
            Self::Postgres => "the PostgreSQL server",
        })
    }
}

impl Need {
    fn met(self) -> bool {
        match self {
            Self::Chromium => browser().is_some(),
            Self::CompilerCpp => env::var_os("CXX").is_some() || any(&["c++", "g++", "clang++"]),
            Self::Make => any(&["make", "gmake"]),
            Self::Perl => any(&["perl"]),
            Self::Java => java_major().is_some_and(|major| major >= 17),
            Self::Maven => any(&["mvn"]),
            Self::OpenSsl => {
                capture(Command::new("pkg-config").args(["--exists", "openssl"])).is_ok()
            }
            Self::OpenSslProgram => any(&["openssl"]),
            Self::PgBouncer => pgbouncer_program().is_some(),
            Self::PkgConfig => any(&["pkg-config"]),
            Self::Postgres => postgres_binaries().is_some(),
        }
    }

    /// The package for apt.
    fn apt(self) -> &'static str {
        match self {
            Self::Chromium => "chromium",
            Self::CompilerCpp => "g++",
            Self::Make => "make",
            Self::Perl => "perl",
            Self::Java => "default-jre-headless",
            Self::Maven => "maven",
            Self::OpenSsl => "libssl-dev",
            Self::OpenSslProgram => "openssl",
            Self::PkgConfig => "pkg-config",
            Self::PgBouncer => "pgbouncer",
            Self::Postgres => "postgresql",
        }
    }

    /// The package for Homebrew.
    fn brew(self) -> &'static str {
        match self {
            Self::CompilerCpp => "llvm",
            Self::Java => "openjdk",
            Self::OpenSsl => "openssl",
            other => other.apt(),
        }
    }
}

fn any(programs: &[&str]) -> bool {
    programs.iter().any(|program| find(program).is_some())
}

/// `openjdk version "17.0.15" …` is 17; before 9 it was "1.8".
fn java_major() -> Option<u32> {
    let text = capture(Command::new("java").arg("-version")).ok()?;
    let version = text.split('"').nth(1)?;
    version.split(['.', '-']).next()?.parse().ok()
}

/// Sees to it that all of these are there: installs what is missing (as root, with apt), or fails
/// with the one line to type.
pub(crate) fn ensure(needs: &[Need]) -> Outcome {
    let absent = missing(needs);
    if absent.is_empty() {
        return Ok(());
    }
    if root() && find("apt-get").is_some() {
        install(&absent)?;
    }
    let absent = missing(needs);
    if absent.is_empty() { Ok(()) } else { Err(advice(&absent)) }
}

/// The browser that the site's pages are tried in.
pub(crate) fn browser() -> Option<PathBuf> {
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(find)
}

fn missing(needs: &[Need]) -> Vec<Need> {
    needs.iter().copied().filter(|need| !need.met()).collect()
}

fn install(absent: &[Need]) -> Outcome {
    let packages: Vec<&str> = absent.iter().map(|need| need.apt()).collect();
    println!("installing {} with apt", packages.join(", "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-qq", "-y", "-o", "Dpkg::Use-Pty=0"]).args(arguments);
        run(command.env("DEBIAN_FRONTEND", "noninteractive"))
    };
    // Package lists may be old, or never fetched; without a network the ones at hand may do.
    if let Err(failure) = apt(&["update"]) {
        println!("{failure}; going on with the package lists that are here");
    }
    let mut arguments = vec!["install", "--no-install-recommends"];
    arguments.extend(packages);
    apt(&arguments)
}

/// Names what is missing and the line that installs it.
fn advice(absent: &[Need]) -> Failure {
    let names: Vec<String> = absent.iter().map(ToString::to_string).collect();
    let packages = |of: fn(Need) -> &'static str| {
        absent.iter().map(|need| of(*need)).collect::<Vec<_>>().join(" ")
    };
    let line = if find("brew").is_some() {
        format!("brew install {}", packages(Need::brew))
    } else if root() {
        format!("apt-get install -y {}", packages(Need::apt))
    } else {
        format!("sudo apt-get install -y {}", packages(Need::apt))
    };
    Failure(format!("missing: {}. Type:\n\n    {line}\n\nand start again.", names.join(", ")))
}

/// The folder of PostgreSQL's programs. Ask only after [`ensure`].
pub(crate) fn postgres_programs() -> Outcome<PathBuf> {
    postgres_binaries().ok_or_else(|| advice(&[Need::Postgres]))
}

/// What to do about services that cannot be had: under `CI=true` that is an error, elsewhere their
/// tests are skipped by name.
pub(crate) fn services() -> Outcome<Option<Failure>> {
    match ensure(SERVICES) {
        Ok(()) => Ok(None),
        Err(failure) if strict() => Err(failure),
        Err(failure) => Ok(Some(failure)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_what_is_missing_and_the_line_to_type() {
        let Failure(text) = advice(&[Need::CompilerCpp, Need::Make]);
        assert!(text.contains("a C++ compiler, make"), "{text}");
        assert!(text.contains(" install ") && text.contains("make"), "{text}");
    }
}
