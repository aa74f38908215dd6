//! Bodies of `POST /insertOrUpdate`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    server::http::fuzz_body(data);
});
