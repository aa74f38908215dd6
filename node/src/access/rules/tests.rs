use super::*;

fn made(rules: &[&str]) -> Result<Rules, Refusal> {
    let mut made = Rules::default();
    for rule in rules {
        made.change(rule.as_bytes())?;
    }
    Ok(made)
}

fn is_read_back(rules: &Rules) {
    let mut bytes = Vec::new();
    rules.encode(&mut Writer::new(&mut bytes));
    let mut r = Reader::from_slice(&bytes);
    assert_eq!(Rules::decode(&mut r).as_ref(), Ok(rules));
    assert_eq!(r.finish(), Ok(()));
}

/// A line of these would be read as others: one such user ended all nodes, and at each start.
#[test]
fn patterns_with_parentheses_are_kept_as_they_are() {
    for rules in [
        &["nopass", "~*", "(~a) ~b +get)"][..],
        &["~only:*", "(+@all -get ~a))"],
        &["~(a", "~a)", "&(", "&)", "(~(x &y) +get)", "(~a)"],
        &["%R~)", "(%W~( +set)"],
    ] {
        is_read_back(&made(rules).expect("rules"));
    }
}

fn line(rules: &[&str]) -> String {
    let made = made(rules).expect("rules");
    is_read_back(&made);
    String::from_utf8(made.line()).expect("text")
}

/// Each line is what a Redis 7.4 tells of a user with these rules; `server/tests/it/users.rs` asks one.
#[test]
fn rules_are_told_as_a_redis_tells_them() {
    assert_eq!(line(&[]), "off sanitize-payload resetchannels -@all");
    assert_eq!(line(&["on", "nopass", "~*", "&*", "+@all"]), "on nopass sanitize-payload ~* &* +@all");
    assert_eq!(line(&["~a", "%R~b", "%w~c", "%rw~d"]), "off sanitize-payload ~a %R~b %W~c ~d resetchannels -@all");
    assert_eq!(line(&["%R~b", "%W~b"]), "off sanitize-payload ~b resetchannels -@all");
    assert_eq!(line(&["&a", "&b", "&a"]), "off sanitize-payload resetchannels &a &b -@all");
    assert_eq!(line(&["+GET", "-get", "+get"]), "off sanitize-payload resetchannels -@all +get");
    assert_eq!(line(&["+config|get", "+config"]), "off sanitize-payload resetchannels -@all +config");
    assert_eq!(line(&["+config", "-config|set"]), "off sanitize-payload resetchannels -@all +config -config|set");
    assert_eq!(line(&["+@read", "+get", "-@all", "+set"]), "off sanitize-payload resetchannels -@all +set");
    assert_eq!(
        line(&["(~x +get)", "(&y -@all)"]),
        "off sanitize-payload resetchannels -@all (~x resetchannels -@all +get) (resetchannels &y -@all)"
    );
    assert_eq!(line(&["+get", "reset"]), "off sanitize-payload resetchannels -@all");
    assert_eq!(
        line(&["(~x)", "clearselectors", "skip-sanitize-payload"]),
        "off skip-sanitize-payload resetchannels -@all"
    );
    assert_eq!(
        line(&[">abc", ">abc"]),
        "off sanitize-payload #ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad resetchannels -@all"
    );
    assert_eq!(line(&[">abc", "nopass"]), "off nopass sanitize-payload resetchannels -@all");
    assert_eq!(line(&["nopass", ">abc", "<abc"]), "off sanitize-payload resetchannels -@all");
}

#[test]
fn buckets_are_told_where_they_are_not_all() {
    assert_eq!(
        line(&["bucket=shop,stock", "db=0,3"]),
        "off sanitize-payload resetchannels bucket=3 bucket=default bucket=shop bucket=stock -@all"
    );
    assert_eq!(line(&["bucket=shop", "allbuckets"]), "off sanitize-payload resetchannels -@all");
    assert_eq!(line(&["resetdbs"]), "off sanitize-payload resetchannels resetbuckets -@all");
    assert_eq!(
        line(&["(bucket=shop ~* +get)"]),
        "off sanitize-payload resetchannels -@all (~* resetchannels bucket=shop -@all +get)"
    );
}

#[test]
fn what_is_no_rule_is_refused() {
    let refused = |rules: &[&str]| made(rules).expect_err("refused");
    for wrong in [
        "~a b",
        "%~a",
        "%RR~a",
        "%X~a",
        "%Ra",
        "&a b",
        "what",
        "db=x",
        "db=1,",
        "bucket=",
        "bucket=a b",
        "+config|",
        "(what)",
    ] {
        assert_eq!(refused(&[wrong]), Refusal::Syntax, "{wrong}");
    }
    assert_eq!(refused(&["~*", "~a"]), Refusal::KeysAreAll);
    assert_eq!(refused(&["&*", "&a"]), Refusal::ChannelsAreAll);
    assert_eq!(refused(&["<abc"]), Refusal::NoSuchPassword);
    for wrong in ["#", "#abc", "!abc", &format!("#{}", "A".repeat(64)), &format!("#{}", "a".repeat(65))] {
        assert_eq!(refused(&[wrong]), Refusal::NoDigest, "{wrong}");
    }
}

#[test]
fn selectors_of_several_words_are_one_rule() {
    let rules = |words: &[&str]| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let joined = joined(&words).map_err(|begin| String::from_utf8_lossy(begin).into_owned());
        joined.map(|rules| rules.iter().map(|rule| String::from_utf8_lossy(rule).into_owned()).collect::<Vec<_>>())
    };
    assert_eq!(rules(&["on", "(~a", "+get)", "off"]), Ok(vec!["on".into(), "(~a +get)".into(), "off".into()]));
    assert_eq!(rules(&["(~a +get)"]), Ok(vec!["(~a +get)".into()]));
    assert_eq!(rules(&["on", "(~a", "+get"]), Err("(~a".into()));
}

#[test]
fn no_password_is_left_in_a_rule() {
    assert_eq!(without_password(b">abc"), format!("#{}", digest_of(b"abc")).into_bytes());
    assert_eq!(without_password(b"<abc"), format!("!{}", digest_of(b"abc")).into_bytes());
    assert_eq!(without_password(b"~abc"), b"~abc");
}
