//! What reads bytes, and what has to hold of it whatever the bytes are: a panic is a finding.
//!
//! `fuzz/targets` gives these checks to libFuzzer. A test of the package `tests` gives them the corpus,
//! on the stable compiler.

pub mod configuration;
pub mod debezium;
pub mod declared_values;
pub mod header_json;
pub mod intake;
pub mod lexer;
pub mod pointers;
pub mod reader;
pub mod schemas;

mod input;
