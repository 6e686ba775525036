//! The lessons of `examples`, as parts of this program: as programs of their own each would be linked with librdkafka and
//! sqlx again. A reader's `cargo run -p examples --example NAME` compiles the same file.

#[path = "../../../../examples/examples/batch.rs"]
mod batch;
#[path = "../../../../examples/examples/embedded.rs"]
mod embedded;
#[path = "../../../../examples/examples/five_times.rs"]
mod five_times;
#[path = "../../../../examples/examples/intake.rs"]
mod intake;
#[path = "../../../../examples/examples/mail.rs"]
mod mail;
#[path = "../../../../examples/examples/orders.rs"]
mod orders;
#[path = "../../../../examples/examples/out_of_order.rs"]
mod out_of_order;
#[path = "../../../../examples/examples/plain_sql.rs"]
mod plain_sql;
#[path = "../../../../examples/examples/read_model.rs"]
mod read_model;
#[path = "../../../../examples/examples/retries.rs"]
mod retries;
#[path = "../../../../examples/examples/state.rs"]
mod state;
#[path = "../../../../examples/examples/testing_a_handler.rs"]
mod testing_a_handler;
#[path = "../../../../examples/examples/two_consumers.rs"]
mod two_consumers;
#[path = "../../../../examples/examples/webhook.rs"]
mod webhook;

use std::process::{ExitCode, Termination as _};

/// Runs a lesson, by the name of its file; `None` if there is none.
pub(crate) fn run(name: &str) -> Option<ExitCode> {
    Some(match name {
        "batch" => batch::main().report(),
        "embedded" => embedded::main().report(),
        "five_times" => five_times::main().report(),
        "intake" => intake::main().report(),
        "mail" => mail::main().report(),
        "orders" => orders::main().report(),
        "out_of_order" => out_of_order::main().report(),
        "plain_sql" => plain_sql::main().report(),
        "read_model" => read_model::main().report(),
        "retries" => retries::main().report(),
        "state" => state::main().report(),
        "testing_a_handler" => testing_a_handler::main().report(),
        "two_consumers" => two_consumers::main().report(),
        "webhook" => webhook::main().report(),
        _ => return None,
    })
}
