//! Who acts, and how sure they are.

use clap::Args;

/// Whose hand it is, and how sure.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub(super) struct Hand {
    /// Your name for the audit; USER@HOST by default, or HOST where the user has no name
    #[arg(long = "as", value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Apply (the default is a dry run)
    #[arg(long)]
    pub(super) yes: bool,
    /// Override safety checks
    #[arg(long)]
    pub(super) force: bool,
}

/// Who acts: as they say, else the user of this machine, else the machine.
pub(super) fn who(name: Option<&str>, env: &[(String, String)]) -> Result<String, String> {
    let said = name.map(str::trim);
    if let Some(name) = said.filter(|name| !name.is_empty()) {
        return Ok(name.to_owned());
    }
    match said {
        Some(_) => Err("--as is empty: give your name, the audit keeps it".into()),
        None => Ok(service_kit::cli::who(env, &service_kit::host())),
    }
}
