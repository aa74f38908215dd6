//! What every command's file needs.

pub use super::{ReadCommand, WriteCommand};
pub use crate::args::Args;
pub use crate::blob::Blob;
pub use crate::failure::Failure;
pub use crate::reply::Reply;
pub use crate::spec::{Flags, Group, Keys, Spec};
pub use crate::store::KeyRef;
pub use crate::transaction::{Transaction, check_length, name_order};
pub use crate::value::{Collection, Kind, List, Record, Value};
pub use crate::view::View;
