//! See `fuzz/src/intake.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::intake::check(input));
