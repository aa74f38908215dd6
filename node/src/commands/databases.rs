//! Commands about several databases: see [`crate::databases`].

use data::Spec;
use data::spec::{Flags, Group, Keys};

use super::{Entry, Local, answers, spec, special};

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[
    special(
        Spec {
            keys: Keys::ONE,
            flags: Flags::WRITE.and(Flags::FAST),
            ..spec("move", 3, Group::Generic, "1.0.0", "Moves a key to another database.", "key db")
        },
        &[],
        Local::Move,
    ),
    special(
        Spec {
            keys: Keys::ONE,
            flags: Flags::WRITE,
            ..spec(
                "migrate",
                -6,
                Group::Generic,
                "2.6.0",
                "Moves keys to another server, a Redis or a Dictum.",
                "host port key|\"\" destination-db timeout [COPY] [REPLACE] [AUTH password | AUTH2 username password] [KEYS key [key ...]]",
            )
        },
        &["@dangerous"],
        Local::Migrate,
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
