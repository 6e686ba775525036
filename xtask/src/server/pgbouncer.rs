//! A `PgBouncer` in transaction mode in front of a PostgreSQL server.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::command::{find, root, user_id};
use crate::failure::{Explain, Outcome, failure};

use super::note::Note;
use super::ports;
use super::process::Process;

/// The program, where Debian has it or in `PATH`.
pub fn program() -> Option<PathBuf> {
    find("pgbouncer")
        .or_else(|| Some(PathBuf::from("/usr/sbin/pgbouncer")).filter(|it| it.is_file()))
}

/// A running `PgBouncer`; ended when it is dropped.
#[derive(Debug)]
pub struct PgBouncer {
    folder: PathBuf,
    port: u16,
    child: Child,
    process: Process,
}

impl PgBouncer {
    /// Starts one in `folder/name`. Whoever comes is `user` of the server at `port`, on one of so few of its
    /// connections that clients share them.
    pub fn start(folder: &Path, name: &str, port: u16, user: &str) -> Outcome<Self> {
        let Some(program) = program() else {
            return failure("pgbouncer is not installed; install the package `pgbouncer`");
        };
        let upstream = port;
        let [port] = ports::free()?;
        let place = folder.join(name);
        let doing = || format!("cannot prepare {}", place.display());
        fs::create_dir(&place).explain(doing)?;
        let settings = place.join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={upstream} user={user}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = transaction\ndefault_pool_size = {SHARED}\n\
             max_client_conn = 500\n"
        );
        fs::write(&settings, text).explain(doing)?;
        let mut command = Command::new(&program);
        if root() {
            // It refuses to run as root.
            let owner =
                ["postgres", "nobody"].into_iter().find(|user| user_id(Some(user)).is_some());
            let owner = owner.unwrap_or("nobody");
            fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).explain(doing)?;
            chown(&settings, user_id(Some(owner)), None).explain(doing)?;
            command.args(["-u", owner]);
        }
        let log = File::create(folder.join(format!("{name}.log"))).explain(doing)?;
        let errors = log.try_clone().explain(doing)?;
        command.arg(&settings).stdin(Stdio::null()).stdout(log).stderr(errors).current_dir("/");
        let mut child =
            command.spawn().explain(|| format!("cannot start {}", program.display()))?;
        let Some(process) = Process::of(child.id()) else {
            let ended = child.wait().explain(doing)?;
            return failure(format!("pgbouncer ended at once: {ended}"));
        };
        Note::write(folder, name, &process, "QUIT")?;
        let pooler = Self { folder: place, port, child, process };
        pooler.wait()?;
        Ok(pooler)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn wait(&self) -> Outcome {
        for _ in 0..200 {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        failure(format!("pgbouncer does not listen; see {}.log", self.folder.display()))
    }
}

/// Connections of the server.
const SHARED: u32 = 4;

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.process.stop("QUIT", Duration::from_secs(5));
        drop(self.child.wait());
    }
}
