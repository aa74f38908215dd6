//! Roles: named sets of rules about commands, `role=writer` in `ACL SETUSER`.
//!
//! The node that proposes a change puts the rules of a role in its place, so the council, its log and `ACL LIST` have plain rules:
//! 1. Nodes of several builds come to the same state. Were a role expanded where the order is applied, two builds with other roles would not.
//! 2. A later build changes nobody's rights by a new idea of a role. Where a role is to have commands that a later build brings, its rules name a category
//!    (`+@read`), which each build reads by its own table; where it is not, they name commands, and what is new stays closed.
//! 3. Programs that read the users of a Redis read them.
//!
//! The commands of a role are chosen so that nobody gets from one role to the next (docs/security.md has the table):
//! - `viewer` and `operator` name each command, and none of these tells or changes a key, a value or the name of a channel.
//! - What an operator does, an operator can undo. Users, nodes, settings, buckets and the end of a process are the admin's.
//! - No role but `admin` leaves code behind that others run. Scripts are called with the rights of the user, or not at all ([`super::compiled`]).

use std::sync::LazyLock;

use super::rules::{Refusal, Selector};

/// A rule that names a role begins with this.
const MARK: &[u8] = b"role=";
/// For roles that name each command: what clients send when they connect, and commands about the connection itself.
const CONNECTS: &str = "+ping +echo +hello +auth +reset +quit +select +readonly +readwrite +asking +command +client|getname +client|help +client|id +client|info \
    +client|no-touch +client|reply +client|setinfo +client|setname";
/// Commands that tell of the cluster without telling of keys. Drivers send many of them by themselves.
const ORIENTS: &str = "+info +role +time +acl|whoami +cluster|help +cluster|info +cluster|keyslot +cluster|links +cluster|myid +cluster|myshardid \
    +cluster|nodes +cluster|shards +cluster|slots +dictum.status +dictum.age";
/// Commands by which a person watches a cluster, without keys and values. `SLOWLOG GET` is not among them: it shows the words of commands.
const LOOKS: &str = "+dbsize +lastsave +client|list +config|get +latency|doctor +latency|graph +latency|help +latency|histogram +latency|history \
    +latency|latest +memory|doctor +memory|malloc-stats +memory|stats +module|list +slowlog|len +dictum.bucket|list +dictum.bucket|show +dictum.node|list \
    +dictum.node|settings";
/// Commands that keep a cluster running, each of which one of the others undoes.
const OPERATES: &str = "+client|kill +client|no-evict +client|pause +client|unblock +client|unpause +config|resetstat +latency|reset +slowlog|reset \
    +dictum.node|auto-replace +dictum.node|drain +dictum.node|pause +dictum.node|promote +dictum.node|resume";
const READS: &str = "+@read +@connection +@transaction -@write -@dangerous -@admin -@scripting +subscribe +unsubscribe +psubscribe +punsubscribe \
    +ssubscribe +sunsubscribe +eval_ro +evalsha_ro +fcall_ro +dictum.consistency +dictum.token";
const WRITES: &str = "+@read +@write +@connection +@transaction +@pubsub -@dangerous -@admin -@scripting +eval +eval_ro +evalsha +evalsha_ro +fcall \
    +fcall_ro +script|exists +script|load +dictum.consistency +dictum.durability +dictum.outcome +dictum.token";

/// The roles, each with its rules, which follow `nocommands` and, outside of a selector, `clearselectors`.
const ROLES: &[(&str, &[&str])] = &[
    ("viewer", &[CONNECTS, ORIENTS, LOOKS]),
    ("reader", &[READS, ORIENTS]),
    ("writer", &[WRITES, ORIENTS]),
    ("operator", &[CONNECTS, ORIENTS, LOOKS, OPERATES]),
    // Whole rights, and nothing narrower: see `Rights::has_all`.
    ("admin", &["allkeys allchannels allbuckets +@all"]),
];

/// The names of all roles.
pub const NAMES: [&str; 5] = ["viewer", "reader", "writer", "operator", "admin"];

/// Each role with what `ACL GETUSER` tells of its commands.
static TOLD: LazyLock<Vec<(&'static str, String)>> = LazyLock::new(|| {
    let told = |role: &'static str| {
        let mut selector = Selector::default();
        for rule in rules_of(role.as_bytes()).ok()? {
            selector.change(&rule).ok()?;
        }
        Some((role, selector.commands_text()))
    };
    NAMES.into_iter().filter_map(told).collect()
});

/// The role of this build that has the commands of a user, and the rules that stand behind it (`-del`): for those who show users to people. None if there is no
/// such role: then all rules are the user's own, or those of a role of another build.
#[must_use]
pub fn role_of(commands: &str) -> Option<(&'static str, &str)> {
    // An operator's rules begin with those of a viewer: the role that leaves the fewest to be told.
    let fitting = TOLD.iter().filter_map(|(role, told)| match commands.strip_prefix(told.as_str())? {
        "" => Some((*role, "")),
        rest => Some((*role, rest.strip_prefix(' ')?)),
    });
    fitting.min_by_key(|(_, rest)| rest.len())
}

/// The rules that a rule stands for: those of its role, if it names one, also within a selector; otherwise itself.
///
/// # Errors
/// There is no such role.
pub(crate) fn expanded(rule: Vec<u8>) -> Result<Vec<Vec<u8>>, Refusal> {
    if let [b'(', within @ .., b')'] = rule.as_slice() {
        let mut words: Vec<Vec<u8>> = Vec::new();
        for word in within.split(|byte| *byte == b' ') {
            match name_of(word) {
                Some(name) => words.extend(rules_of(name)?),
                None => words.push(word.to_vec()),
            }
        }
        return Ok(vec![[b"(", words.join(&b' ').as_slice(), b")"].concat()]);
    }
    match name_of(&rule) {
        // The role is all that the user may do: what a selector gave before is gone.
        Some(name) => Ok(std::iter::once(b"clearselectors".to_vec()).chain(rules_of(name)?).collect()),
        None => Ok(vec![rule]),
    }
}

fn name_of(rule: &[u8]) -> Option<&[u8]> {
    let (mark, name) = rule.split_at_checked(MARK.len())?;
    mark.eq_ignore_ascii_case(MARK).then_some(name)
}

fn rules_of(name: &[u8]) -> Result<impl Iterator<Item = Vec<u8>>, Refusal> {
    let (_, rules) =
        ROLES.iter().find(|(role, _)| name.eq_ignore_ascii_case(role.as_bytes())).ok_or(Refusal::UnknownRole)?;
    let words = rules.iter().flat_map(|words| words.split_ascii_whitespace());
    Ok(std::iter::once("nocommands").chain(words).map(|word| word.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests;
