//! Which machine this is, and which are others.

/// The name of this machine, for people; `unknown` where nothing tells it.
pub fn host() -> String {
    std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok())
        .map_or_else(|| "unknown".to_owned(), |name| name.trim().to_owned())
}

/// Whether a name or an address, without a port, is this machine's loopback.
pub fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}
