//! Replies of servers: see `wire::fuzzing::fuzz_reply`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire::fuzzing::fuzz_reply(data));
