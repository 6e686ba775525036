//! Where things are: the workspace, what is cached for good, and what lives as long as the services.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::failure::{Explain, Outcome};

/// The workspace's root folder.
pub(crate) fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Jars, and the note of services that were left up: under the build folder that this program runs from.
pub(crate) fn cache() -> Outcome<PathBuf> {
    let program = env::current_exe().explain(|| "the program's own path is unknown".to_owned())?;
    let target = program.ancestors().nth(2).unwrap_or_else(|| Path::new("target"));
    let folder = target.join("xtask");
    fs::create_dir_all(&folder).explain(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// A new folder for the servers' data. It is on a disk (not below a home folder, which a server
/// that runs as another user could not enter): `INBOX_SERVICES_DIR`, else `TMPDIR`, else /var/tmp.
pub(crate) fn fresh() -> Outcome<PathBuf> {
    let parent = ["INBOX_SERVICES_DIR", "TMPDIR"]
        .iter()
        .find_map(env::var_os)
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from("/var/tmp")).filter(|path| path.is_dir()))
        .unwrap_or_else(env::temp_dir);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let name = format!("inbox-services-{}-{}", std::process::id(), now.subsec_nanos());
    let folder = parent.join(name);
    // Fails where the name exists already, so nobody can prepare it for us.
    fs::create_dir(&folder).explain(|| {
        format!("cannot create {}; name another place in INBOX_SERVICES_DIR", folder.display())
    })?;
    Ok(folder)
}
