//! The stock binary: a consumer without Rust. See docs/declared-handlers.md.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    inbox_consumer::cli::stock().await
}
