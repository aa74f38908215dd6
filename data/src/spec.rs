//! What is known of a command without running it: `COMMAND INFO`, `DOCS`, `GETKEYS`, arity errors and help come from it.

use crate::failure::Failure;
use crate::syntax::Argument;

/// A command's description. Texts are plain; names are lower case.
#[derive(Debug)]
pub struct Spec {
    /// Lower case; a subcommand is written `object|encoding`.
    pub name: &'static str,
    /// How many arguments, the name included: exactly so many, or at least the absolute value if negative.
    pub arity: i32,
    /// What the command may do.
    pub flags: Flags,
    /// Which arguments are keys.
    pub keys: Keys,
    /// The family in the documentation.
    pub group: Group,
    /// The version of Redis that introduced it.
    pub since: &'static str,
    /// Time complexity.
    pub complexity: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The arguments in Redis's notation, e.g. `key value [NX | XX]`; empty if there are none.
    pub arguments: &'static str,
    /// Example commands, one a line.
    pub example: &'static str,
    /// Descriptions of the subcommands, if it has any.
    pub subcommands: &'static [Spec],
}

/// A set of [`Flags`] constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u16);

impl Flags {
    /// Nothing special.
    pub const NONE: Flags = Flags(0);
    /// May change keys: goes through the log.
    pub const WRITE: Flags = Flags(1);
    /// Only looks.
    pub const READONLY: Flags = Flags(2);
    /// May grow the state: refused when there is no room.
    pub const DENYOOM: Flags = Flags(4);
    /// Constant or logarithmic time.
    pub const FAST: Flags = Flags(8);
    /// May take long over everything there is, or destroy much.
    pub const DANGEROUS: Flags = Flags(16);
    /// Which arguments are keys depends on the other arguments.
    pub const MOVABLE_KEYS: Flags = Flags(32);
    /// May make a value that is longer than its arguments: its entry carries the limit for values.
    pub const GROWS: Flags = Flags(64);
    /// May wait until there is something for it: see [`crate::waiting`].
    pub const BLOCKING: Flags = Flags(128);
    /// Scripts may not call it.
    pub const NOSCRIPT: Flags = Flags(256);
    /// Runs other commands: its entry carries what any of them might need.
    pub const RUNS: Flags = Flags(512);
    /// Often changes nothing, and finding that out costs little: a client whose last such command changed nothing has the next one looked at before it goes
    /// through the log.
    pub const OFTEN_NOTHING: Flags = Flags(1024);
    /// Asks about keys without using them: how long they are idle does not change.
    pub const NO_TOUCH: Flags = Flags(2048);
    /// A write whose work its own length bounds, whatever the state holds: its entry needs no budget. Options may take that away: see
    /// [`Spec::is_bounded`].
    pub const BOUNDED: Flags = Flags(4096);

    /// All of `self` and of `other`.
    #[must_use]
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` are set.
    #[must_use]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags by the names that `COMMAND INFO` uses.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        const NAMES: [(Flags, &str); 7] = [
            (Flags::WRITE, "write"),
            (Flags::READONLY, "readonly"),
            (Flags::DENYOOM, "denyoom"),
            (Flags::BLOCKING, "blocking"),
            (Flags::NOSCRIPT, "noscript"),
            (Flags::FAST, "fast"),
            (Flags::MOVABLE_KEYS, "movablekeys"),
        ];
        let mut names: Vec<&str> = NAMES.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name).collect();
        if self.has(Flags::RUNS) {
            // What it does depends on what it runs.
            names.retain(|name| *name != "write");
            names.extend(["stale", "skip_monitor", "no_mandatory_keys"]);
        }
        names
    }
}

/// Which arguments of a command are keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// None.
    None,
    /// Every `step`-th from `first` to `last`; a negative `last` counts from the end, -1 being the last argument.
    Range {
        /// Index of the first key; the name has index 0.
        first: usize,
        /// Index of the last key.
        last: i32,
        /// Distance from key to key.
        step: usize,
    },
    /// As many as the argument at `count` says, every `step`-th from `first` on.
    Counted {
        /// Index of the argument that says how many.
        count: usize,
        /// Index of the first key.
        first: usize,
        /// Distance from key to key.
        step: usize,
    },
    /// The first argument, where the result goes, and as many as the argument at `count` says, from `first` on.
    Stored {
        /// Index of the argument that says how many.
        count: usize,
        /// Index of the first key that is counted.
        first: usize,
    },
    /// The first half of what stands behind the word `STREAMS`.
    Streams,
    /// The first argument, and what follows the last `STORE` among the options.
    Named {
        /// Index of the first option.
        from: usize,
        /// Options that an argument follows, or several, and whether that is a key: so no argument is taken for an option.
        words: &'static [(&'static str, Follows)],
    },
}

/// What follows an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follows {
    /// A key.
    Key,
    /// So many arguments that are none.
    Words(usize),
}

/// The argument behind the last option that a key follows.
fn named_key<'a>(args: &[&'a [u8]], from: usize, words: &[(&str, Follows)]) -> Option<&'a [u8]> {
    let (mut index, mut found) = (from, None);
    while let Some(word) = args.get(index) {
        let known = words.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
        match known.map(|(_, follows)| *follows) {
            Some(Follows::Key) => {
                found = args.get(index + 1).copied().or(found);
                index += 1;
            }
            Some(Follows::Words(count)) => index += count,
            None => {}
        }
        index += 1;
    }
    found
}

impl Keys {
    /// The first argument.
    pub const ONE: Keys = Keys::Range { first: 1, last: 1, step: 1 };
    /// The first two arguments.
    pub const TWO: Keys = Keys::Range { first: 1, last: 2, step: 1 };
    /// All arguments but the last.
    pub const ALL_BUT_LAST: Keys = Keys::Range { first: 1, last: -2, step: 1 };
    /// Every other argument from the first on: keys and values in turn.
    pub const PAIRS: Keys = Keys::Range { first: 1, last: -1, step: 2 };
    /// All arguments.
    pub const ALL: Keys = Keys::Range { first: 1, last: -1, step: 1 };

    /// `COMMAND INFO`'s (first, last, step); zeros where the keys are none or are counted.
    #[must_use]
    pub fn positions(self) -> (i64, i64, i64) {
        match self {
            Keys::Range { first, last, step } => (first as i64, i64::from(last), step as i64),
            Keys::Stored { .. } | Keys::Named { .. } => (1, 1, 1),
            Keys::None | Keys::Counted { .. } | Keys::Streams => (0, 0, 0),
        }
    }
}

/// The family of a command in Redis's documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Keys of any type.
    Generic,
    /// Keys of several types with elements.
    Sorting,
    /// Strings.
    String,
    /// Bits of strings.
    Bitmap,
    /// Hashes.
    Hash,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Lists.
    List,
    /// Streams.
    Stream,
    /// JSON documents.
    Json,
    /// Strings that count different elements.
    HyperLogLog,
    /// Sorted sets of places.
    Geo,
    /// The connection itself.
    Connection,
    /// MULTI and what belongs to it.
    Transactions,
    /// Messages for whoever listens.
    PubSub,
    /// Scripts and functions.
    Scripting,
    /// What only Dictum has.
    Dictum,
    /// The server as a whole.
    Server,
}

impl Group {
    /// The name that `COMMAND DOCS` uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Group::Generic | Group::Sorting => "generic",
            Group::String => "string",
            Group::Bitmap => "bitmap",
            Group::Hash => "hash",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::List => "list",
            Group::Stream => "stream",
            Group::Json => "json",
            Group::HyperLogLog => "hyperloglog",
            Group::Geo => "geo",
            Group::Connection => "connection",
            Group::Transactions => "transactions",
            Group::PubSub => "pubsub",
            Group::Scripting => "scripting",
            Group::Dictum => "dictum",
            Group::Server => "server",
        }
    }

    fn categories(self) -> &'static [&'static str] {
        match self {
            Group::Generic | Group::Server | Group::Dictum => &["@keyspace"],
            Group::Sorting => &["@set", "@sortedset", "@list"],
            Group::Connection => &["@connection"],
            Group::Transactions => &["@transaction"],
            Group::String => &["@string"],
            Group::Bitmap => &["@bitmap"],
            Group::Hash => &["@hash"],
            Group::Set => &["@set"],
            Group::SortedSet => &["@sortedset"],
            Group::HyperLogLog => &["@hyperloglog"],
            Group::Geo => &["@geo"],
            Group::PubSub => &["@pubsub"],
            Group::Scripting => &["@scripting"],
            Group::List => &["@list"],
            Group::Json => &["@json"],
            Group::Stream => &["@stream"],
        }
    }
}

/// Longest text of a document that is written without a budget: what it becomes in memory is some forty times as long.
const BOUNDED_DOCUMENT_BYTES_MAX: usize = 64 * 1024;

impl Spec {
    /// Whether the length of a write bounds its work, whatever the state holds. Of commands that take a count only those without one are; of `XADD` those
    /// that trim nothing; of `JSON.SET` those that put a short document where one was.
    #[must_use]
    pub fn is_bounded(&self, words: &[&[u8]]) -> bool {
        self.flags.has(Flags::BOUNDED)
            && match self.name {
                "lpop" | "rpop" | "spop" | "zpopmin" | "zpopmax" => words.len() == 2,
                "xadd" => {
                    let options = words.get(2..words.len().min(6)).unwrap_or_default();
                    let trims =
                        |word: &&[u8]| word.eq_ignore_ascii_case(b"MAXLEN") || word.eq_ignore_ascii_case(b"MINID");
                    !options.iter().any(trims)
                }
                // A short document in place of whatever is there, which is not read.
                "json.set" => {
                    words.len() == 4 && matches!(words[2], b"$" | b".") && words[3].len() <= BOUNDED_DOCUMENT_BYTES_MAX
                }
                _ => true,
            }
    }

    /// The name of what `words` ask for, whose command this is: that of the subcommand, if there is one.
    #[must_use]
    pub fn name_of(&self, words: &[&[u8]]) -> &'static str {
        let Some(wanted) = words.get(1).filter(|_| !self.subcommands.is_empty()) else { return self.name };
        let is_wanted = |sub: &&Spec| {
            sub.name.split_once('|').is_some_and(|(_, name)| name.as_bytes().eq_ignore_ascii_case(wanted))
        };
        self.subcommands.iter().find(is_wanted).map_or(self.name, |sub| sub.name)
    }

    /// Whether `count` arguments, the name included, are acceptable.
    #[must_use]
    pub fn arity_fits(&self, count: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { count >= wanted } else { count == wanted }
    }

    /// The error for a wrong number of arguments.
    #[must_use]
    pub fn wrong_arity(&self) -> Failure {
        Failure::WrongArity(self.name)
    }

    /// The arguments as a tree, for `COMMAND DOCS`.
    #[must_use]
    pub fn argument_tree(&self) -> Vec<Argument> {
        crate::syntax::arguments(self.arguments)
    }

    /// The access-control categories, as `COMMAND INFO` and `ACL CAT` name them.
    #[must_use]
    pub fn categories(&self) -> Vec<&'static str> {
        let mut categories = self.group.categories().to_vec();
        let runs_others = self.flags.has(Flags::RUNS);
        if self.flags.has(Flags::WRITE) && !runs_others {
            categories.push("@write");
        }
        if self.flags.has(Flags::READONLY) && !runs_others {
            categories.push("@read");
        }
        categories.push(if self.flags.has(Flags::FAST) { "@fast" } else { "@slow" });
        if self.flags.has(Flags::BLOCKING) {
            categories.push("@blocking");
        }
        if self.flags.has(Flags::DANGEROUS) {
            categories.push("@dangerous");
        }
        categories
    }

    /// The keys among `args` (the name first). Arguments that do not fit the description give those that do.
    #[must_use]
    pub fn keys_of<'a>(&self, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
        if let Keys::Stored { count, first } = self.keys {
            let counted = Spec { keys: Keys::Counted { count, first, step: 1 }, ..*self };
            return args.get(1).copied().into_iter().chain(counted.keys_of(args)).collect();
        }
        if let Keys::Named { from, words } = self.keys {
            return args.get(1).copied().into_iter().chain(named_key(args, from, words)).collect();
        }
        let (first, end, step) = match self.keys {
            Keys::None | Keys::Stored { .. } | Keys::Named { .. } => return Vec::new(),
            Keys::Streams => {
                let first = behind_streams(args);
                (first, first + (args.len() - first) / 2, 1)
            }
            Keys::Range { first, last, step } => {
                let end = if last < 0 {
                    (args.len() + 1).saturating_sub(last.unsigned_abs() as usize)
                } else {
                    last as usize + 1
                };
                (first, end, step)
            }
            Keys::Counted { count, first, step } => {
                let count = args.get(count).and_then(|text| crate::args::parse_integer(text)).unwrap_or(0);
                let count = usize::try_from(count).unwrap_or(0);
                (first, first.saturating_add(count.saturating_mul(step)), step)
            }
        };
        args.get(first..end.min(args.len())).unwrap_or_default().iter().step_by(step).copied().collect()
    }
}

/// Where the words behind `STREAMS` begin. It may also be the name of a group or a consumer.
fn behind_streams(args: &[&[u8]]) -> usize {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let mut index = 1;
    while let Some(word) = args.get(index) {
        index += match *word {
            word if is(word, "STREAMS") => return index + 1,
            word if is(word, "GROUP") => 3,
            word if is(word, "COUNT") || is(word, "BLOCK") => 2,
            _ => 1,
        };
    }
    args.len()
}
