//! See `fuzz/src/debezium.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::debezium::check(input));
