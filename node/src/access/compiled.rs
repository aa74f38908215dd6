//! A user's rules, made ready for the question that each of its commands asks: may it do this?
//!
//! Commands get numbers, those of [`table::Table`], which differ from build to build and are nowhere stored. Names that this build does not know have none, so a user
//! loses nothing and gains nothing by them here.

use data::algorithms::glob::Glob;
use data::meter::Meter;
use data::permit::{names_patterns, works_in_buckets};
use data::spec::Flags;

use super::permit::{self, PERMIT_BYTES_MAX};
use super::rules::{Access, Refusal, Rules, Selector};
use crate::commands::known::{self, Known};
use crate::pubsub::audience::Kind;
use crate::subscriptions::filter::Filter;

mod table;

pub(super) use table::bucket_selected;
use table::{Row, TABLE, access_of};

/// Units of work (`data/src/meter.rs`) that looking for one command's keys and channels among a user's patterns may cost: some milliseconds. Past it the command
/// is refused.
const MATCHING_WORK_MAX: u64 = 1_000_000;

/// Refuses a rule that names a command or a category that this build does not have. The node that proposes a rule asks.
///
/// # Errors
/// See [`Refusal`].
pub(crate) fn check(rule: &[u8]) -> Result<(), Refusal> {
    if let [b'(', within @ .., b')'] = rule {
        return within.split(|byte| *byte == b' ').try_for_each(check);
    }
    let [sign @ (b'+' | b'-'), name @ ..] = rule else { return Ok(()) };
    let name = std::str::from_utf8(name).map_err(|_| Refusal::UnknownCommand)?.to_ascii_lowercase();
    if let Some(category) = name.strip_prefix('@') {
        let is_known = category == "all" || known::CATEGORIES.contains(&category);
        return is_known.then_some(()).ok_or(Refusal::UnknownCommand);
    }
    if TABLE.place(&name).is_some() {
        return Ok(());
    }
    // The first argument of a command without subcommands, of which only some are to be allowed.
    let (command, first) = name.rsplit_once('|').ok_or(Refusal::UnknownCommand)?;
    let place = TABLE.place(command).ok_or(Refusal::UnknownCommand)?;
    match () {
        () if command.contains('|') && *sign == b'+' => Err(Refusal::FirstArgumentOfSubcommand),
        () if first.is_empty() && *sign == b'+' => Err(Refusal::Syntax),
        () if TABLE.rows[place].is_parent || *sign == b'-' => Err(Refusal::UnknownCommand),
        () => Ok(()),
    }
}

/// Why a command is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    Command(&'static str),
    /// A command, the rules that would allow it and why.
    Whole(&'static str, &'static str, &'static str),
    Key(Vec<u8>),
    Channel(Vec<u8>),
    /// The bucket of the connection, or the one that the command names.
    Bucket(String),
}

impl Denied {
    /// Of a script or a function that is run for a user who may not do everything.
    pub(crate) fn scripts(why: &'static str) -> Denied {
        Denied::Whole("script", Whole::Everything.rules(), why)
    }
}

/// A pattern of keys.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    text: Vec<u8>,
    /// It is `prefix*`.
    is_prefix: bool,
    /// All keys that fit begin with this, which tells most keys apart.
    prefix: Vec<u8>,
    glob: Glob,
    pub(crate) access: Access,
}

impl Pattern {
    pub(crate) fn new((pattern, access): &(Vec<u8>, Access)) -> Pattern {
        let glob = Glob::new(pattern);
        let prefix = glob.literal_prefix();
        let is_prefix = pattern.strip_suffix(b"*").is_some_and(|before| before == prefix);
        Pattern { text: pattern.clone(), is_prefix, prefix, glob, access: *access }
    }

    /// True if every key that begins with this fits.
    fn covers_prefix(&self, prefix: &[u8]) -> bool {
        self.is_prefix && prefix.starts_with(&self.prefix)
    }

    /// True if the key fits. A match that costs too much is none: the meter is over then.
    pub(crate) fn covers(&self, key: &[u8], meter: &Meter) -> bool {
        // The empty key fits `*` alone, and not `**`: the pattern itself knows.
        key.starts_with(&self.prefix) && (self.is_prefix && !key.is_empty() || self.glob.matches_within(key, meter))
    }
}

/// A selector, made ready.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    commands: Vec<u64>,
    /// First arguments with which a command is allowed that otherwise is not.
    first_arguments: Vec<(usize, Vec<u8>)>,
    keys: Option<Vec<Pattern>>,
    channels: Option<Vec<(Vec<u8>, Glob)>>,
    selector: Selector,
    /// Its part of a permit for scripts.
    scope: Vec<u8>,
}

impl Ready {
    fn new(selector: &Selector) -> Ready {
        let mut ready = Ready {
            commands: vec![if selector.all_commands { u64::MAX } else { 0 }; TABLE.rows.len().div_ceil(64)],
            first_arguments: Vec::new(),
            keys: None,
            channels: None,
            selector: selector.clone(),
            scope: Vec::new(),
        };
        for rule in &selector.commands {
            ready.take(rule);
        }
        if !selector.all_keys {
            ready.keys = Some(selector.keys.iter().map(Pattern::new).collect());
        }
        if !selector.all_channels {
            let of = |pattern: &Vec<u8>| (pattern.clone(), Glob::new(pattern));
            ready.channels = Some(selector.channels.iter().map(of).collect());
        }
        ready.scope = permit::scope_of(&ready, selector);
        ready
    }

    /// The commands and subcommands that it allows wholly.
    pub(super) fn allowed(&self) -> impl Iterator<Item = Known> {
        let may = |place: &usize| self.commands[place / 64] & (1 << (place % 64)) != 0;
        (0..TABLE.rows.len()).filter(may).map(|place| TABLE.rows[place].known)
    }

    /// Those that it allows with a first argument alone.
    pub(super) fn allowed_with_first_argument(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        self.first_arguments.iter().map(|(place, first)| (TABLE.rows[*place].spec.name, first.as_slice()))
    }

    fn set(&mut self, place: usize, may: bool) {
        let bit = 1_u64 << (place % 64);
        if may {
            self.commands[place / 64] |= bit;
        } else {
            self.commands[place / 64] &= !bit;
        }
    }

    /// Takes a rule such as `+get`.
    fn take(&mut self, rule: &str) {
        let (sign, name) = rule.split_at(1);
        let may = sign == "+";
        if let Some(category) = name.strip_prefix('@') {
            for (place, row) in TABLE.rows.iter().enumerate() {
                if row.categories.contains(&category) {
                    self.set(place, may);
                    self.first_arguments.retain(|(of, _)| *of != place);
                }
            }
            return;
        }
        match TABLE.place(name) {
            Some(place) => {
                let prefix = format!("{name}|");
                for (other, row) in TABLE.rows.iter().enumerate() {
                    if other == place || row.spec.name.starts_with(&prefix) {
                        self.set(other, may);
                        self.first_arguments.retain(|(of, _)| *of != other);
                    }
                }
            }
            None => {
                let found = name.rsplit_once('|').and_then(|(command, first)| Some((TABLE.place(command)?, first)));
                if let Some((place, first)) = found.filter(|_| may) {
                    self.first_arguments.push((place, first.as_bytes().to_vec()));
                }
            }
        }
    }

    fn may_command(&self, place: usize, words: &[&[u8]]) -> bool {
        self.commands[place / 64] & (1 << (place % 64)) != 0
            || words.get(1).is_some_and(|word| {
                self.first_arguments.iter().any(|(of, first)| *of == place && word.eq_ignore_ascii_case(first))
            })
    }

    fn may_key(&self, key: &[u8], wanted: Access, meter: &Meter) -> bool {
        self.keys.as_ref().is_none_or(|patterns| {
            patterns.iter().any(|pattern| {
                (pattern.access.reads || !wanted.reads)
                    && (pattern.access.writes || !wanted.writes)
                    && pattern.covers(key, meter)
                    && !meter.is_over()
            })
        })
    }

    /// Whether changes of all keys that a filter may want are for somebody who may read these keys. No one can tell cheaply if a pattern covers another one: one that says more
    /// than how keys begin has to be the same.
    fn may_filter(&self, filter: &Filter, meter: &Meter) -> bool {
        let Some(patterns) = &self.keys else { return true };
        let reads = Access { reads: true, writes: false };
        let readable = || patterns.iter().filter(|pattern| pattern.access.reads);
        let begins = |prefix: &[u8]| readable().any(|pattern| pattern.covers_prefix(prefix));
        (!filter.all || begins(b""))
            && filter.keys.iter().all(|key| self.may_key(key, reads, meter))
            && filter.prefixes.iter().all(|prefix| begins(prefix))
            && filter
                .patterns
                .iter()
                .all(|wanted| begins(wanted.prefix()) || readable().any(|pattern| *pattern.text == *wanted.text))
    }

    fn may_channel(&self, name: &[u8], kind: Kind, meter: &Meter) -> bool {
        self.channels.as_ref().is_none_or(|patterns| {
            patterns.iter().any(|(text, glob)| match kind {
                // No one can tell cheaply if a pattern covers another one, so it has to be the same.
                Kind::Pattern => text == name,
                Kind::Channel | Kind::Shard => glob.matches_within(name, meter) && !meter.is_over(),
            })
        })
    }

    fn may_bucket(&self, bucket: &str) -> bool {
        self.selector.buckets.as_ref().is_none_or(|buckets| buckets.contains(bucket))
    }

    fn has_all(&self) -> bool {
        let Selector { all_commands, commands, all_keys, all_channels, buckets, .. } = &self.selector;
        *all_commands && commands.is_empty() && *all_keys && *all_channels && buckets.is_none()
    }
}

/// The rights of a user.
#[derive(Clone, Debug)]
pub(crate) struct Rights {
    selectors: Vec<Ready>,
    has_all: bool,
    /// Its permit for scripts would be too long.
    has_long_permit: bool,
}

/// The keys and channels of a command, and its other needs.
struct Wish<'w> {
    place: usize,
    row: &'static Row,
    keys: Accesses<'w>,
    channels: &'w [&'w [u8]],
    needs: Option<(Whole, &'static str)>,
}

impl<'w> Wish<'w> {
    fn of(place: usize, row: &'static Row, words: &'w [&'w [u8]]) -> Wish<'w> {
        let access = |at: usize| match &row.accesses {
            Some(accesses) => accesses[at.min(accesses.len() - 1)],
            None => access_of(row.spec.key_flags_in(at, words)),
        };
        let keys = row.spec.keys_of(words).into_iter().enumerate();
        Wish {
            place,
            row,
            keys: keys.map(|(at, key)| (key, access(at))).collect(),
            channels: match row.channels {
                Some((_, true)) => &words[1..],
                Some((_, false)) => &words[1..2],
                None => &[],
            },
            needs: needs_of(row.known, words),
        }
    }
}

/// A right that a command needs wholly, because nothing narrower is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whole {
    Everything,
    Keys,
    Buckets,
}

impl Whole {
    /// The rules that give it.
    fn rules(self) -> &'static str {
        match self {
            Whole::Everything => "+@all ~* &* allbuckets",
            Whole::Keys => "~*",
            Whole::Buckets => "allbuckets",
        }
    }
}

/// The right that a command needs wholly, if it does, and why.
fn needs_of(known: Known, words: &[&[u8]]) -> Option<(Whole, &'static str)> {
    let spec = known.spec();
    match spec.name {
        "migrate" => Some((Whole::Everything, "it sends keys to another server")),
        // A user with more rights would run the code that it leaves behind. (A script is run by its digest, so SCRIPT LOAD changes nobody's.)
        "function|load" | "function|delete" | "function|flush" | "function|restore" | "script|flush" => {
            Some((Whole::Everything, "others run what it changes"))
        }
        "sync" | "psync" | "replconf" | "monitor" | "dictum.backup|open" | "dictum.backup|next" => {
            Some((Whole::Everything, "it tells of all keys"))
        }
        "dictum.outcome" => Some((Whole::Keys, "it tells the answers of others")),
        "dictum.bucket|create" | "dictum.bucket|set" | "dictum.bucket|drop" => {
            Some((Whole::Buckets, "it changes buckets"))
        }
        name if names_patterns(name, words) => {
            Some((Whole::Keys, "with BY or GET it reads keys that it does not name"))
        }
        name if works_in_buckets(name, words) => Some((Whole::Buckets, "it works in several buckets")),
        _ => None,
    }
}

/// `MIGRATE host port key|"" db timeout … [KEYS key …]`.
fn migrated<'w>(words: &'w [&'w [u8]]) -> Accesses<'w> {
    let behind = words.iter().position(|word| word.eq_ignore_ascii_case(b"keys")).map_or(words.len(), |at| at + 1);
    let first = words.get(3).filter(|key| !key.is_empty());
    first.into_iter().chain(&words[behind..]).map(|key| (*key, Access::ALL)).collect()
}

/// The keys that a command names, and what it does to each.
pub(crate) type Accesses<'w> = Vec<(&'w [u8], Access)>;

/// The name of a command, and its accesses. None of a command that is unknown or has too few words.
pub(crate) fn accesses_of<'w>(words: &'w [&'w [u8]]) -> Option<(&'static str, Accesses<'w>)> {
    if let [once, _, within @ ..] = words
        && once.eq_ignore_ascii_case(crate::commands::ONCE.as_bytes())
    {
        return accesses_of(within);
    }
    let (place, row) = TABLE.find(words)?;
    let fits = row.spec.arity_fits(words.len());
    // The table of commands says the host of MIGRATE in place of its keys.
    let keys = if row.spec.name == "migrate" { migrated(words) } else { Wish::of(place, row, words).keys };
    fits.then_some((row.spec.name, keys))
}

impl Rights {
    pub(crate) fn new(rules: &Rules) -> Rights {
        let selectors: Vec<Ready> = std::iter::once(&rules.root).chain(&rules.selectors).map(Ready::new).collect();
        let has_all = selectors.iter().any(Ready::has_all);
        let has_long_permit = selectors.iter().map(|ready| ready.scope.len()).sum::<usize>() > PERMIT_BYTES_MAX;
        Rights { selectors, has_all, has_long_permit }
    }

    /// What scripts of this user may call in a bucket, encoded ([`permit::decode`]).
    pub(crate) fn permit(&self, bucket: &str) -> Vec<u8> {
        let scopes: Vec<&[u8]> = self
            .selectors
            .iter()
            .filter(|ready| ready.may_bucket(bucket))
            .map(|ready| ready.scope.as_slice())
            .collect();
        permit::encode(scopes.into_iter())
    }

    /// True if these words run a script or a function for a user who may not do everything.
    pub(crate) fn runs_limited(&self, words: &[&[u8]]) -> bool {
        let is_once = words.first().is_some_and(|name| name.eq_ignore_ascii_case(crate::commands::ONCE.as_bytes()));
        let name = if is_once { words.get(2) } else { words.first() };
        let runs = |name: &&[u8]| data::lookup(name).is_some_and(|entry| entry.spec.flags.has(Flags::RUNS));
        !self.has_all && name.is_some_and(runs)
    }

    /// Everything: nothing has to be looked at.
    pub(crate) fn has_all(&self) -> bool {
        self.has_all
    }

    /// Judges a command in a bucket. An unknown command, or one with too few words, passes: it gets an error anyway.
    ///
    /// # Errors
    /// The refusal of the selector that comes furthest.
    pub(crate) fn check(&self, words: &[&[u8]], bucket: impl Fn() -> String) -> Result<(), Denied> {
        if self.has_all {
            return Ok(());
        }
        if self.has_long_permit && self.runs_limited(words) {
            return Err(Denied::scripts("its user has more rules than go into the entry of a script"));
        }
        // A command within a command has to be allowed as well.
        if let [once, _, within @ ..] = words
            && once.eq_ignore_ascii_case(crate::commands::ONCE.as_bytes())
        {
            self.check_within(within, &bucket)?;
        }
        self.check_within(words, &bucket)
    }

    fn check_within(&self, words: &[&[u8]], bucket: &impl Fn() -> String) -> Result<(), Denied> {
        let Some((place, row)) = TABLE.find(words) else { return Ok(()) };
        let spec = row.spec;
        if !spec.arity_fits(words.len()) || row.is_open {
            return Ok(());
        }
        // Most commands are of one key, and allowed: there is nothing to be gathered for them.
        if let (Some(access), Some(key)) = (row.only_key, words.get(1)) {
            let meter = Meter::limited(MATCHING_WORK_MAX);
            let allows = |selector: &Ready| {
                selector.may_command(place, words)
                    && (selector.selector.buckets.is_none() || selector.may_bucket(&bucket()))
                    && selector.may_key(key, access, &meter)
            };
            if self.selectors.iter().any(allows) {
                return Ok(());
            }
        }
        let wish = Wish::of(place, row, words);
        // Redis says of several refusals the one that is found last.
        let mut worst: Option<(u8, Denied)> = None;
        for selector in &self.selectors {
            match Self::check_one(selector, &wish, words, bucket) {
                Ok(()) => return Ok(()),
                Err((how_far, denied)) => {
                    if worst.as_ref().is_none_or(|(before, _)| how_far > *before) {
                        worst = Some((how_far, denied));
                    }
                }
            }
        }
        Err(worst.map_or(Denied::Command(spec.name), |(_, denied)| denied))
    }

    fn check_one(
        selector: &Ready,
        wish: &Wish<'_>,
        words: &[&[u8]],
        bucket: &impl Fn() -> String,
    ) -> Result<(), (u8, Denied)> {
        let spec = wish.row.spec;
        if !selector.may_command(wish.place, words) {
            return Err((0, Denied::Command(spec.name)));
        }
        if let Some((whole, why)) = wish.needs {
            let has = match whole {
                Whole::Everything => selector.has_all(),
                Whole::Keys => selector.keys.is_none(),
                Whole::Buckets => selector.selector.buckets.is_none(),
            };
            if !has {
                return Err((1, Denied::Whole(spec.name, whole.rules(), why)));
            }
        }
        // Commands of the connection are in no bucket.
        if wish.row.concerns_bucket && selector.selector.buckets.is_some() {
            let bucket = bucket();
            if !selector.may_bucket(&bucket) {
                return Err((2, Denied::Bucket(bucket)));
            }
        }
        // A database is made when it is first selected.
        if spec.name == "select" && selector.selector.buckets.is_some() {
            let named = bucket_selected(words[1]);
            if !selector.may_bucket(&named) {
                return Err((2, Denied::Bucket(named)));
            }
        }
        let meter = Meter::limited(MATCHING_WORK_MAX);
        for (key, access) in &wish.keys {
            if !selector.may_key(key, *access, &meter) {
                return Err((3, Denied::Key(key.to_vec())));
            }
        }
        if let Some((kind, _)) = wish.row.channels {
            for channel in wish.channels {
                if !selector.may_channel(channel, kind, &meter) {
                    return Err((4, Denied::Channel(channel.to_vec())));
                }
            }
        }
        Ok(())
    }

    /// Judges the choice of a bucket alone.
    ///
    /// # Errors
    /// No selector has it.
    pub(crate) fn check_bucket(&self, bucket: String) -> Result<(), Denied> {
        let may = self.has_all || self.selectors.iter().any(|selector| selector.may_bucket(&bucket));
        may.then_some(()).ok_or(Denied::Bucket(bucket))
    }

    /// Judges a subscription to the changes of a bucket: the user may subscribe, and read all keys that the filter may want.
    ///
    /// # Errors
    /// No selector allows it: a key, prefix or pattern of the filter, for the log.
    pub(crate) fn check_filter(&self, filter: &Filter, bucket: impl Fn() -> String) -> Result<(), Denied> {
        let subscribes = |ready: &Ready| TABLE.place("dictum.subscribe").is_some_and(|it| ready.may_command(it, &[]));
        let meter = Meter::limited(MATCHING_WORK_MAX);
        let may = |ready: &Ready| subscribes(ready) && ready.may_bucket(&bucket()) && ready.may_filter(filter, &meter);
        let is_allowed = self.has_all || self.selectors.iter().any(may);
        let words = filter.keys.iter().chain(&filter.prefixes);
        let first = words.chain(filter.patterns.iter().map(|pattern| &pattern.text)).next();
        is_allowed.then_some(()).ok_or_else(|| Denied::Key(first.map_or(b"*".to_vec(), |word| word.to_vec())))
    }

    /// True if the user may listen to a channel, or to a pattern.
    pub(crate) fn may_listen(&self, name: &[u8], kind: Kind) -> bool {
        self.has_all
            || self
                .selectors
                .iter()
                .any(|selector| selector.may_channel(name, kind, &Meter::limited(MATCHING_WORK_MAX)))
    }
}

#[cfg(test)]
mod tests;
