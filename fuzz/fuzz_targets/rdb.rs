//! RDB files of a Redis.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    data::fuzzing::fuzz_rdb(data);
});
