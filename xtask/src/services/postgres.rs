//! A PostgreSQL server from the system's programs. As root it runs as another user: it refuses root.

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::{capture, find, root, user_id};
use crate::failure::{Explain, Outcome, failure};
use crate::process::Process;

use super::folder::Folder;
use super::ports;

/// The folder with initdb, postgres and `pg_ctl`: `PG_BIN`, else the newest of Debian's, else from `PATH`.
pub(crate) fn binaries() -> Option<PathBuf> {
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

/// Starts a server on a new cluster; returns when it accepts connections.
pub(crate) fn start(folder: &Folder, binaries: &Path) -> Outcome {
    let data = folder.file("postgres");
    let owner = Owner::of_servers()?;
    owner.create(&data)?;
    let [port] = ports::free()?;
    initialise(&owner, binaries, &data, port)?;
    let mut control = owner.run(&binaries.join("pg_ctl"));
    control.arg("-D").arg(&data).args(["-w", "-t", "60", "-s", "-l"]);
    control.arg(data.join("server.log")).arg("start");
    // Not captured: the server would inherit the pipe and hold it open for ever.
    let started = crate::command::run(control.stdin(Stdio::null()).stdout(Stdio::null()));
    if let Some(process) = postmaster(&data) {
        folder.note_process("postgres", &process)?;
    }
    if let Err(failed) = started {
        let log = fs::read_to_string(data.join("server.log")).unwrap_or_default();
        return failure(format!("PostgreSQL did not start: {failed}\n{}", log.trim_end()));
    }
    folder.note_address("postgres", &format!("postgres://postgres@127.0.0.1:{port}/postgres"))
}

/// The server's main process, from the file it keeps itself.
fn postmaster(data: &Path) -> Option<Process> {
    let text = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    Process::of(text.lines().next()?.trim().parse().ok()?)
}

fn initialise(owner: &Owner, binaries: &Path, data: &Path, port: u16) -> Outcome {
    let mut initdb = owner.run(&binaries.join("initdb"));
    initdb.arg("-D").arg(data).args(["-U", "postgres", "--auth=trust", "--no-sync"]);
    capture(initdb.args(["-E", "UTF8", "--locale=C"]))?;
    append(&data.join("postgresql.conf"), &settings(port))?;
    // The first line that fits decides, so this one goes in front.
    let hba = data.join("pg_hba.conf");
    let rules = fs::read_to_string(&hba).explain(|| format!("cannot read {}", hba.display()))?;
    fs::write(&hba, format!("{PASSWORD_RULE}\n{rules}"))
        .explain(|| format!("cannot write {}", hba.display()))?;
    single_user(owner, binaries, data, "CREATE ROLE password_required NOLOGIN;\n")
}

/// Everyone is trusted, but a member of this role must show a password: tests have wrong ones.
const PASSWORD_RULE: &str = "host all +password_required 127.0.0.1/32 scram-sha-256";

/// Runs SQL on a server that is not started yet.
fn single_user(owner: &Owner, binaries: &Path, data: &Path, sql: &str) -> Outcome {
    let mut postgres = owner.run(&binaries.join("postgres"));
    postgres.arg("--single").arg("-D").arg(data).arg("postgres");
    let mut child = postgres
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .explain(|| "cannot run postgres --single".to_owned())?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(sql.as_bytes()).explain(|| "postgres --single".to_owned())?;
    }
    let status = child.wait().explain(|| "postgres --single".to_owned())?;
    if status.success() {
        Ok(())
    } else {
        failure(format!("`postgres --single` ended with {status}"))
    }
}

fn append(file: &Path, text: &str) -> Outcome {
    let mut open = fs::OpenOptions::new()
        .append(true)
        .open(file)
        .explain(|| format!("cannot write {}", file.display()))?;
    open.write_all(text.as_bytes()).explain(|| format!("cannot write {}", file.display()))
}

/// Durable as in production (fsync is on); the rest is for many small tests at once.
fn settings(port: u16) -> String {
    format!(
        "
port = {port}
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
"
    )
}

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
