//! The relay as a program of its own.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    outbox_relay::cli::main().await
}
