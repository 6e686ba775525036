//! See `fuzz/src/schemas.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::schemas::check(input));
