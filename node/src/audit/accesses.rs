//! Which reads and writes of keys stand in the audit trail: those that the settings `audit-keys` and `audit-keys-rate` ask for.
//!
//! The node tells a command once, when it carries it out, at the place where `MONITOR` shows it: after it has looked at the user's rights. It tells the commands of a
//! transaction at `EXEC`. It tells the keys that a command names; of a script, those that it was given, and not its calls.

use std::time::Duration;

use data::meter::Meter;

use super::{AuditEvent, NAMES_MAX, glue::actor, shown};
use crate::access;
use crate::access::compiled::{Pattern, accesses_of};
use crate::access::rules::{Access, Selector};
use crate::node::Node;
use crate::session::Session;
use crate::settings::VALUE_BYTES_MAX;

/// How many accesses a second are told in the long run, unless `audit-keys-rate` says otherwise. By 300 bytes a record, these are 260 MB a day.
const PER_SECOND_DEFAULT: u32 = 10;
pub(crate) const PER_SECOND_MAX: u32 = 100_000;
/// Units of work that one command may cost; beyond that its keys are told without a further look.
const MATCHING_WORK_MAX: u64 = 1_000_000;
/// Most bytes of the names of keys in one record; the keys behind these are counted.
const NAMES_BYTES_MAX: usize = 2048;
/// How the addresses of connections begin by which the owner does errands (`server/src/errands.rs`).
const ERRAND: &str = "errand";
/// Most patterns.
const PATTERNS_MAX: usize = 100;

/// True if a pattern has an access told. One whose match costs too much is told as well.
fn concerns(pattern: &Pattern, key: &[u8], wanted: Access, meter: &Meter) -> bool {
    let access = pattern.access;
    // Commands such as `EXISTS` and `SISMEMBER` tell of a key though they tell no value.
    let is_wanted = access == Access::ALL || access.reads && wanted.reads || access.writes && wanted.writes;
    is_wanted && (pattern.covers(key, meter) || meter.is_over())
}

/// Which accesses are told, and how many.
#[derive(Clone, Debug)]
pub(crate) struct AuditedKeys {
    /// As it was set.
    text: String,
    patterns: Vec<Pattern>,
    per_second: u32,
}

impl Default for AuditedKeys {
    fn default() -> AuditedKeys {
        AuditedKeys { text: String::new(), patterns: Vec::new(), per_second: PER_SECOND_DEFAULT }
    }
}

impl AuditedKeys {
    /// The patterns as `CONFIG GET` shows them.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn per_second(&self) -> u32 {
        self.per_second
    }

    pub(crate) fn set_per_second(&mut self, per_second: u32) {
        self.per_second = per_second.clamp(1, PER_SECOND_MAX);
    }

    /// Takes patterns as ACL rules name keys: `~card:* %W~cart:*`. None at all: nothing is told.
    ///
    /// # Errors
    /// A text for the client that sets it.
    pub(crate) fn set(&mut self, value: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(value).map_err(|_| "argument must be text".to_owned())?;
        if text.len() > VALUE_BYTES_MAX {
            return Err(format!("argument is longer than {VALUE_BYTES_MAX} bytes"));
        }
        let mut selector = Selector::default();
        for rule in text.split_ascii_whitespace() {
            let is_of_keys = rule.starts_with('~') || rule.starts_with('%');
            // The selector keeps `~*` as a flag, and not among its patterns.
            let rule = if rule == "~*" { "%RW~*" } else { rule };
            let taken = is_of_keys && selector.change(rule.as_bytes()).is_ok();
            if !taken {
                return Err("argument must be patterns of keys as ACL rules have them: ~card:* %R~ssn:*".to_owned());
            }
        }
        if selector.keys.len() > PATTERNS_MAX {
            return Err(format!("argument has more than {PATTERNS_MAX} patterns"));
        }
        self.patterns = selector.keys.iter().map(Pattern::new).collect();
        self.text = text.split_ascii_whitespace().collect::<Vec<&str>>().join(" ");
        Ok(())
    }
}

/// A command is carried out for its client.
pub(crate) fn accessed(node: &mut Node, session: &Session, words: &[&[u8]]) {
    let audited = &node.audit.audited;
    // An errand works for a command (`MIGRATE`, `COPY … DB`) that has been told already.
    if audited.patterns.is_empty() || session.is_own() && session.address.starts_with(ERRAND) {
        return;
    }
    let Some((command, accesses)) = accesses_of(words) else { return };
    let meter = Meter::limited(MATCHING_WORK_MAX);
    let is_too_much = accesses.len().saturating_mul(audited.patterns.len()) as u64 > MATCHING_WORK_MAX;
    let (mut keys, mut all) = (Vec::new(), Access::default());
    for (key, access) in accesses {
        if is_too_much || audited.patterns.iter().any(|pattern| concerns(pattern, key, access, &meter)) {
            (all.reads, all.writes) = (all.reads || access.reads, all.writes || access.writes);
            keys.push(key);
        }
    }
    let every = Duration::from_secs(1) / audited.per_second;
    if keys.is_empty() || !node.audit.accesses.take_one_per(node.now.time, every) {
        return;
    }
    let access = match (all.reads, all.writes) {
        (true, true) => "read, write",
        (false, true) => "write",
        (true, false) => "read",
        (false, false) => "look",
    };
    let mut room = NAMES_BYTES_MAX;
    let shown = keys.iter().take(NAMES_MAX).map(|key| shown::bytes(key));
    let shown: Vec<String> = shown
        .take_while(|name| {
            let fits = name.len() <= room;
            room = room.saturating_sub(name.len());
            fits
        })
        .collect();
    let more = keys.len() - shown.len();
    let event = AuditEvent::Accessed {
        by: actor(session, &session.user.name),
        command,
        bucket: shown::bytes(access::bucket_name(node, session).as_bytes()),
        access,
        keys: shown,
        more,
    };
    node.audit.push(node.clock.own(), event);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_rules() {
        let mut audited = AuditedKeys::default();
        let fits = |audited: &AuditedKeys, key: &[u8], reads, writes| {
            let meter = Meter::limited(1000);
            audited.patterns.iter().any(|pattern| concerns(pattern, key, Access { reads, writes }, &meter))
        };
        assert_eq!(audited.set(b"  ~card:*   %R~ssn:? %w~log "), Ok(()));
        assert_eq!(audited.text(), "~card:* %R~ssn:? %w~log");
        assert!(fits(&audited, b"card:7", true, false) && fits(&audited, b"card:7", false, true));
        assert!(fits(&audited, b"ssn:7", true, false) && !fits(&audited, b"ssn:7", false, true));
        assert!(fits(&audited, b"log", true, true) && !fits(&audited, b"log", true, false));
        assert!(!fits(&audited, b"other", true, true) && !fits(&audited, b"ssn:77", true, true));
        // Commands that tell no value, and change none.
        assert!(fits(&audited, b"card:7", false, false) && !fits(&audited, b"log", false, false));
        for wrong in ["card:*", "+get", "allkeys", "bucket=a", "%X~a", "~a resetkeys", "(~a)", "&a"] {
            assert!(audited.set(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert_eq!(audited.text(), "~card:* %R~ssn:? %w~log", "what is refused changes nothing");
        assert_eq!(audited.set(b"~*"), Ok(()));
        assert!(fits(&audited, b"any", true, false));
        assert_eq!(audited.set(b""), Ok(()));
        assert!(audited.patterns.is_empty());
        let many: Vec<String> = (0..101).map(|number| format!("~{number}")).collect();
        assert!(audited.set(many.join(" ").as_bytes()).is_err());
    }
}
