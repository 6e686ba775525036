//! What a run is asked for.

use clap::Args;

/// Which tests to run.
#[derive(Args, Debug, Default)]
pub(crate) struct Choice {
    /// Only tests whose path contains this, of both tiers; then every other step is left out.
    pub(super) filter: Option<String>,
    /// Passed on to nextest: `-- --nocapture`.
    #[arg(last = true)]
    pub(super) arguments: Vec<String>,
}

/// What a run covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// What has to pass for every push.
    Push,
    /// Everything that has a tier.
    Nightly,
    /// What needs no service.
    Offline,
}
