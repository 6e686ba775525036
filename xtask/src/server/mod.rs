//! Real servers on this machine, each in a folder, on free ports of 127.0.0.1, ended by process id.

mod connect;
mod kafka;
mod note;
mod pgbouncer;
mod ports;
mod postgres;
mod process;

pub use connect::{Connect, ConnectSettings};
pub use kafka::{Kafka, KafkaSettings, Listener};
pub use note::Note;
pub use pgbouncer::{PgBouncer, program as pgbouncer_program};
pub use ports::{SLOT as PORTS_SLOT, free as free_ports};
pub use postgres::{Postgres, StopMode, binaries as postgres_binaries};
pub use process::Process;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::failure::{Explain, Outcome};

/// A new folder for servers' data, on a disk and open to other users (below a home folder a server
/// that runs as another user could not enter): in `INBOX_SERVICES_DIR`, else `TMPDIR`, else /var/tmp.
pub fn fresh_folder() -> Outcome<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let parent = ["INBOX_SERVICES_DIR", "TMPDIR"]
        .iter()
        .find_map(env::var_os)
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from("/var/tmp")).filter(|path| path.is_dir()))
        .unwrap_or_else(env::temp_dir);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("inbox-services-{}-{}-{count}", std::process::id(), now.subsec_nanos());
    let folder = parent.join(name);
    // Fails where the name exists already, so nobody can prepare it for us.
    fs::create_dir(&folder).explain(|| {
        format!("cannot create {}; name another place in INBOX_SERVICES_DIR", folder.display())
    })?;
    Ok(folder)
}
