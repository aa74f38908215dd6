//! What is known of every command, whichever table it stands in: what COMMAND and ACL CAT tell.

use data::Spec;
use data::commands::COMMANDS;
use data::spec::{Group, Keys};

use super::{Entry, Marks, Run, last_name};

/// The categories of Redis, and behind them our own.
pub(crate) const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
    "administration",
];

/// Commands of `@admin` that only tell the role of a node, or of connections: no administration. Redis counts them as `@admin` and `@dangerous`.
const TELLS: [&str; 6] = [
    "client|list",
    "client|no-evict",
    "cluster|count-failure-reports",
    "cluster|replicas",
    "cluster|slaves",
    "pfselftest",
];

/// A command on keys, or one of this crate's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    OnKeys(&'static Spec),
    Own(&'static Entry),
}

/// Every command, without the subcommands.
pub(crate) fn all() -> impl Iterator<Item = Known> {
    COMMANDS.iter().map(|entry| Known::OnKeys(entry.spec)).chain(super::all().map(Known::Own))
}

/// Every command, each followed by its subcommands.
pub(crate) fn all_with_subcommands() -> impl Iterator<Item = Known> {
    all().flat_map(|command| std::iter::once(command).chain(command.subcommands()))
}

/// The command of a name in any case; a subcommand is named `client|list`.
pub(crate) fn named(name: &[u8]) -> Option<Known> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let first = parts.next()?;
    let command = all().find(|command| command.spec().name.as_bytes().eq_ignore_ascii_case(first))?;
    match parts.next() {
        None => Some(command),
        Some(wanted) => command.subcommand(wanted),
    }
}

impl Known {
    pub(crate) fn spec(self) -> &'static Spec {
        match self {
            Known::OnKeys(spec) => spec,
            Known::Own(entry) => &entry.spec,
        }
    }

    pub(crate) fn subcommands(self) -> Vec<Known> {
        match self {
            Known::OnKeys(spec) => spec.subcommands.iter().map(Known::OnKeys).collect(),
            Known::Own(Entry { run: Run::Container(entries), .. }) => entries.iter().map(Known::Own).collect(),
            Known::Own(_) => Vec::new(),
        }
    }

    /// The subcommand of this name, in any case.
    pub(crate) fn subcommand(self, wanted: &[u8]) -> Option<Known> {
        let mut all = self.subcommands().into_iter();
        all.find(|sub| last_name(sub.spec()).as_bytes().eq_ignore_ascii_case(wanted))
    }

    /// The flags by the names that `COMMAND INFO` uses.
    pub(crate) fn flags(self) -> Vec<&'static str> {
        match self {
            Known::OnKeys(spec) if spec.subcommands.is_empty() => spec.flags.names(),
            Known::OnKeys(_) => Vec::new(),
            Known::Own(entry) => entry.marks.iter().copied().filter(|mark| !mark.starts_with('@')).collect(),
        }
    }

    /// The access-control categories, with `@`.
    pub(crate) fn categories(self) -> Vec<&'static str> {
        // A container is only a name: what it does is its subcommands' affair.
        let entry = match self {
            Known::OnKeys(spec) if spec.subcommands.is_empty() => return spec.categories(),
            Known::OnKeys(_) => return vec!["@slow"],
            Known::Own(entry) => entry,
        };
        let marks: Marks = entry.marks;
        let has = |mark: &str| marks.contains(&mark);
        let mut categories = Vec::new();
        let mut add = |condition: bool, category: &'static str| {
            if condition {
                categories.push(category);
            }
        };
        add(has("write"), "@write");
        add(has("admin"), "@admin");
        add(has("fast"), "@fast");
        add(!has("fast"), "@slow");
        add(has("blocking"), "@blocking");
        add(has("admin"), "@dangerous");
        // COMMAND is a container that can stand alone.
        let is_name = matches!(entry.run, Run::Container(_)) && entry.spec.arity == -2;
        add(entry.spec.group == Group::Connection && !is_name, "@connection");
        add(entry.spec.group == Group::Transactions, "@transaction");
        add(has("pubsub"), "@pubsub");
        for mark in marks.iter().filter(|mark| mark.starts_with('@')) {
            if !categories.contains(mark) {
                categories.push(mark);
            }
        }
        categories
    }

    /// The same for `ACL`, with the category that Redis does not have: `@administration`, the commands that run a cluster, or show what others do in it.
    /// `COMMAND INFO` tells those of Redis alone.
    pub(crate) fn acl_categories(self) -> Vec<&'static str> {
        let mut categories = self.categories();
        if matches!(self, Known::Own(entry) if entry.marks.contains(&"admin") && !TELLS.contains(&entry.spec.name)) {
            categories.push("@administration");
        }
        categories
    }

    /// Which words are keys; of a container none, its subcommands differ.
    pub(crate) fn key_places(self) -> Keys {
        match self {
            Known::OnKeys(spec) if !spec.subcommands.is_empty() => Keys::None,
            _ => self.spec().keys,
        }
    }

    /// The keys among `words`.
    pub(crate) fn keys<'a>(self, words: &[&'a [u8]]) -> Vec<&'a [u8]> {
        self.spec().keys_of(words)
    }
}
