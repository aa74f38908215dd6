use super::*;

fn bulks(words: &[&str]) -> Value {
    Value::Array(words.iter().map(|word| Value::bulk(*word)).collect())
}

/// What a node answers in RESP2.
fn reply(flags: &[&str], passwords: &[&str], commands: &str, buckets: Option<&str>, selectors: Vec<Value>) -> Value {
    let pair = |name: &str, value: Value| [Value::bulk(name), value];
    let mut all = [
        pair("flags", bulks(flags)),
        pair("passwords", bulks(passwords)),
        pair("commands", Value::bulk(commands)),
        pair("keys", Value::bulk("~cart:* %R~stock:*")),
        pair("channels", Value::bulk("")),
    ]
    .concat();
    all.extend(buckets.into_iter().flat_map(|text| pair("buckets", Value::bulk(text))));
    all.extend(pair("selectors", Value::Array(selectors)));
    Value::Array(all)
}

#[test]
fn a_user_is_read_and_shown() {
    let selector = bulks(&["commands", "-@all +get", "keys", "~x", "channels", "&*"]);
    let rules = ["+@all", "bucket=shop bucket=stock"];
    let answer = reply(&["on", "sanitize-payload"], &["d1", "d2"], rules[0], Some(rules[1]), vec![selector]);
    let user = UserInfo::read("ann", &answer).expect("a user");
    assert_eq!((user.on, user.no_password, user.passwords, user.role), (true, false, 2, Some("admin")));
    let selector = Rights {
        commands: "-@all +get".to_owned(),
        keys: vec!["~x".to_owned()],
        channels: vec!["&*".to_owned()],
        buckets: None,
    };
    assert_eq!(user.selectors, [selector]);
    let shown = details(&user);
    assert!(shown.contains("2 passwords") && shown.contains("shop stock") && shown.contains("~cart:* %R~stock:*"));
    assert!(shown.contains("-@all +get") && !shown.contains("d1"), "{shown}");
    assert!(!line_of_json(&user).contains("d1"), "no digest is printed");

    let changed = UserInfo::read("bob", &reply(&["off"], &[], "+@all -@dangerous", None, Vec::new())).expect("a user");
    assert_eq!((changed.role, changed.rules.as_str(), changed.login().as_str()), (Some("admin"), "-@dangerous", "off"));
    let own = UserInfo::read("eve", &reply(&["on", "nopass"], &[], "-@all +get", None, Vec::new())).expect("a user");
    assert_eq!((own.role, own.rules.as_str()), (None, "-@all +get"));
    let table = table(&[user, changed, own], Output::Narrow);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
    assert_eq!(lines[0], ["name", "login", "role", "keys", "buckets"]);
    assert_eq!(lines[3], ["eve", "no", "password", "-", "~cart:*", "%R~stock:*", "all"]);
    assert_eq!(UserInfo::read("x", &Value::ok()), None);
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_done() {
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let none: &[String] = &[];
    assert_eq!(
        wanted(Some("writer"), &own(&["shop"]), &own(&["cart:*"]), &own(&["s:*"]), &own(&["c"]), &own(&["-del"])),
        Ok(own(&["role=writer", "~cart:*", "%R~s:*", "&c", "bucket=shop", "-del"]))
    );
    assert_eq!(wanted(Some("operator"), none, none, none, none, none), Ok(own(&["role=operator"])));
    let refused = |role: &str, keys: &[&str], rules: &[&str]| {
        wanted(Some(role), none, &own(keys), none, none, &own(rules)).expect_err("it cannot be meant")
    };
    assert!(refused("writer", &[], &[]).contains("--keys '*' for all"));
    assert!(refused("admin", &["*"], &[]).contains("has all keys"));
    assert!(refused("reader", &["*"], &[">secret"]).contains("--new-password-file"));
    // A test has no terminal, unless a person runs it.
    if !io::stderr().is_terminal() {
        let refused = Secret::choose(&NewPassword { new_password_file: None });
        assert!(refused.is_err_and(|text| text.contains("Nothing was done")));
    }
}
