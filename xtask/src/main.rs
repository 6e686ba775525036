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
mod debezium;
mod deny;
mod deploy;
mod drill;
mod engine;
mod features;
mod fuzz;
mod intake_speed;
mod package;
mod program;
mod quickstart;
mod relay_chaos;
mod relay_readings;
mod relay_speed;
mod relay_webhooks;
mod sbom;
mod services;
mod soak;
mod tally;
mod test;
mod toolchain;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Everything: format, lints, every test on real services, documentation.
    Test(test::Choice),
    /// What needs no service: format, lints, tests, documentation.
    Check,
    /// The main job on this machine, with nothing installed.
    Quickstart {
        /// Passed on to the program.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Compares the public items of each published crate with the lists in `api`.
    Api {
        /// Writes the lists anew instead.
        #[arg(long)]
        accept: bool,
    },
    /// Switches each rule of the protocol off: its tests must fail without it.
    Ablate(ablate::Choice),
    /// How fast events are handled, beside loops and limits written by hand; `--help` tells the options.
    #[command(disable_help_flag = true)]
    Bench {
        /// Passed on to the program.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// A real Debezium beside the relay, and in front of consumers.
    Debezium {
        #[command(subcommand)]
        part: Option<debezium::Part>,
    },
    /// A bad deploy that parks events up to the limit, and the release after it.
    Deploy(deploy::Size),
    /// Licences, bans and sources of what is linked, by cargo-deny, and advisories where their database can be had.
    Deny,
    /// Faults against a consumer with its default configuration: how long until each has a name, seen from outside.
    Drill(drill::Choice),
    /// What the engine alone costs: deliveries a second, and instructions per delivery.
    Engine,
    /// Inputs made up by libFuzzer for what reads bytes, from the corpus in `fuzz/corpus` on.
    Fuzz(fuzz::Choice),
    /// Packs every crate that is published, looks through the packages and compiles them.
    Package,
    /// A long run with killed and frozen consumers, judged by an independent checker.
    Soak(soak::Length),
    /// Relays that are killed and frozen, and databases that go back, while producers commit out of order, judged
    /// by a checker.
    RelayChaos(relay_chaos::Faults),
    /// What a look of a relay's for metrics costs the database beside many rows that wait.
    RelayReadings(relay_readings::Stock),
    /// How many events a second the HTTP intake takes, beside a receiver written by hand.
    IntakeSpeed(intake_speed::Course),
    /// How many rows a second a relay ships, whatever else is in the outbox.
    RelaySpeed(relay_speed::Course),
    /// How a relay delivers by HTTP: how fast, after an outage of the receiver, beside an event that is never taken.
    RelayWebhooks(relay_webhooks::Choice),
    /// What the two programs of a release are made of, as `CycloneDX`: `inbox.cdx.json` beside the packages.
    Sbom,
    /// Kafka and PostgreSQL on this machine, left running for work.
    Services {
        #[command(subcommand)]
        verb: ServicesVerb,
    },
    /// Stops services when the program that started them has ended.
    #[command(hide = true)]
    Keep { folder: PathBuf },
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
        Verb::Test(choice) => return test::everything(&choice),
        Verb::Check => return test::without_services(),
        Verb::Quickstart { arguments } => return quickstart::run(&arguments),
        Verb::Bench { arguments } => return bench::run(&arguments),
        Verb::Ablate(choice) => return ablate::run(&choice),
        Verb::Fuzz(choice) => return fuzz::run(&choice),
        Verb::Debezium { part } => return debezium::run(part.as_ref()),
        Verb::Deploy(size) => return deploy::run(&size),
        Verb::Drill(choice) => return drill::run(&choice),
        Verb::IntakeSpeed(course) => return intake_speed::run(&course),
        Verb::RelayChaos(faults) => return relay_chaos::run(&faults),
        Verb::RelayReadings(stock) => return relay_readings::run(&stock),
        Verb::RelaySpeed(course) => return relay_speed::run(&course),
        Verb::RelayWebhooks(choice) => return relay_webhooks::run(&choice),
        Verb::Soak(length) => return soak::run(&length),
        Verb::Api { accept } => api::run(accept)?,
        Verb::Engine => engine::measure()?,
        Verb::Deny => deny::check()?,
        Verb::Package => package::run_all()?,
        Verb::Sbom => sbom::write()?,
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
