//! Lines of JSON, as `dictum import` takes them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    data::fuzzing::fuzz_json_line(data);
});
