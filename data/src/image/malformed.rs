//! What is said of bytes that are no state.

use std::fmt;

/// Bytes that are no image of a state; says what is wrong with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl Malformed {
    /// A later version of Dictum has written them, or they are damaged where their version stands.
    pub const UNKNOWN_VERSION: Malformed = Malformed("its version is unknown");
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this is no image of a partition's state: {}", self.0)
    }
}

impl std::error::Error for Malformed {}
