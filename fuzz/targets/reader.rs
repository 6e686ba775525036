//! See `fuzz/src/reader.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::reader::check(input));
