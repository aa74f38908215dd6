//! Segments of the journal.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = storage::journal::decode(&[data]);
});
