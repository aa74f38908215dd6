//! Which writes are taken while there is no room to grow: what frees room, and what at least takes none that counts.
//!
//! Asked by a node before a write goes to the log, and never while an entry is applied: what a disk has room for is not the same on every replica.

use crate::collections::Collections;
use crate::script::library::script_head;
use crate::spec::{Flags, Spec};
use crate::tree::Tree;

/// Writes that a Redis takes without room (they are not marked `denyoom`), though they free none: those that keep something new, and those that write a
/// value, or a member, anew in another place. What moves or gives deadlines within a few bytes (`EXPIRE`, `XREADGROUP`, `XACK`) is not among them: clients
/// that work a queue off need it.
const FREE_NOTHING: [&str; 9] = [
    "function|load",
    "function|restore",
    "json.toggle",
    "rename",
    "renamenx",
    "script|load",
    "smove",
    "xgroup|create",
    "xgroup|createconsumer",
];

/// Whether a command may make the state larger, by what is known of it without running it: `name` is what [`Spec::name_of`] says of it.
///
/// Scripts may, whatever they call: see [`needs_room`].
#[must_use]
pub fn is_growing(spec: &Spec, name: &str) -> bool {
    let flags = spec.flags;
    flags.has(Flags::WRITE) && (flags.has(Flags::DENYOOM) || flags.has(Flags::RUNS) || FREE_NOTHING.contains(&name))
}

/// Whether a command is to be refused where there is no room to grow.
///
/// A script is, unless its flags say that it writes nothing (`no-writes`) or may run anyway (`allow-oom`): what it will call is not known. `tree` is what
/// is known of the partition's state here, if anything, for scripts that are called by their names.
#[must_use]
pub fn needs_room(spec: &Spec, words: &[&[u8]], tree: Option<&Tree>) -> bool {
    if !spec.flags.has(Flags::RUNS) {
        return is_growing(spec, spec.name_of(words));
    }
    spec.flags.has(Flags::WRITE) && !is_allowed(spec.name, words, tree.map(|tree| &tree.collections))
}

fn is_allowed(name: &str, words: &[&[u8]], kept: Option<&Collections>) -> bool {
    let Some(called) = words.get(1) else { return false };
    let by_head = |body: &[u8]| script_head(body).is_ok_and(|said| said.no_writes || said.allow_oom);
    match (name, kept) {
        ("eval", _) => by_head(called),
        ("evalsha", Some(kept)) => {
            let sha = String::from_utf8_lossy(called).to_ascii_lowercase();
            // What is not there is refused with that reason.
            kept.script(&sha).is_none_or(|body| by_head(&body))
        }
        ("fcall", Some(kept)) => {
            let found = kept.function_in_any_case(called, base::versions::NEWEST);
            found.is_none_or(|found| found.function.no_writes() || found.function.allows_oom())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::COMMANDS;

    /// A new command that writes without `denyoom` is listed here if it frees room, or in `FREE_NOTHING` if it does not.
    #[test]
    fn what_is_taken_without_room_is_this_and_nothing_else() {
        let mut taken: Vec<&str> = Vec::new();
        for entry in COMMANDS {
            let spec = entry.spec;
            let all = if spec.subcommands.is_empty() { std::slice::from_ref(spec) } else { spec.subcommands };
            let writes = |it: &&Spec| it.flags.has(Flags::WRITE) && !is_growing(spec, it.name);
            taken.extend(all.iter().filter(writes).map(|it| it.name));
        }
        taken.sort_unstable();
        let shown = taken.join(" ");
        assert_eq!(shown, TAKEN.split_whitespace().collect::<Vec<_>>().join(" "));
        let names: Vec<&str> = COMMANDS
            .iter()
            .flat_map(|entry| entry.spec.subcommands.iter().map(|it| it.name).chain([entry.spec.name]))
            .collect();
        assert!(FREE_NOTHING.iter().all(|name| names.contains(name)), "a name is misspelt");
    }

    const TAKEN: &str = "
        blmpop blpop brpop bzmpop bzpopmax bzpopmin del delex dictum.ack dictum.del dictum.forget expire expireat flushall flushdb
        function|delete function|dump function|flush function|help function|kill function|list function|stats
        getdel getex hdel hgetdel hgetex hpersist json.arrpop json.arrtrim json.clear json.del json.forget
        lmpop lpop lrem ltrim persist pexpire pexpireat rpop script|debug script|exists script|flush
        script|help script|kill spop srem unlink xack xackdel xautoclaim xclaim xdel xdelex xgroup|delconsumer
        xgroup|destroy xgroup|help xgroup|setid xreadgroup xtrim zmpop zpopmax zpopmin zrem zremrangebylex
        zremrangebyrank zremrangebyscore
    ";

    fn refused(line: &str) -> bool {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let entry = crate::lookup(words[0]).expect("it is a command");
        needs_room(entry.spec, &words, None)
    }

    #[test]
    fn a_script_says_by_its_flags_whether_it_is_taken() {
        assert!(refused("EVAL return 0"));
        assert!(refused("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0"));
        assert!(!refused("EVAL_RO return 0"));
        let with = |flags: &str| {
            let body = format!("#!lua flags={flags}\nreturn 1");
            needs_room(crate::lookup(b"eval").expect("it is there").spec, &[b"eval", body.as_bytes(), b"0"], None)
        };
        assert!(!with("no-writes") && !with("allow-oom") && !with("allow-stale,allow-oom"));
        assert!(with("allow-stale") && with("no-such-flag"));
    }

    #[test]
    fn subcommands_are_told_apart() {
        assert!(refused("FUNCTION load x") && refused("SCRIPT LOAD x") && refused("XGROUP CREATE s g $ MKSTREAM"));
        assert!(!refused("FUNCTION FLUSH") && !refused("XGROUP DESTROY s g") && !refused("FLUSHALL"));
    }
}
