//! Messages between nodes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    node::fuzzing::fuzz_peer_message(data);
});
