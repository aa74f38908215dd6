//! `FUNCTION DUMP`'s payload: of each library 245 and its code as a string, and the footer of all payloads.

use super::{checked_body, put_string, read_string, with_footer};
use crate::blob::Blob;
use crate::failure::Failure;
use crate::meter::Meter;

/// What stands before a library, since Redis 7.0.
const LIBRARY: u8 = 245;

/// The payload of libraries, by their code.
pub(crate) fn dump_libraries(codes: &[Blob]) -> Vec<u8> {
    let mut payload = Vec::new();
    for code in codes {
        payload.push(LIBRARY);
        put_string(&mut payload, code);
    }
    with_footer(payload)
}

/// The code of the libraries in a payload.
pub(crate) fn restore_libraries(payload: &[u8], meter: &Meter) -> Result<Vec<Vec<u8>>, Failure> {
    let damaged = Failure::Text("ERR DUMP payload version or checksum are wrong");
    let mut rest = checked_body(payload).map_err(|_| damaged)?;
    let mut codes = Vec::new();
    while let Some((kind, after)) = rest.split_first() {
        rest = after;
        if *kind != LIBRARY {
            return Err(Failure::Text("ERR given type is not a function"));
        }
        codes.push(read_string(&mut rest, meter).ok_or(Failure::Text("ERR Failed loading library from dump"))?);
    }
    Ok(codes)
}
