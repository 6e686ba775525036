//! See `fuzz/src/pointers.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::pointers::check(input));
