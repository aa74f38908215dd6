//! Commands of clients: see `wire::fuzzing::fuzz_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::fuzz_request(data));
