//! The commands of this build with the facts by which rights are judged.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use data::Spec;
use data::key_flags::{self, KeyFlags};
use data::spec::Keys;

use crate::access::rules::Access;
use crate::commands::known::{self, Known};
use crate::pubsub::audience::Kind;

/// Longest name of a command or of a subcommand, with room to spare: a longer one is none.
const NAME_BYTES_MAX: usize = 64;

/// The facts about a command that rights are judged by: gathered once, not for each command that a client sends.
pub(super) struct Row {
    pub(super) known: Known,
    pub(super) spec: &'static Spec,
    /// Without `@`.
    pub(super) categories: Vec<&'static str>,
    /// It has subcommands.
    pub(super) is_parent: bool,
    /// Every connection may send it, before a login too.
    pub(super) is_open: bool,
    /// The access to its keys in turn, the last for all that follow; none if that depends on its words.
    pub(super) accesses: Option<Vec<Access>>,
    /// Its words are channels of this kind: all of them, or the first alone.
    pub(super) channels: Option<(Kind, bool)>,
    pub(super) concerns_bucket: bool,
    /// Its first word behind the name is its only key, and this is the access to it. Nothing else of it is judged but the bucket. None of other commands.
    pub(super) only_key: Option<Access>,
}

impl Row {
    fn new(known: Known) -> Row {
        let spec = known.spec();
        let accesses = match known {
            Known::OnKeys(spec) if spec.has_constant_key_flags() => {
                // No row of the table of flags has more.
                Some((0..3).map(|place| access_of(spec.key_flags(place))).collect())
            }
            Known::OnKeys(_) => None,
            // WATCH tells nothing of a value.
            Known::Own(_) if spec.name == "watch" => Some(vec![Access::default()]),
            Known::Own(_) => Some(vec![Access::ALL]),
        };
        let has_one_key =
            matches!(spec.keys, Keys::Range { first: 1, last: 1, .. }) && matches!(known, Known::OnKeys(_));
        Row {
            only_key: accesses
                .as_ref()
                .filter(|_| has_one_key && !MAY_NEED_MORE.contains(&spec.name))
                .and_then(|accesses| accesses.first().copied()),
            known,
            spec,
            categories: known.acl_categories().into_iter().map(|category| &category[1..]).collect(),
            is_parent: !known.subcommands().is_empty(),
            is_open: known.flags().contains(&"no_auth"),
            accesses,
            channels: crate::commands::pubsub::channels_of(known),
            concerns_bucket: matches!(known, Known::OnKeys(_))
                || spec.keys != Keys::None
                || OF_A_BUCKET.contains(&spec.name),
        }
    }
}

/// Commands on one key of which some forms need a right wholly (`needs_of`).
const MAY_NEED_MORE: [&str; 4] = ["copy", "move", "sort", "sort_ro"];

/// Commands without keys that tell of the bucket that their connection has selected.
const OF_A_BUCKET: [&str; 5] =
    ["client|tracking", "cluster|countkeysinslot", "cluster|getkeysinslot", "dictum.outcome", "dictum.token"];

/// The name of the bucket that this word selects.
pub(in crate::access) fn bucket_selected(word: &[u8]) -> String {
    let named = if word == b"0" { crate::bucket::DEFAULT_NAME.as_bytes() } else { word };
    String::from_utf8_lossy(named).into_owned()
}

pub(super) fn access_of(flags: KeyFlags) -> Access {
    Access { reads: key_flags::tells(flags), writes: key_flags::changes(flags) }
}

/// All commands and subcommands of this build.
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    by_name: BTreeMap<&'static str, usize>,
}

pub(super) static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let rows: Vec<Row> = known::all_with_subcommands().map(Row::new).collect();
    let by_name = rows.iter().enumerate().map(|(place, row)| (row.spec.name, place)).collect();
    Table { rows, by_name }
});

impl Table {
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The command, or the subcommand, of these words, and its place. None if there is no such thing: what is asked for then gets an error anyway.
    pub(super) fn find(&self, words: &[&[u8]]) -> Option<(usize, &Row)> {
        let mut name = [0; 2 * NAME_BYTES_MAX + 1];
        let first = *words.first()?;
        let lower = |from: &[u8], to: &mut [u8]| {
            to.copy_from_slice(from);
            to.make_ascii_lowercase();
        };
        if first.len() > NAME_BYTES_MAX {
            return None;
        }
        lower(first, &mut name[..first.len()]);
        let place = self.place(std::str::from_utf8(&name[..first.len()]).ok()?)?;
        let Some(second) = words.get(1).filter(|_| self.rows[place].is_parent) else {
            return Some((place, &self.rows[place]));
        };
        if second.len() > NAME_BYTES_MAX {
            return None;
        }
        let end = first.len() + 1 + second.len();
        name[first.len()] = b'|';
        lower(second, &mut name[first.len() + 1..end]);
        let place = self.place(std::str::from_utf8(&name[..end]).ok()?)?;
        Some((place, &self.rows[place]))
    }
}
