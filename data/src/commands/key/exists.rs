//! `EXISTS key [key ...]` and `TOUCH key [key ...]`

use crate::commands::prelude::*;

/// How many of the keys exist; one that is named twice counts twice.
pub struct Exists<'a> {
    keys: &'a [&'a [u8]],
}

/// The same, and they are used by it, also of a client that otherwise uses no keys (`CLIENT NO-TOUCH`).
pub struct Touch<'a>(Exists<'a>);

impl<'a> ReadCommand<'a> for Exists<'a> {
    const SPEC: Spec = Spec {
        name: "exists",
        arity: -2,
        flags: Flags::READONLY.and(Flags::NO_TOUCH).and(Flags::FAST),
        keys: Keys::ALL,
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(N) where N is the number of keys.",
        summary: "Returns how many of the keys exist; a key that is named twice counts twice.",
        arguments: "key [key ...]",
        example: "EXISTS a b",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Ok(Exists { keys: args.from(1) })
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        Ok(Reply::count(self.keys.iter().filter(|key| view.exists(KeyRef::new(key))).count()))
    }
}

impl<'a> ReadCommand<'a> for Touch<'a> {
    const SPEC: Spec = Spec {
        name: "touch",
        arity: -2,
        flags: Flags::READONLY.and(Flags::FAST),
        keys: Keys::ALL,
        group: Group::Generic,
        since: "3.2.1",
        complexity: "O(N) where N is the number of keys.",
        summary: "Returns how many of the keys exist.",
        arguments: "key [key ...]",
        example: "TOUCH a b",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Exists::parse(args).map(Touch)
    }

    fn read(self, view: &View<'_>) -> Result<Reply, Failure> {
        let before = view.set_touches(true);
        let answer = self.0.read(view);
        view.set_touches(before);
        answer
    }
}
