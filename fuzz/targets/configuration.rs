//! See `fuzz/src/configuration.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::configuration::check(input));
