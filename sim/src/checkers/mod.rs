//! One file per property. Each opens with the property in English and ends with forged violations that it must see.

pub mod linearizability;
pub mod model;
