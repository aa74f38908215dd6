//! `large`: whole values of 1 MiB, half written, half read.

use super::{Parameters, Shape, puts_gets};

/// The workload's description.
pub const SHAPE: Shape = Shape {
    name: "large",
    sentence: "half puts, half gets of large values: 16 of 1 MiB",
    parameters: &["records", "field-bytes", "distribution", "mix (put, get)"],
    build: |parameters| {
        let mut parameters: Parameters = parameters.clone();
        parameters.records.get_or_insert(16);
        parameters.field_bytes.get_or_insert(1024 * 1024);
        (puts_gets::SHAPE.build)(&parameters)
    },
};
