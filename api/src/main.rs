//! `cargo xtask api`: the public items of each published crate, beside the list of them that is committed.
//!
//! A list is `api/NAME.txt`, one item a line, of the crate with all features. What is `#[doc(hidden)]` is in
//! none: siblings may use it, nobody is promised anything of it.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program talks to its terminal"
)]

mod lists;
mod rustdoc;

use std::env;
use std::process::ExitCode;

use xtask::failure::{Outcome, failure};
use xtask::folders::{strict, workspace};
use xtask::published::{metadata, published};

use lists::Lists;
use rustdoc::Listed;

fn main() -> ExitCode {
    if let Some(ended) = rustdoc::stand_in() {
        return ended;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome {
    let accept = match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--accept" => true,
        _ => return failure("the only argument is --accept"),
    };
    let metadata = metadata()?;
    let lists = match rustdoc::list(&published(&metadata), &metadata)? {
        Listed::Items(crates) => Lists::new(&workspace().join("api"), crates),
        Listed::Foreign(sentence) if strict() => return failure(sentence),
        Listed::Foreign(sentence) => {
            println!("the public items were not compared: {sentence}");
            return Ok(());
        }
    };
    if accept { lists.write() } else { lists.compare() }
}
