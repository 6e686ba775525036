//! A PostgreSQL server from the system's programs. As root it runs as another user: it refuses root.

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command::{capture, find, root, run, user_id};
use crate::failure::{Explain, Failure, Outcome, failure};

use super::note::Note;
use super::ports;
use super::process::Process;

/// The folder with initdb, postgres and `pg_ctl`: `PG_BIN`, else the newest of Debian's, else from `PATH`.
pub fn binaries() -> Option<PathBuf> {
    let complete = |folder: &PathBuf| {
        ["initdb", "postgres", "pg_ctl"].iter().all(|program| folder.join(program).is_file())
    };
    let named = env::var_os("PG_BIN").map(PathBuf::from);
    let linked = find("pg_ctl").and_then(|file| fs::canonicalize(file).ok());
    let in_path = linked.and_then(|file| file.parent().map(Path::to_path_buf));
    named.into_iter().chain(newest_of_debian()).chain(in_path).find(complete)
}

fn newest_of_debian() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let major = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).max_by_key(major)?;
    Some(newest.join("bin"))
}

/// How often a promotion is asked for. One whose receiver was killed may just be starting over, and a
/// server that starts forgets that it was asked.
const PROMOTIONS_MAX: u32 = 3;
/// What is said of one that did not come, and, the next time, of one that came after all.
const NOT_IN_TIME: &str = "did not promote in time";
const NO_STANDBY: &str = "not in standby mode";

/// How a server is stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopMode {
    /// Sessions are ended, everything is written.
    Fast,
    /// As a power cut does: the next start replays the log.
    Immediate,
}

/// A server with its own cluster. It runs from [`Postgres::start`] on, until it is stopped.
#[derive(Debug)]
pub struct Postgres {
    folder: PathBuf,
    name: String,
    binaries: PathBuf,
    port: u16,
    owner: Owner,
}

impl Postgres {
    /// Creates a new cluster, `folder/name`. `settings` are further lines of postgresql.conf.
    pub fn create(folder: &Path, name: &str, binaries: &Path, settings: &str) -> Outcome<Self> {
        let postgres = Self::prepare(folder, name, binaries)?;
        let mut initdb = postgres.program("initdb");
        initdb.arg("-D").arg(postgres.cluster());
        initdb.args(["-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]);
        capture(&mut initdb)?;
        postgres.append("postgresql.conf", &format!("{MANY_SMALL_TESTS}{settings}\n"))?;
        postgres.ask_members_for_passwords()?;
        Ok(postgres)
    }

    /// Copies this running server into a streaming replica, `folder/name`, not started yet.
    pub fn replica(&self, name: &str) -> Outcome<Self> {
        let replica = Self::prepare(&self.folder, name, &self.binaries)?;
        let mut copy = replica.program("pg_basebackup");
        copy.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres", "-D"]);
        capture(copy.arg(replica.cluster()).args([
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
        ]))?;
        Ok(replica)
    }

    fn prepare(folder: &Path, name: &str, binaries: &Path) -> Outcome<Self> {
        let [port] = ports::free()?;
        let owner = Owner::of_servers()?;
        owner.create(&folder.join(name))?;
        let (folder, name) = (folder.to_path_buf(), name.to_owned());
        Ok(Self { folder, name, binaries: binaries.to_path_buf(), port, owner })
    }

    /// Starts the server; returns when it accepts connections.
    pub fn start(&self) -> Outcome {
        let log = self.cluster().join("server.log");
        let mut control = self.control("start");
        control.args(["-w", "-t", "60", "-o", &format!("-p {}", self.port), "-l"]).arg(&log);
        // Not captured: the server would inherit the pipe and hold it open for ever.
        let started = run(control.stdin(Stdio::null()).stdout(Stdio::null()));
        if let Some(process) = self.process() {
            Note::write(&self.folder, &self.name, &process, "QUIT")?;
        }
        started.or_else(|failed| {
            let log = fs::read_to_string(log).unwrap_or_default();
            failure(format!("PostgreSQL did not start: {failed}\n{}", log.trim_end()))
        })
    }

    /// Stops the server; the cluster stays. One that is not running stays so.
    pub fn stop(&self, mode: StopMode) {
        let signal = if mode == StopMode::Fast { "INT" } else { "QUIT" };
        if let Some(process) = self.process() {
            process.stop(signal, Duration::from_secs(10));
        }
    }

    /// Makes a replica the primary of its own line of history; returns when it takes writes.
    pub fn promote(&self) -> Outcome {
        let late =
            |tried: &Outcome| matches!(tried, Err(Failure(said)) if said.contains(NOT_IN_TIME));
        let mut promoted = self.try_promoting();
        for _ in 1..PROMOTIONS_MAX {
            if !late(&promoted) {
                break;
            }
            promoted = match self.try_promoting() {
                Err(Failure(said)) if said.contains(NO_STANDBY) => Ok(()),
                tried => tried,
            };
        }
        promoted
    }

    fn try_promoting(&self) -> Outcome {
        capture(self.control("promote").args(["-w", "-t", "20"])).map(drop)
    }

    /// Copies the cluster while the server is stopped, into `folder/name`.
    pub fn back_up(&self, name: &str) -> Outcome<PathBuf> {
        let copy = self.folder.join(name);
        // Owners and rights go along: the server refuses a cluster of another's.
        capture(Command::new("cp").arg("-a").args([&self.cluster(), &copy]))?;
        Ok(copy)
    }

    /// Puts a copy in the place of the cluster while the server is stopped. The copy is used up.
    pub fn put_back(&self, copy: &Path) -> Outcome {
        let cluster = self.cluster();
        let doing = || format!("cannot put {} in its place", copy.display());
        fs::remove_dir_all(&cluster).explain(doing)?;
        fs::rename(copy, &cluster).explain(doing)
    }

    /// Puts a file into the folder of its files that the server alone may read, such as a key.
    pub fn put(&self, name: &str, text: &str) -> Outcome {
        let file = self.cluster().join(name);
        let doing = || format!("cannot write {}", file.display());
        fs::write(&file, text).explain(doing)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).explain(doing)?;
        match self.owner {
            Owner::Same => Ok(()),
            Owner::Other { id, .. } => chown(&file, Some(id), None).explain(doing),
        }
    }

    /// Puts rules about who comes in how in front of the others.
    pub fn rules_first(&self, rules: &str) -> Outcome {
        let file = self.cluster().join("pg_hba.conf");
        let doing = || format!("cannot change {}", file.display());
        let others = fs::read_to_string(&file).explain(doing)?;
        // The first line that fits decides.
        fs::write(&file, format!("{rules}\n{others}")).explain(doing)
    }

    /// A superuser's URL.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's main process, while it is alive: from the file that it keeps itself.
    pub fn process(&self) -> Option<Process> {
        let text = fs::read_to_string(self.cluster().join("postmaster.pid")).ok()?;
        Process::of(text.lines().next()?.trim().parse().ok()?)
    }

    /// The folder of its files.
    pub fn cluster(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    fn program(&self, name: &str) -> Command {
        self.owner.run(&self.binaries.join(name))
    }

    fn control(&self, verb: &str) -> Command {
        let mut control = self.program("pg_ctl");
        control.args([verb, "-s", "-D"]).arg(self.cluster());
        control
    }

    fn append(&self, file: &str, text: &str) -> Outcome {
        let file = self.cluster().join(file);
        let doing = || format!("cannot write {}", file.display());
        let mut open = fs::OpenOptions::new().append(true).open(&file).explain(doing)?;
        open.write_all(text.as_bytes()).explain(doing)
    }

    /// Everyone is trusted, but a member of `password_required` must show a password: tests have wrong ones.
    fn ask_members_for_passwords(&self) -> Outcome {
        self.rules_first("host all +password_required 127.0.0.1/32 scram-sha-256")?;
        self.run_before_start("CREATE ROLE password_required NOLOGIN;\n")
    }

    fn run_before_start(&self, sql: &str) -> Outcome {
        let doing = || "cannot run `postgres --single`".to_owned();
        let mut postgres = self.program("postgres");
        postgres.arg("--single").arg("-D").arg(self.cluster()).arg("postgres");
        let quiet = postgres.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = quiet.spawn().explain(doing)?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(sql.as_bytes()).explain(doing)?;
        }
        let status = child.wait().explain(doing)?;
        if status.success() {
            Ok(())
        } else {
            failure(format!("`postgres --single` ended with {status}"))
        }
    }
}

/// Durable as in production (fsync is on); the rest is for many small tests at once.
const MANY_SMALL_TESTS: &str = "
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
shared_buffers = 128MB
wal_level = logical
max_wal_senders = 10
max_replication_slots = 10
max_prepared_transactions = 0
max_wal_size = 2GB
client_connection_check_interval = 1s
log_min_messages = warning
";

/// The user that servers run as.
#[derive(Debug)]
enum Owner {
    /// Whoever runs this program.
    Same,
    /// This program runs as root; PostgreSQL must not.
    Other { name: &'static str, id: u32 },
}

impl Owner {
    fn of_servers() -> Outcome<Self> {
        if !root() {
            return Ok(Self::Same);
        }
        let known = |name| user_id(Some(name)).map(|id| Self::Other { name, id });
        known("postgres").or_else(|| known("nobody")).map_or_else(
            || failure("PostgreSQL refuses to run as root; add a user named `postgres`"),
            Ok,
        )
    }

    /// Creates a folder that only the owner may enter.
    fn create(&self, folder: &Path) -> Outcome {
        let doing = || format!("cannot prepare {}", folder.display());
        fs::create_dir(folder).explain(doing)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).explain(doing)?;
        match self {
            Self::Same => Ok(()),
            Self::Other { id, .. } => chown(folder, Some(*id), None).explain(doing),
        }
    }

    /// A command that runs as the owner, in a folder that everyone may enter.
    fn run(&self, program: &Path) -> Command {
        let mut command = match self {
            Self::Same => Command::new(program),
            Self::Other { name, .. } => {
                let mut command = Command::new("runuser");
                command.args(["-u", name, "--"]).arg(program);
                command
            }
        };
        command.current_dir("/");
        command
    }
}
