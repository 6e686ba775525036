//! Which machine this is, and which are others.

use std::path::Path;

/// The name of this machine, for people; `unknown` where nothing tells it.
pub fn host() -> String {
    std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok())
        .map_or_else(|| "unknown".to_owned(), |name| name.trim().to_owned())
}

/// Whether this process runs in a container: Docker and Podman leave a file there, Kubernetes a variable.
pub(crate) fn is_container() -> bool {
    is_container_of(Path::new("/"), std::env::var_os("KUBERNETES_SERVICE_HOST").is_some())
}

fn is_container_of(root: &Path, kubernetes: bool) -> bool {
    kubernetes || [".dockerenv", "run/.containerenv"].iter().any(|file| root.join(file).exists())
}

/// Whether a name or an address, without a port, is this machine's loopback.
pub fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_known_by_what_its_engine_leaves() {
        let root = tempfile::tempdir().unwrap();
        let is_container = |kubernetes| is_container_of(root.path(), kubernetes);
        assert!(!is_container(false));
        assert!(is_container(true), "Kubernetes");
        for file in [".dockerenv", "run/.containerenv"] {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            assert!(is_container(false), "{file}");
            std::fs::remove_file(path).unwrap();
        }
    }
}
