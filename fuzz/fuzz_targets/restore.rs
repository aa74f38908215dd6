//! Payloads of RESTORE, whose checksum is made right.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    data::fuzzing::fuzz_restore(data);
});
