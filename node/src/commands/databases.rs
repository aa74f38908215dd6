//! Commands about several databases: see [`crate::databases`].

use data::Spec;
use data::spec::{Flags, Group, Keys};

use super::{Entry, answers, spec};

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[
    answers(
        Spec {
            keys: Keys::ONE,
            flags: Flags::WRITE.and(Flags::FAST),
            ..spec("move", 3, Group::Generic, "1.0.0", "Would move a key to another database; refused.", "key db")
        },
        &[],
        |context, words| context.node.move_key(context.session, words),
    ),
    answers(
        Spec {
            flags: Flags::WRITE.and(Flags::FAST),
            ..spec("swapdb", 3, Group::Server, "4.0.0", "Would swap two databases; refused.", "index1 index2")
        },
        &["@keyspace", "@dangerous"],
        |context, words| context.node.swap_databases(words),
    ),
];
