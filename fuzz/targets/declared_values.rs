//! See `fuzz/src/declared_values.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::declared_values::check(input));
