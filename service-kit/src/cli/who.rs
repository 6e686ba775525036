//! Who acts, for the audit.

use std::fs;

/// Whoever runs a command: the user that the environment names, else the one that the system runs it as, each at
/// this machine; in a container without either, the machine.
pub fn who(env: &[(String, String)], host: &str) -> String {
    let of = |name: &str| env.iter().find(|(key, value)| key == name && !value.is_empty());
    let user = of("USER").or_else(|| of("LOGNAME")).map(|(_, user)| user.clone());
    match user.or_else(system_user) {
        Some(user) => format!("{user}@{host}"),
        None => host.to_owned(),
    }
}

#[cfg(unix)]
fn system_user() -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let id = fs::metadata("/proc/self").ok()?.uid();
    named(&fs::read_to_string("/etc/passwd").ok()?, id)
}

#[cfg(not(unix))]
fn system_user() -> Option<String> {
    None
}

/// The name of a user, out of lines `name:x:id:…`.
fn named(users: &str, id: u32) -> Option<String> {
    let line =
        users.lines().find(|line| line.split(':').nth(2) == Some(id.to_string().as_str()))?;
    line.split(':').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{named, who};

    #[test]
    fn somebody_is_always_named() {
        let env = |name: &str| vec![(name.to_owned(), "ada".to_owned())];
        assert_eq!(who(&env("USER"), "shop-1"), "ada@shop-1");
        assert_eq!(who(&env("LOGNAME"), "shop-1"), "ada@shop-1");
        assert!(who(&[], "shop-1").ends_with("shop-1"), "the system's user, or the machine alone");
        let users = "root:x:0:0:root:/root:/bin/sh\nbilling:x:1001:1001::/:/bin/false\n";
        assert_eq!(named(users, 1001).as_deref(), Some("billing"));
        assert_eq!(named(users, 100), None);
    }
}
