//! The commands that the scripts of an entry or of a read may call, for a user who may not do everything.
//!
//! A script is judged where it runs, on every replica, and replicas know no users. So its entry says what its user may do. Commands stand there by their names and
//! not by their categories: which category a command is in may change from build to build, and an entry means the same on all of them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::algorithms::glob::Glob;
use crate::commands::Entry;
use crate::failure::Failure;
use crate::key_flags::{changes, tells};
use crate::meter::Meter;
use crate::spec::Spec;
use crate::transaction::is_own;

/// Redis's texts, to the letter.
const NO_COMMAND: Failure = Failure::Text("ERR The user executing the script can't run this command or subcommand");
const NO_KEY: Failure = Failure::Text(
    "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
);
const NO_CHANNEL: Failure =
    Failure::Text("ERR The user executing the script can't publish to the channel mentioned in the command");
const NOT_SORTED: Failure = Failure::Text("ERR BY option of SORT denied due to insufficient ACL permissions.");
const NOT_FETCHED: Failure = Failure::Text("ERR GET option of SORT denied due to insufficient ACL permissions.");

/// Names of commands without data that scripts may call (`crate::transaction::own_command`, and those that publish).
pub const OWN_COMMANDS: [&str; 6] = ["ping", "time", "echo", "select", "publish", "spublish"];

/// So many refused calls of an entry or a read are told to the node of the client: a script may go on, and try without end.
pub const REFUSED_MAX: usize = 16;
/// So many bytes of the key, the channel or the command of one.
pub const REFUSED_BYTES_MAX: usize = 256;

/// Whether one of the options, which begin at this place, is this one.
fn says(words: &[&[u8]], from: usize, wanted: &str) -> bool {
    words.iter().skip(from).any(|word| word.eq_ignore_ascii_case(wanted.as_bytes()))
}

/// The specification of the subcommand that is called; of the command, if it is none.
fn sub_of<'s>(spec: &'s Spec, words: &[&[u8]]) -> &'s Spec {
    let name = spec.name_of(words);
    spec.subcommands.iter().find(|sub| sub.name == name).unwrap_or(spec)
}

/// Whether a command of this name reads keys that it does not name.
#[must_use]
pub fn names_patterns(name: &str, words: &[&[u8]]) -> bool {
    matches!(name, "sort" | "sort_ro") && (says(words, 2, "by") || says(words, 2, "get"))
}

/// Whether a command of this name works in more than the bucket of its connection.
#[must_use]
pub fn works_in_buckets(name: &str, words: &[&[u8]]) -> bool {
    matches!(name, "move" | "swapdb" | "flushall") || (name == "copy" && says(words, 3, "db"))
}

/// A pattern of keys, and what may be done with those that fit.
#[derive(Clone, Debug)]
pub struct KeyPattern {
    glob: Glob,
    reads: bool,
    writes: bool,
}

impl KeyPattern {
    /// Keys that this pattern takes may be read, changed or both.
    #[must_use]
    pub fn new(pattern: &[u8], reads: bool, writes: bool) -> KeyPattern {
        KeyPattern { glob: Glob::new(pattern), reads, writes }
    }
}

/// A set of rights. A call has to be allowed by one of them wholly.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Commands and subcommands in lower case, as `object|freq`; none: all of them.
    pub commands: Option<BTreeSet<Vec<u8>>>,
    /// First arguments with which a command is allowed that otherwise is not, in lower case.
    pub first_arguments: Vec<(Vec<u8>, Vec<u8>)>,
    /// None: all of them.
    pub keys: Option<Vec<KeyPattern>>,
    /// Patterns of channels to publish to; none: all of them.
    pub channels: Option<Vec<Glob>>,
    /// It has every bucket.
    pub all_buckets: bool,
}

/// What scripts may call: see the file's head.
#[derive(Clone, Debug, Default)]
pub struct Permit {
    /// The sets of rights.
    pub scopes: Vec<Scope>,
}

/// A call of a script, with the facts by which it is judged.
struct Wanted<'w> {
    /// The command, or the subcommand.
    name: Vec<u8>,
    /// Each key, whether it is read and whether it is changed.
    keys: Vec<(&'w [u8], bool, bool)>,
    channel: Option<&'w [u8]>,
    /// It names keys by patterns.
    fetches: Option<Failure>,
    needs_all_buckets: bool,
}

impl<'w> Wanted<'w> {
    fn of(spec: &Spec, words: &[&'w [u8]]) -> Wanted<'w> {
        let name = spec.name_of(words);
        let spec = sub_of(spec, words);
        let keys = spec.keys_of(words).into_iter().enumerate().map(|(place, key)| {
            let flags = spec.key_flags_in(place, words);
            (key, tells(flags), changes(flags))
        });
        Wanted {
            name: name.as_bytes().to_vec(),
            keys: keys.collect(),
            channel: None,
            fetches: names_patterns(name, words).then(|| if says(words, 2, "by") { NOT_SORTED } else { NOT_FETCHED }),
            needs_all_buckets: works_in_buckets(name, words),
        }
    }

    /// Of a command that is none on keys.
    fn elsewhere(words: &[&'w [u8]]) -> Wanted<'w> {
        let name = words[0].to_ascii_lowercase();
        let publishes = name == b"publish" || name == b"spublish";
        let channel = words.get(1).copied().filter(|_| publishes);
        Wanted { name, keys: Vec::new(), channel, fetches: None, needs_all_buckets: false }
    }
}

/// Which part of a call a user may not, as Redis's `ACL LOG` tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RefusedCall {
    /// The command, or the subcommand.
    Command(Vec<u8>),
    /// A key among its words.
    Key(Vec<u8>),
    /// The channel to which it publishes.
    Channel(Vec<u8>),
    /// Patterns of keys: `SORT` itself says so, and Redis logs nothing.
    Pattern(Failure),
}

impl RefusedCall {
    fn failure(&self) -> Failure {
        match self {
            RefusedCall::Command(_) => NO_COMMAND,
            RefusedCall::Key(_) => NO_KEY,
            RefusedCall::Channel(_) => NO_CHANNEL,
            RefusedCall::Pattern(failure) => failure.clone(),
        }
    }
}

/// Copies the object of a refusal, as much of it as a log keeps.
fn shortened(object: &[u8]) -> Vec<u8> {
    object[..object.len().min(REFUSED_BYTES_MAX)].to_vec()
}

impl Permit {
    /// Judges a call. An unknown command, and one with too few words, passes: it gets an error anyway. What is compared has to be paid for.
    ///
    /// # Errors
    /// The refusal of the set of rights that comes furthest.
    fn check(&self, entry: Option<&Entry>, words: &[&[u8]], meter: &Meter) -> Result<(), RefusedCall> {
        match entry {
            Some(entry) if !entry.spec.arity_fits(words.len()) => Ok(()),
            Some(entry) => self.judge(&Wanted::of(entry.spec, words), words, meter),
            None if is_own(words[0]) => self.judge(&Wanted::elsewhere(words), words, meter),
            None => Ok(()),
        }
    }

    /// Whether a call would be allowed, for a script that asks beforehand. With too few words the command alone is judged, as in Redis. No permit has the
    /// commands that clients alone may call.
    pub(crate) fn allows(&self, entry: Option<&Entry>, words: &[&[u8]], meter: &Meter) -> bool {
        let wanted = match entry.map(|entry| (entry.spec, sub_of(entry.spec, words))) {
            Some((spec, sub)) if spec.arity_fits(words.len()) && sub.arity_fits(words.len()) => Wanted::of(spec, words),
            Some((_, sub)) => Wanted::elsewhere(&[sub.name.as_bytes()]),
            None => Wanted::elsewhere(words),
        };
        self.judge(&wanted, words, meter).is_ok()
    }

    fn judge(&self, wanted: &Wanted<'_>, words: &[&[u8]], meter: &Meter) -> Result<(), RefusedCall> {
        let mut worst = (0, None);
        for scope in &self.scopes {
            match scope.check(wanted, words, meter) {
                Ok(()) => return Ok(()),
                Err((how_far, refused)) if how_far > worst.0 => worst = (how_far, Some(refused)),
                Err(_) => {}
            }
        }
        Err(worst.1.unwrap_or_else(|| RefusedCall::Command(shortened(&wanted.name))))
    }
}

impl Scope {
    fn check(&self, wanted: &Wanted<'_>, words: &[&[u8]], meter: &Meter) -> Result<(), (u8, RefusedCall)> {
        let begins_so = |(of, first): &(Vec<u8>, Vec<u8>)| {
            *of == wanted.name && words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(first))
        };
        let may = self.commands.as_ref().is_none_or(|names| names.contains(&wanted.name));
        if !may && !self.first_arguments.iter().any(begins_so) {
            return Err((0, RefusedCall::Command(shortened(&wanted.name))));
        }
        if wanted.needs_all_buckets && !self.all_buckets {
            return Err((1, RefusedCall::Command(shortened(&wanted.name))));
        }
        for (key, reads, writes) in &wanted.keys {
            let fits = |pattern: &KeyPattern| {
                meter.spend(1);
                (pattern.reads || !reads) && (pattern.writes || !writes) && pattern.glob.matches_within(key, meter)
            };
            if self.keys.as_ref().is_some_and(|patterns| !patterns.iter().any(fits)) {
                return Err((3, RefusedCall::Key(shortened(key))));
            }
        }
        if let Some(failure) = wanted.fetches.clone().filter(|_| self.keys.is_some()) {
            return Err((4, RefusedCall::Pattern(failure)));
        }
        if let (Some(channel), Some(patterns)) = (wanted.channel, &self.channels) {
            let fits = |glob: &Glob| {
                meter.spend(1);
                glob.matches_within(channel, meter)
            };
            if !patterns.iter().any(fits) {
                return Err((5, RefusedCall::Channel(shortened(channel))));
            }
        }
        Ok(())
    }
}

/// The permit of the entry or the read that is under way, and the calls that it has refused. No part of the state: it is said before each entry and each read.
/// Interior mutability lets reads have one.
#[derive(Clone, Debug, Default)]
pub struct UnderWay {
    permit: RefCell<Option<Arc<Permit>>>,
    /// The first [`REFUSED_MAX`] of the calls.
    refused: RefCell<Vec<RefusedCall>>,
}

impl UnderWay {
    /// From here on scripts go by this; none: they may call everything.
    pub fn set(&self, permit: Option<Permit>) {
        *self.permit.borrow_mut() = permit.map(Arc::new);
        self.refused.borrow_mut().clear();
    }

    /// The permit, if there is one.
    pub(crate) fn permit(&self) -> Option<Arc<Permit>> {
        self.permit.borrow().clone()
    }

    /// The calls that were refused since [`UnderWay::set`], up to [`REFUSED_MAX`], for the node of the client whose script it was.
    #[must_use]
    pub fn take_refused(&self) -> Vec<RefusedCall> {
        std::mem::take(&mut *self.refused.borrow_mut())
    }

    /// Judges a call of a script. `entry` is its command, if the version of the entry knows that: a later build must not find another refusal than an earlier one.
    ///
    /// # Errors
    /// As Redis says it to the script.
    pub(crate) fn check(&self, entry: Option<&Entry>, words: &[&[u8]], meter: &Meter) -> Result<(), Failure> {
        let permit = self.permit.borrow();
        let Some(Err(refused)) = permit.as_ref().map(|permit| permit.check(entry, words, meter)) else { return Ok(()) };
        let failure = refused.failure();
        let mut all = self.refused.borrow_mut();
        if all.len() < REFUSED_MAX && !matches!(refused, RefusedCall::Pattern(_)) {
            all.push(refused);
        }
        Err(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryContext, Reply, Tree};

    fn scope(commands: &[&str], keys: &[(&str, bool, bool)]) -> Scope {
        Scope {
            commands: Some(commands.iter().map(|name| name.as_bytes().to_vec()).collect()),
            keys: Some(
                keys.iter().map(|(text, reads, writes)| KeyPattern::new(text.as_bytes(), *reads, *writes)).collect(),
            ),
            channels: Some(vec![Glob::new(b"c*")]),
            ..Scope::default()
        }
    }

    fn says(tree: &mut Tree, script: &str) -> Reply {
        let context = EntryContext { version: base::versions::NEWEST, ..EntryContext::default() };
        crate::apply(tree, &context, &[b"eval", script.as_bytes(), b"0"]).reply
    }

    #[test]
    fn each_call_is_judged_and_what_came_before_a_refusal_stays() {
        let mut tree = Tree::default();
        let permit = Permit {
            scopes: vec![
                scope(&["set", "get", "publish", "object|freq", "sort"], &[("a*", true, true), ("r*", true, false)]),
                scope(&["get"], &[("second:*", true, true)]),
            ],
        };
        tree.under_way().set(Some(permit));
        let (command, key, channel) = ("can't run this command", "can't access at least one", "can't publish");
        for (script, refused) in [
            ("return redis.call('set', 'a', '1')", None),
            ("return redis.call('get', 'a')", None),
            ("return redis.call('get', 'second:x')", None),
            ("return redis.call('set', 'second:x', '1')", Some(key)),
            ("return redis.call('set', 'b', '1')", Some(key)),
            ("return redis.call('get', 'r')", None),
            ("return redis.call('SET', 'r', '1')", Some(key)),
            ("return redis.call('del', 'a')", Some(command)),
            ("return redis.call('object', 'encoding', 'a')", Some(command)),
            ("return redis.call('object', 'freq', 'b')", Some(key)),
            ("return redis.call('publish', 'c', 'x')", None),
            ("return redis.call('publish', 'd', 'x')", Some(channel)),
            ("return redis.call('ping')", Some(command)),
            ("return redis.call('flushall')", Some(command)),
            ("return redis.call('sort', 'a', 'by', 'w*')", Some("BY option of SORT denied")),
            ("return redis.call('nosuch')", Some("Unknown Redis command")),
            ("return redis.call('get')", Some("Wrong number of args")),
            ("redis.call('set', 'a', 'kept'); return redis.call('del', 'a')", Some(command)),
            ("return redis.pcall('del', 'a').err", None),
        ] {
            let reply = says(&mut tree, script);
            let text = match &reply {
                Reply::Error(failure) => Some(failure.to_string()),
                _ => None,
            };
            match refused {
                Some(words) => assert!(text.as_ref().is_some_and(|text| text.contains(words)), "{script}: {reply:?}"),
                None => assert_eq!(text, None, "{script}"),
            }
        }
        tree.under_way().set(None);
        assert_eq!(says(&mut tree, "return redis.call('get', 'a')"), Reply::bulk("kept"));
        assert_eq!(says(&mut tree, "return redis.call('get', 'b')"), Reply::Nil);
    }

    #[test]
    fn scripts_can_ask_before_they_call() {
        let mut tree = Tree::default();
        let permit = Permit {
            scopes: vec![
                scope(&["set", "get", "publish", "object|freq", "copy"], &[("a*", true, true), ("db", true, true)]),
                scope(&["get"], &[("second:*", true, true)]),
            ],
        };
        let invalid = "Invalid command passed";
        for (arguments, with_permit, without) in [
            ("'set', 'a', '1'", Ok(1), Ok(1)),
            ("'SET'", Ok(1), Ok(1)),
            ("'set', 'b', 1", Ok(0), Ok(1)),
            ("'set', 'second:x', 1", Ok(0), Ok(1)),
            ("'get', 'second:x'", Ok(1), Ok(1)),
            ("'del', 'a'", Ok(0), Ok(1)),
            ("'del'", Ok(0), Ok(1)),
            ("'object', 'freq', 'a'", Ok(1), Ok(1)),
            ("'object', 'freq', 'b'", Ok(0), Ok(1)),
            ("'object', 'freq'", Ok(1), Ok(1)),
            ("'object', 'encoding', 'a'", Ok(0), Ok(1)),
            ("'publish', 'c', 'x'", Ok(1), Ok(1)),
            ("'publish', 'd', 'x'", Ok(0), Ok(1)),
            ("'copy', 'a', 'db'", Ok(1), Ok(1)),
            ("'copy', 'a', 'db', 'DB', '1'", Ok(0), Ok(1)),
            ("'ping'", Ok(0), Ok(1)),
            ("'config', 'get', '*'", Ok(0), Ok(1)),
            ("'nosuch'", Err(invalid), Err(invalid)),
            ("'object', 'nosuch', 'a'", Err(invalid), Ok(1)),
            ("'set', {}", Err("must be strings or integers"), Ok(1)),
        ] {
            for (permit, expected) in [(Some(permit.clone()), with_permit), (None, without)] {
                tree.under_way().set(permit);
                let reply = says(&mut tree, &format!("return redis.acl_check_cmd({arguments}) and 1 or 0"));
                match expected {
                    Ok(number) => assert_eq!(reply, Reply::Integer(number), "{arguments}"),
                    Err(words) => {
                        let Reply::Error(failure) = reply else { panic!("{arguments}: {reply:?}") };
                        assert!(failure.to_string().contains(words), "{arguments}: {failure}");
                    }
                }
            }
        }
    }

    /// A build that has a command says of it what an earlier build says that has it not, as long as the version of the entry does not know it.
    #[test]
    fn commands_that_came_later_are_unknown_and_not_refused() {
        let is_later = |entry: &&Entry| base::versions::command_since(entry.spec.name) > base::versions::OLDEST;
        let later = crate::commands::COMMANDS.iter().find(is_later).expect("some came later");
        let mut tree = Tree::default();
        tree.under_way().set(Some(Permit { scopes: vec![scope(&["get"], &[])] }));
        let context = EntryContext { version: base::versions::OLDEST, ..EntryContext::default() };
        let script = format!("return redis.call('{}', 'a', 'b', 'c')", later.spec.name);
        let reply = crate::apply(&mut tree, &context, &[b"eval", script.as_bytes(), b"0"]).reply;
        let Reply::Error(failure) = reply else { panic!("{reply:?}") };
        assert!(failure.to_string().contains("Unknown Redis command"), "{script}: {failure}");
    }

    #[test]
    fn what_is_compared_is_paid_for() {
        let spent = |patterns: usize| {
            let mut tree = Tree::default();
            let patterns: Vec<String> = (0..patterns).map(|number| format!("*{number}*x*y")).collect();
            let keys: Vec<(&str, bool, bool)> = patterns.iter().map(|text| (text.as_str(), true, true)).collect();
            tree.under_way().set(Some(Permit { scopes: vec![scope(&["get"], &keys)] }));
            says(&mut tree, "for i = 1, 100 do redis.pcall('get', 'k') end");
            tree.meter().spent()
        };
        let (few, many) = (spent(1), spent(1000));
        assert!(many - few >= 100 * 999, "{few} and {many}");
    }
}
