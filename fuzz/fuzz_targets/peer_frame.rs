//! Frames between nodes: see `wire::fuzzing::fuzz_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::fuzz_frame(data));
