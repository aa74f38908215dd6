use super::*;

fn rights(rules: &[&str]) -> Rights {
    let mut made = Rules::default();
    for rule in rules {
        check(rule.as_bytes()).expect("a rule");
        made.change(rule.as_bytes()).expect("a rule");
    }
    Rights::new(&made)
}

fn asked(rights: &Rights, command: &str, bucket: &str) -> Result<(), Denied> {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    rights.check(&words, || bucket.to_owned())
}

fn may(rules: &[&str], command: &str) -> bool {
    asked(&rights(rules), command, "default").is_ok()
}

#[test]
fn commands_by_name_category_and_subcommand() {
    for (rules, command, wanted) in [
        (&["+get", "~*"][..], "GET k", true),
        (&["+get", "~*"], "set k v", false),
        (&["+@read", "~*"], "get k", true),
        (&["+@read", "-get", "~*"], "get k", false),
        (&["-get", "+@read", "~*"], "get k", true),
        (&["+@all", "-@dangerous", "~*"], "keys *", false),
        (&["+@all", "-@admin", "~*"], "config get x", false),
        (&["+config|get"], "CONFIG GET x", true),
        (&["+config|get"], "config set x y", false),
        (&["+config", "-config|set"], "config set x y", false),
        (&["+config", "-config|set"], "config get x", true),
        (&["+@all", "-config"], "config get x", false),
        (&["+select|1"], "select 1", true),
        (&["+select|1"], "select 2", false),
        (&["+select|1", "-select"], "select 1", false),
        (&["+@all"], "acl setuser x", true),
        (&["+@all", "-@administration"], "acl setuser x", false),
        (&["+@all", "-@administration"], "dictum.node drain n1", false),
        (&["+@all", "-@administration"], "config set x y", false),
        (&["+@all", "-@administration"], "client pause 1", false),
        (&["+@all", "-@administration"], "shutdown", false),
        (&["+@all", "-@administration"], "client list", true),
        (&["+@all", "-@administration"], "role", true),
        (&["+@administration"], "config get x", true),
        (&["+@administration"], "get k", false),
        (&["+@all", "-@admin"], "dictum.bucket drop x CONFIRM", false),
    ] {
        assert_eq!(may(rules, command), wanted, "{rules:?} {command}");
    }
}

#[test]
fn keys_by_pattern_and_by_what_is_done_with_them() {
    for (rules, command, wanted) in [
        (&["+@all", "~a:*"][..], "get a:1", true),
        (&["+@all", "~a:*"], "get b:1", false),
        (&["+@all", "~a:*"], "mget a:1 b:1", false),
        (&["+@all", "~a:*", "~b:*"], "mset a:1 x b:1 y", true),
        (&["+@all", "%R~a:*"], "get a:1", true),
        (&["+@all", "%R~a:*"], "set a:1 v", false),
        (&["+@all", "%W~a:*"], "set a:1 v", true),
        (&["+@all", "%W~a:*"], "set a:1 v GET", false),
        (&["+@all", "%W~a:*"], "get a:1", false),
        (&["+@all", "%R~a", "%W~b"], "copy a b", true),
        (&["+@all", "%R~a", "%W~b"], "copy b a", false),
        (&["+@all", "%R~a", "%W~b"], "sort a STORE b", true),
        (&["+@all", "%R~a"], "sort a STORE b", false),
        // EXISTS tells nothing of a key's value.
        (&["+@all", "%W~a"], "exists a", true),
        (&["+@all", "%W~a"], "exists b", false),
        (&["+@all", "~a"], "watch b", false),
        (&["+@all", "~a"], "object encoding b", false),
        (&["+@all", "~a"], "memory usage b", false),
        (&["+@all", "~a"], "xread STREAMS b 0", false),
        // What a script calls is judged where it runs.
        (&["+@all", "~a"], "eval_ro x 1 a", true),
        (&["+@all", "~a"], "eval x 1 b", false),
        (&["+@all", "%R~a"], "eval x 1 a", false),
        (&["+@all", "-@scripting", "~a"], "eval x 0", false),
        (&["+@all", "~a"], "dictum.once id eval x 1 a", true),
        (&["+@all", "~a"], "script LOAD x", true),
        (&["+@all", "~a"], "sort a BY w_*", false),
        (&["+@all", "~a"], "sort a LIMIT 0 1", true),
        (&["+@all", "~a"], "migrate h 1 a 0 1", false),
        (&["+@all", "~a"], "dictum.once id set b v", false),
        (&["+@all", "~a"], "dictum.once id set a v", true),
        (&["+dictum.once", "~a"], "dictum.once id set a v", false),
        (&["+@all", "%R~a"], "move a 1", false),
        (&["+@all", "~a"], "move a 1", true),
        (&["+@all", "~a"], "function LOAD REPLACE x", false),
        (&["+@all", "~a"], "script FLUSH", false),
        (&["+@all", "~a"], "monitor", false),
        (&["+@all", "~a"], "sync", false),
        (&["+@all", "~a"], "dictum.outcome id", false),
        (&["+@all", "%W~a"], "json.toggle a $", false),
        // One selector has to allow all of it.
        (&["+get", "~a", "(+set ~b)"], "set b v", true),
        (&["+get", "~a", "(+set ~b)"], "set a v", false),
        (&["+get", "~a", "(+set ~b)"], "get b", false),
    ] {
        assert_eq!(may(rules, command), wanted, "{rules:?} {command}");
    }
}

#[test]
fn channels_and_buckets() {
    for (rules, command, wanted) in [
        (&["+@all", "&news:*"][..], "subscribe news:1", true),
        (&["+@all", "&news:*"], "subscribe news:1 other", false),
        (&["+@all", "&news:*"], "publish other x", false),
        (&["+@all", "&news:*"], "spublish news:1 x", true),
        (&["+@all", "&news:*"], "psubscribe news:*", true),
        (&["+@all", "&news:*"], "psubscribe news:1*", false),
        (&["+@all", "&news:*"], "unsubscribe other", true),
    ] {
        assert_eq!(may(rules, command), wanted, "{rules:?} {command}");
    }
    let shop = rights(&["+@all", "~*", "&*", "bucket=shop", "db=3"]);
    for (command, bucket, wanted) in [
        ("get k", "shop", true),
        ("get k", "3", true),
        ("get k", "default", false),
        ("dbsize", "default", false),
        ("ping", "default", true),
        ("flushall", "shop", false),
        ("flushdb", "shop", true),
        ("move k 1", "shop", false),
        ("copy k l DB 1", "shop", false),
        ("copy k l", "shop", true),
        ("swapdb 0 1", "shop", false),
        ("select 3", "shop", true),
        ("select shop", "default", true),
        ("select 0", "shop", false),
        ("select 9", "shop", false),
        ("client tracking ON BCAST", "default", false),
        ("cluster getkeysinslot 1 10", "default", false),
        ("dictum.outcome id", "default", false),
        ("dictum.bucket drop other CONFIRM", "shop", false),
    ] {
        assert_eq!(asked(&shop, command, bucket).is_ok(), wanted, "{command} in {bucket}");
    }
}

#[test]
fn what_is_no_command_or_has_not_enough_words_is_for_others_to_refuse() {
    let nothing = rights(&[]);
    for command in ["nosuch a", "get", "config nosuch", "auth x", "hello 3", "quit", "reset"] {
        assert_eq!(asked(&nothing, command, "default"), Ok(()), "{command}");
    }
    assert_eq!(asked(&nothing, "ping", "default"), Err(Denied::Command("ping")));
    assert_eq!(asked(&rights(&["+get"]), "get k", "default"), Err(Denied::Key(b"k".to_vec())));
    assert_eq!(asked(&rights(&["+get", "(+set ~k)"]), "get k", "default"), Err(Denied::Key(b"k".to_vec())));
    let long = "x".repeat(10_000);
    assert_eq!(asked(&nothing, &long, "default"), Ok(()));
    assert_eq!(asked(&nothing, &format!("config {long}"), "default"), Ok(()));
}

#[test]
fn names_of_commands_are_looked_at_before_a_rule_is_proposed() {
    for rule in ["+nosuch", "-nosuch", "+@nosuch", "+config|nosuch", "-select|1", "+", "-", "+nosuch|x"] {
        assert_eq!(check(rule.as_bytes()), Err(Refusal::UnknownCommand), "{rule}");
    }
    assert_eq!(check(b"+config|get|x"), Err(Refusal::FirstArgumentOfSubcommand));
    assert_eq!(check(b"+get|"), Err(Refusal::Syntax));
    assert_eq!(check(b"(~a +nosuch)"), Err(Refusal::UnknownCommand));
    for rule in ["+GET", "-@All", "+@read", "+config|GET", "+select|1", "~+x", "on", "(~a -get)"] {
        assert_eq!(check(rule.as_bytes()), Ok(()), "{rule}");
    }
}

#[test]
fn a_pattern_that_costs_too_much_allows_nothing() {
    let rights = rights(&["+@all", &format!("~{}b", "*a".repeat(200))]);
    let key = "a".repeat(32_000);
    assert!(asked(&rights, &format!("get {key}"), "default").is_err());
    assert!(asked(&rights, &format!("get {}b", "a".repeat(500)), "default").is_ok());
}

/// The judge of a user with `*` is asked for nothing: all that has every right is known at once.
#[test]
fn who_may_do_everything_is_known() {
    assert!(rights(&["+@all", "~*", "&*"]).has_all());
    for rules in [
        &["+@all", "~*"][..],
        &["+@all", "&*"],
        &["~*", "&*"],
        &["+@all", "-get", "~*", "&*"],
        &["+@all", "~*", "&*", "db=0"],
    ] {
        assert!(!rights(rules).has_all(), "{rules:?}");
    }
    assert!(rights(&["(+@all ~* &*)"]).has_all());
}

#[test]
fn commands_that_are_judged_by_their_only_key_need_nothing_else() {
    let only = TABLE.rows.iter().filter(|row| row.only_key.is_some());
    let mut count = 0;
    for row in only {
        count += 1;
        let words: Vec<&[u8]> =
            [row.spec.name, "k", "by", "x", "get", "db", "1", "replace"].map(str::as_bytes).to_vec();
        assert_eq!(needs_of(row.known, &words), None, "{}", row.spec.name);
        assert!(row.channels.is_none() && row.concerns_bucket && !row.is_parent, "{}", row.spec.name);
        let wish = Wish::of(0, row, &words);
        let keys: Vec<(&[u8], Access)> = wish.keys;
        assert_eq!(keys, [(&b"k"[..], row.only_key.expect("it has one"))], "{}", row.spec.name);
    }
    assert!(count > 100, "{count}");
}

#[test]
fn patterns_that_say_how_keys_begin_fit_as_any_others() {
    for (pattern, key, wanted) in [
        ("~a:*", "a:", true),
        ("~a:*", "a", false),
        ("~a:**", "a:b", true),
        ("~a\\*", "a*", true),
        ("~a\\*", "ab", false),
        ("~a[b]*", "ab1", true),
        ("~a?*", "a", false),
        ("%R~*", "any", true),
    ] {
        assert_eq!(may(&["+get", pattern], &format!("get {key}")), wanted, "{pattern} {key}");
    }
}
