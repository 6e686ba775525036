//! The programs that tests start as processes.

use std::sync::LazyLock;

use tests::Executable;

const LAB: &str = env!("CARGO_BIN_EXE_lab");

/// The consumer with the handlers of tests.
pub(crate) static WORKER: LazyLock<Executable> = LazyLock::new(|| Executable::worker(LAB));
/// The relay.
pub(crate) static RELAY: LazyLock<Executable> = LazyLock::new(|| Executable::relay(LAB));

/// A lesson of `examples`, by the name of its file.
pub(crate) fn lesson(name: &'static str) -> Executable {
    Executable::lesson(LAB, name)
}
