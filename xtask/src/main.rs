//! The project's own commands: `cargo xtask …`. Nothing here needs a C compiler; see `toolchain`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program talks to its terminal"
)]

mod ablate;
mod api;
mod bench;
mod built;
mod ci;
mod debezium;
mod deny;
mod dist;
mod engine;
mod features;
mod fuzz;
mod lint;
mod manifests;
mod package;
mod program;
mod quickstart;
mod services;
mod site;
mod toolchain;
mod tools;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use xtask::failure::Outcome;
use xtask::folders;

/// The project's own commands.
#[derive(Parser, Debug)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// What has to pass for every push: format, lints, tests on real services, documentation.
    Test(ci::Choice),
    /// Everything: what `test` runs, and what takes long or fails rarely.
    Nightly,
    /// What of `test` needs no service.
    Check,
    /// The main job on this machine, with nothing installed.
    Quickstart(PassedOn),
    /// Compares the public items of each published crate with the lists in `api`.
    Api {
        /// Writes the lists anew instead.
        #[arg(long)]
        accept: bool,
    },
    /// Switches each rule of the protocol off: its tests must fail without it.
    Ablate(ablate::Choice),
    /// How fast events are handled and shipped, beside loops and limits written by hand; `--help` tells the options.
    #[command(disable_help_flag = true)]
    Bench(PassedOn),
    /// A real Debezium beside the relay, and in front of consumers; `--help` lists the commands.
    #[command(disable_help_flag = true)]
    Debezium(PassedOn),
    /// A bad deploy that parks events up to the limit, and the release after it; `--help` lists the options.
    #[command(disable_help_flag = true)]
    Deploy(PassedOn),
    /// Licences, bans and sources of what is linked, by cargo-deny, and advisories where their database can be had.
    Deny,
    /// Builds the programs as the image has them, stripped, tries them, and packs an archive of each for a release.
    Dist(dist::Choice),
    /// Faults against a consumer with its default configuration: how long until each is reported; `--help` lists the
    /// options.
    #[command(disable_help_flag = true)]
    Drill(Profiled),
    /// What the engine alone costs: deliveries a second; and instructions per delivery, also by each kind of handler.
    Engine,
    /// Inputs made up by libFuzzer for what reads bytes, from the corpus in `fuzz/corpus` on.
    Fuzz(fuzz::Choice),
    /// Builds the manifests for Kubernetes with kustomize and checks every field, by Go.
    Manifests,
    /// Packs every crate that is published, looks through the packages and compiles them.
    Package,
    /// Builds the documentation site with mdBook and checks every link of its pages.
    Site,
    /// A long run with killed and frozen consumers, judged by an independent checker; `--help` lists the options.
    #[command(disable_help_flag = true)]
    Soak(PassedOn),
    /// Relays that are killed and frozen, and databases that go back, while producers commit out of order, judged
    /// by a checker; `--help` lists the options.
    #[command(disable_help_flag = true)]
    RelayChaos(PassedOn),
    /// What polling for a relay's metrics costs the database beside many unsent rows; `--help` lists the options.
    #[command(disable_help_flag = true)]
    RelayReadings(PassedOn),
    /// How many events a second the HTTP intake accepts, beside a receiver written by hand; `--help` lists the
    /// options.
    #[command(disable_help_flag = true)]
    IntakeSpeed(PassedOn),
    /// How a relay delivers by HTTP: how fast, after an outage of the receiver, beside an event that always fails;
    /// `--help` lists the options.
    #[command(disable_help_flag = true)]
    RelayWebhooks(Profiled),
    /// Kafka and PostgreSQL on this machine, left running for work.
    Services {
        #[command(subcommand)]
        verb: ServicesVerb,
    },
    /// Stops services when the program that started them has ended.
    #[command(hide = true)]
    Keep { folder: PathBuf },
}

/// The arguments of a program that this one builds and runs.
#[derive(Args, Debug)]
struct PassedOn {
    /// Passed on to the program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// The same, built with the release profile.
#[derive(Args, Debug)]
struct Profiled {
    /// Another profile, which may be built already, for work on the program itself. Comes before all other options.
    #[arg(long, default_value = "release", hide = true)]
    profile: String,
    #[command(flatten)]
    passed_on: PassedOn,
}

#[derive(Subcommand, Debug)]
enum ServicesVerb {
    /// Start them, and say where they are.
    Up,
    /// Stop them, and remove their data.
    Down,
    /// Say where they are.
    Status,
    /// Say where they are as lines for a shell: `eval "$(cargo xtask services env)"`.
    Env,
    /// Find or start them, print what `env` does, and stop what was started when standard input ends.
    Hold,
    /// Create a topic.
    Topic {
        /// Its name.
        name: String,
        /// How many partitions it has.
        partitions: u16,
    },
}

fn main() -> ExitCode {
    let done = run(Arguments::parse().command);
    done.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        ExitCode::FAILURE
    })
}

fn run(verb: Verb) -> Outcome<ExitCode> {
    match verb {
        Verb::Test(choice) => return ci::push(choice),
        Verb::Nightly => return ci::nightly(),
        Verb::Check => return ci::check(),
        Verb::Quickstart(PassedOn { arguments }) => return quickstart::run(&arguments),
        Verb::Bench(PassedOn { arguments }) => return bench::run(&arguments),
        Verb::Ablate(choice) => return ablate::run(&choice),
        Verb::Fuzz(choice) => return fuzz::run(&choice),
        Verb::Debezium(passed_on) => return debezium::run(passed_on.arguments),
        Verb::Deploy(passed_on) => return program::run("deploy", "dev", &passed_on.arguments),
        Verb::Drill(Profiled { profile, passed_on }) => {
            return program::run("drill", &profile, &passed_on.arguments);
        }
        Verb::IntakeSpeed(passed_on) => {
            return program::run("intake-speed", "release", &passed_on.arguments);
        }
        Verb::RelayChaos(passed_on) => {
            return program::run("relay-chaos", "dev", &passed_on.arguments);
        }
        Verb::RelayReadings(passed_on) => {
            return program::run("relay-readings", "dev", &passed_on.arguments);
        }
        Verb::RelayWebhooks(Profiled { profile, passed_on }) => {
            return program::run("relay-webhooks", &profile, &passed_on.arguments);
        }
        Verb::Soak(passed_on) => return program::run("soak", "dev", &passed_on.arguments),
        Verb::Api { accept } => api::run(accept)?,
        Verb::Engine => engine::measure()?,
        Verb::Deny => deny::check()?,
        Verb::Dist(choice) => dist::build(choice)?,
        Verb::Manifests => manifests::check()?,
        Verb::Package => package::compile()?,
        Verb::Site => site::build()?,
        Verb::Services { verb: ServicesVerb::Up } => services::up()?,
        Verb::Services { verb: ServicesVerb::Down } => services::down()?,
        Verb::Services { verb: ServicesVerb::Status } => services::status()?,
        Verb::Services { verb: ServicesVerb::Env } => services::env()?,
        Verb::Services { verb: ServicesVerb::Hold } => services::hold()?,
        Verb::Services { verb: ServicesVerb::Topic { name, partitions } } => {
            services::topic(&name, partitions)?;
        }
        Verb::Keep { folder } => services::keep(&folder),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_program_are_passed_on() {
        let line = ["cargo xtask", "drill", "--profile", "dev", "--kills", "3", "kills", "--help"];
        let verb = Arguments::parse_from(line).command;
        let Verb::Drill(Profiled { profile, passed_on }) = verb else { panic!("{verb:?}") };
        assert_eq!(profile, "dev");
        assert_eq!(passed_on.arguments, ["--kills", "3", "kills", "--help"]);
        let verb = Arguments::parse_from(["cargo xtask", "deploy", "--rolling", "10"]).command;
        let Verb::Deploy(PassedOn { arguments }) = verb else { panic!("{verb:?}") };
        assert_eq!(arguments, ["--rolling", "10"]);
    }
}
