use data::spec::Keys;

use super::*;
use crate::access::compiled::{Rights, check};
use crate::access::rules::Rules;
use crate::commands::known::{self, Known};
use crate::commands::pubsub::channels_of;

fn made(rules: &[&str]) -> Rules {
    let mut made = Rules::default();
    for rule in rules {
        for plain in expanded(rule.as_bytes().to_vec()).expect("a role") {
            check(&plain).unwrap_or_else(|refusal| panic!("{}: {refusal:?}", String::from_utf8_lossy(&plain)));
            made.change(&plain).expect("a rule");
        }
    }
    made
}

fn may(rights: &Rights, command: &str) -> bool {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    rights.check(&words, || "default".to_owned()).is_ok()
}

/// A role with all keys, channels and buckets.
fn whole(role: &str) -> Rights {
    Rights::new(&made(&["~*", "&*", &format!("role={role}")]))
}

/// The names of all commands of this build that a role allows, with as many words as they need.
fn allowed(role: &str) -> Vec<Known> {
    let rights = whole(role);
    let is_allowed = |known: &Known| {
        let mut words: Vec<&str> = known.spec().name.split('|').collect();
        words.resize(words.len().max(known.spec().arity.unsigned_abs() as usize), "1");
        known.subcommands().is_empty() && may(&rights, &words.join(" "))
    };
    known::all_with_subcommands().filter(is_allowed).collect()
}

/// Commands, and the first letters of the roles that may run them.
const TABLE: &[(&str, &str)] = &[
    // What clients say when they connect, and what tells of the cluster.
    ("PING", "vrwoa"),
    ("HELLO 3", "vrwoa"),
    ("SELECT shop", "vrwoa"),
    ("CLIENT SETINFO lib-name x", "vrwoa"),
    ("CLIENT ID", "vrwoa"),
    ("COMMAND DOCS get", "vrwoa"),
    ("INFO", "vrwoa"),
    ("ROLE", "vrwoa"),
    ("ACL WHOAMI", "vrwoa"),
    ("CLUSTER SLOTS", "vrwoa"),
    ("DICTUM.STATUS", "vrwoa"),
    ("DBSIZE", "vrwoa"),
    // Keys and values.
    ("GET k", "rwa"),
    ("HGETALL k", "rwa"),
    ("SCAN 0", "rwa"),
    ("DUMP k", "rwa"),
    ("MULTI", "rwa"),
    ("CLIENT TRACKING ON BCAST", "rwa"),
    ("SUBSCRIBE c", "rwa"),
    ("DICTUM.TOKEN", "rwa"),
    ("SET k v", "wa"),
    ("GETEX k PERSIST", "wa"),
    ("DEL k", "wa"),
    ("BLPOP k 0", "wa"),
    ("XREADGROUP GROUP g c STREAMS k >", "wa"),
    ("DICTUM.ONCE id SET k v", "wa"),
    ("PUBLISH c m", "wa"),
    ("PUBSUB CHANNELS", "wa"),
    ("WAIT 1 0", "rwa"),
    ("KEYS *", "a"),
    ("SORT k", "a"),
    ("RESTORE k 0 x", "a"),
    ("FLUSHDB", "a"),
    ("FLUSHALL", "a"),
    ("SWAPDB 0 1", "a"),
    ("MOVE k 1", "a"),
    ("MIGRATE host 1 k 0 1", "a"),
    ("CLUSTER GETKEYSINSLOT 1 1", "a"),
    ("DICTUM.ONCE id FLUSHALL", "a"),
    // Code.
    ("FUNCTION LOAD x", "a"),
    ("FUNCTION DELETE x", "a"),
    ("FUNCTION RESTORE x", "a"),
    ("FUNCTION KILL", "a"),
    ("SCRIPT LOAD x", "wa"),
    ("SCRIPT FLUSH", "a"),
    ("SCRIPT KILL", "a"),
    // What looks at a cluster that is run.
    ("CLIENT LIST", "voa"),
    ("CONFIG GET *", "voa"),
    ("LATENCY HISTOGRAM", "voa"),
    ("SLOWLOG LEN", "voa"),
    ("DICTUM.NODE LIST", "voa"),
    ("DICTUM.NODE SETTINGS", "voa"),
    ("DICTUM.BUCKET LIST", "voa"),
    ("MEMORY STATS", "vrwoa"),
    // What keeps it running.
    ("CLIENT KILL ID 1", "oa"),
    ("CLIENT PAUSE 100", "oa"),
    ("CLIENT UNPAUSE", "oa"),
    ("CONFIG RESETSTAT", "oa"),
    ("SLOWLOG RESET", "oa"),
    ("DICTUM.NODE DRAIN n1", "oa"),
    ("DICTUM.NODE PROMOTE n1", "oa"),
    ("DICTUM.NODE PAUSE", "oa"),
    ("DICTUM.NODE RESUME", "oa"),
    ("DICTUM.NODE AUTO-REPLACE 60", "oa"),
    // Who gets in, what there is, what others do.
    ("SLOWLOG GET", "a"),
    ("MONITOR", "a"),
    ("SYNC", "a"),
    ("PSYNC ? -1", "a"),
    ("DEBUG SLEEP 1", "a"),
    ("SHUTDOWN", "a"),
    ("CONFIG SET protected-mode no", "a"),
    ("CONFIG SET requirepass x", "a"),
    ("CONFIG REWRITE", "a"),
    ("ACL SETUSER bob +@all", "a"),
    ("ACL DELUSER bob", "a"),
    ("ACL GETUSER bob", "a"),
    ("ACL LIST", "a"),
    ("ACL USERS", "a"),
    ("ACL LOG", "a"),
    ("ACL DRYRUN bob get k", "a"),
    ("ACL LOAD", "a"),
    ("DICTUM.BUCKET CREATE shop", "a"),
    ("DICTUM.BUCKET SET shop TTL 1", "a"),
    ("DICTUM.BUCKET DROP shop CONFIRM", "a"),
    ("DICTUM.NODE TOKEN 60", "a"),
    ("DICTUM.NODE JOIN token n4 host:1 id", "a"),
    ("DICTUM.NODE REMOVE n1", "a"),
    ("DICTUM.NODE VOTERS 1", "a"),
    ("DICTUM.BACKUP OPEN 0", "a"),
    ("DICTUM.BACKUP NEXT", "a"),
    ("DICTUM.SETTIME", "a"),
];

#[test]
fn each_role_may_what_the_table_says() {
    for (role, _) in ROLES {
        let rights = whole(role);
        for (command, roles) in TABLE {
            let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            let known = known::named(words[0]).unwrap_or_else(|| panic!("{command} is none"));
            let known = words.get(1).and_then(|sub| known.subcommand(sub)).unwrap_or(known);
            assert!(known.spec().arity_fits(words.len()), "{command}: with other words it is not judged");
            let wanted = roles.contains(&role[..1]);
            assert_eq!(may(&rights, command), wanted, "{role}: {command}");
        }
    }
}

/// Whatever commands a build has: this holds for those that no table names.
#[test]
fn no_role_reaches_further_than_it_is_meant_to() {
    for (role, _) in ROLES.iter().filter(|(role, _)| *role != "admin") {
        let (sees_keys, writes) = (["reader", "writer"].contains(role), *role == "writer");
        for known in allowed(role) {
            let name = known.spec().name;
            let open = known.flags().contains(&"no_auth");
            let has = |category: &str| known.acl_categories().contains(&category);
            assert!(sees_keys || known.key_places() == Keys::None, "{role} {name}: a key");
            assert!(sees_keys || channels_of(known).is_none(), "{role} {name}: a channel");
            assert!(writes || open || !known.flags().contains(&"write"), "{role} {name}: a write");
            assert!(!sees_keys || !has("@administration"), "{role} {name}: administration");
            assert!(!name.starts_with("acl|") || name == "acl|whoami", "{role} {name}: users");
            assert!(!name.starts_with("function|") && !name.starts_with("config|set"), "{role} {name}");
        }
    }
}

#[test]
fn administration_for_others_than_admins_is_what_is_named() {
    let administration = |role| -> Vec<&str> {
        let all = allowed(role).into_iter().filter(|known| known.acl_categories().contains(&"@administration"));
        all.map(|known| known.spec().name).collect()
    };
    assert_eq!((administration("reader"), administration("writer")), (Vec::new(), Vec::new()));
    let named = |words: &[&str]| -> Vec<&'static str> {
        let words = words.iter().flat_map(|words| words.split_ascii_whitespace());
        let names: Vec<&str> = words.map(|word| &word[1..]).collect();
        let all = known::all_with_subcommands().filter(|known| known.acl_categories().contains(&"@administration"));
        all.map(|known| known.spec().name).filter(|name| names.contains(name)).collect()
    };
    assert_eq!(administration("viewer"), named(&[LOOKS]));
    assert_eq!(administration("operator"), named(&[LOOKS, OPERATES]));
    assert!(administration("operator").len() > 15, "{:?}", administration("operator"));
}

#[test]
fn a_role_is_all_that_a_user_may_do_and_rules_behind_it_count() {
    // A role after another one, and after a selector.
    let rights = Rights::new(&made(&["~*", "role=admin", "(+@all ~*)", "role=reader"]));
    assert!(may(&rights, "GET k") && !may(&rights, "SET k v") && !may(&rights, "ACL SETUSER x"));
    assert!(whole("admin").has_all() && Rights::new(&made(&["role=admin"])).has_all());
    assert!(!Rights::new(&made(&["role=admin", "bucket=shop"])).has_all());
    let rights = Rights::new(&made(&["ROLE=Writer", "~app:*", "-del", "bucket=default"]));
    assert!(may(&rights, "SET app:1 v") && !may(&rights, "SET b v") && !may(&rights, "DEL app:1"));
    // Within a selector it leaves the others alone.
    let rights = Rights::new(&made(&["role=writer", "~app:*", "(role=reader ~stock:*)"]));
    assert!(may(&rights, "SET app:1 v") && may(&rights, "GET stock:1") && !may(&rights, "SET stock:1 v"));
    assert!(may(&rights, "PING"));
}

#[test]
fn the_role_is_found_again_in_what_is_told() {
    assert!(ROLES.iter().map(|(role, _)| *role).eq(NAMES));
    for role in NAMES {
        let told = made(&[&format!("role={role}")]).root.commands_text();
        assert_eq!(role_of(&told), Some((role, "")), "{told}");
        assert_eq!(role_of(&(told + " -del +keys")), Some((role, "-del +keys")));
    }
    // An administrator who has been taken something is one still, as the rest tells; a rule that is no role's is none.
    for told in ["-@all", "-@all +@read", "+@allx", ""] {
        assert_eq!(role_of(told), None, "{told}");
    }
}

#[test]
fn what_is_kept_names_no_role() {
    for (role, _) in ROLES {
        let rules = made(&["on", "~app:*", "bucket=shop", &format!("(role={role})")]);
        assert_eq!(Rules::read_one(&rules.write_one()), Ok(rules.clone()), "{role}");
        assert!(!String::from_utf8_lossy(&rules.line()).contains("role="), "{role}");
    }
    for rule in ["role=boss", "role=", "(role=boss ~*)"] {
        assert_eq!(expanded(rule.as_bytes().to_vec()), Err(Refusal::UnknownRole), "{rule}");
    }
    assert_eq!(expanded(b"~role=x".to_vec()), Ok(vec![b"~role=x".to_vec()]));
}
