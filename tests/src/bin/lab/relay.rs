//! The relay that tests start as a process.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    outbox_relay::cli::main().await
}
