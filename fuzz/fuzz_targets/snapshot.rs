//! Snapshot files.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = storage::snapshot::decode(bytes::Bytes::copy_from_slice(data));
});
