//! What the command line makes of settings, replies and errors.

use super::*;

fn example() -> BucketInfo {
    BucketInfo {
        name: "users".to_owned(),
        number: 1,
        id: 4,
        kind: "persistent".to_owned(),
        partitions: 8,
        quota: 64 << 20,
        policy: "s3-fifo".to_owned(),
        durability: "persist-majority".to_owned(),
        consistency: "linearizable".to_owned(),
        ttl: 300,
        value_bytes_max: 1_000_000,
        work_max: 0,
    }
}

#[test]
fn both_dialects_are_read() {
    let text = |text: &str| Value::bulk(text);
    let pairs = vec![
        (text("name"), text("users")),
        (text("number"), Value::Integer(1)),
        (text("id"), Value::Integer(4)),
        (text("kind"), text("persistent")),
        (text("partitions"), Value::Integer(8)),
        (text("quota"), Value::Integer(64 << 20)),
        (text("policy"), text("s3-fifo")),
        (text("durability"), text("persist-majority")),
        (text("consistency"), text("linearizable")),
        (text("ttl"), Value::Integer(300)),
        (text("value-bytes-max"), Value::Integer(1_000_000)),
        (text("of-tomorrow"), Value::Null),
    ];
    let flat = Value::Array(pairs.iter().flat_map(|(name, value)| [name.clone(), value.clone()]).collect());
    assert_eq!(BucketInfo::read(&Value::Map(pairs)), Some(example()));
    assert_eq!(BucketInfo::read(&flat), Some(example()));
    assert_eq!(BucketInfo::read_list(&Value::Array(vec![flat.clone(), flat])).map(|list| list.len()), Some(2));
    for strange in [Value::Null, Value::ok(), Value::Array(vec![]), Value::Array(vec![Value::Null, Value::Null])] {
        assert_eq!(BucketInfo::read(&strange), None, "{strange:?}");
    }
    assert_eq!(BucketInfo::read_list(&Value::ok()), None);
}

#[test]
fn the_tables_are_aligned() {
    let small = BucketInfo { name: "s".to_owned(), number: 12, quota: 0, ttl: 61, value_bytes_max: 0, ..example() };
    assert_eq!(
        table(&[example(), small.clone()], Output::Narrow),
        "name   number  kind        partitions  quota  ttl\n\
         users       1  persistent           8  64MiB   5m\n\
         s          12  persistent           8      -  61s\n"
    );
    assert_eq!(
        table(&[example(), small], Output::Wide),
        "name   number  kind        partitions  quota  policy   durability        consistency   ttl  value-bytes-max\n\
         users       1  persistent           8  64MiB  s3-fifo  persist-majority  linearizable   5m         1000000B\n\
         s          12  persistent           8      -  s3-fifo  persist-majority  linearizable  61s                -\n"
    );
    assert!(details(&example()).starts_with("name             users\nnumber           1\nid               4\n"));
}

#[test]
fn only_the_name_confirms() {
    let ask = |typed: &str, keys| {
        let mut out = Vec::new();
        let confirmed = confirmed(&example(), keys, &mut typed.as_bytes(), &mut out);
        (confirmed, String::from_utf8(out).expect("text"))
    };
    let (yes, question) = ask("users\n", Some(7));
    assert!(yes && question.contains("the persistent bucket users and its 7 keys"), "{question}");
    for typed in ["", "\n", "y\n", "yes\n", "user\n", "USERS\n"] {
        assert!(!ask(typed, None).0, "{typed:?}");
    }
}

#[test]
fn times_to_live_in_units() {
    for (text, expected) in [("0", 0), ("300", 300), ("90s", 90), ("5m", 300), ("12h", 43_200), ("7d", 604_800)] {
        assert_eq!(parse_seconds(text), Ok(expected), "{text}");
    }
    for wrong in ["", "m", "-1", "5x", "5 m", "1.5h", "99999999999999999999", "999999999999999999d"] {
        assert!(parse_seconds(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn errors_say_what_to_do_next() {
    let endpoint = Endpoint::parse("127.0.0.1:7001").expect("an address");
    for (error, expected) in [
        ("ERR there is no bucket 'x'", "there is no bucket 'x'\n  `dictum bucket list`"),
        ("ERR there is a bucket 'x' already", "there is a bucket 'x' already\n  `dictum bucket set`"),
        ("ERR a cache needs a quota", "a cache needs a quota"),
        ("CLUSTERDOWN no leader", "CLUSTERDOWN no leader\n  Try again"),
        ("UNKNOWN timeout", "UNKNOWN timeout\n  It may or may not"),
        ("ERR unknown command 'DICTUM.BUCKET'", "the server at 127.0.0.1:7001 is no Dictum node"),
    ] {
        let advised = advised(error, &endpoint);
        assert!(advised.starts_with(expected), "{advised}");
    }
}
