//! Commands that count different elements, about: strings that are HyperLogLogs ([`crate::algorithms::hyperloglog`]).
//!
//! How one is written down `PFDEBUG` tells.

pub mod pfadd;
pub mod pfcount;
pub mod pfdebug;
pub mod pfmerge;

use crate::algorithms::hyperloglog::{self, Corrupt};
use crate::blob::Blob;
use crate::failure::Failure;
use crate::meter::BYTES_PER_UNIT;

/// Going through all registers of one, however short it is kept.
const REGISTERS_PRICE: u64 = hyperloglog::REGISTERS as u64 / BYTES_PER_UNIT;

/// The string as a HyperLogLog; an error if it does not begin like one.
fn as_one(bytes: Blob) -> Result<Blob, Failure> {
    let wrong = Failure::Text("WRONGTYPE Key is not a valid HyperLogLog string value.");
    if hyperloglog::is_one(&bytes) { Ok(bytes) } else { Err(wrong) }
}

impl From<Corrupt> for Failure {
    fn from(_: Corrupt) -> Failure {
        Failure::Text("INVALIDOBJ Corrupted HLL object detected")
    }
}
