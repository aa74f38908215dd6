//! Documents, paths and payloads within the budget: by units, and not by seconds.

use base::WallTime;
use base::checksum::crc64_redis;
use base::limits::WORK_DEFAULT;
use base::versions::NEWEST;
use data::algorithms::lzf;
use data::{Applied, EntryContext, Reply, Tree, View, apply, check, read};

/// The longest value of most nodes.
const VALUE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// By how much an entry may pass its limit: by what it does between two looks at the meter.
const SLACK: u64 = 20_000_000;

fn context(work_max: u64) -> EntryContext {
    EntryContext {
        time: WallTime(1000),
        version: NEWEST,
        work_max,
        value_bytes_max: VALUE_BYTES_MAX,
        ..EntryContext::default()
    }
}

/// Applies a command with the default budget: what it answered, and its units.
fn run(tree: &mut Tree, words: &[&[u8]]) -> (Reply, u64) {
    let Applied { reply, .. } = apply(tree, &context(WORK_DEFAULT), words);
    (reply, tree.meter().spent())
}

fn ask(tree: &Tree, words: &[&[u8]]) -> (Reply, u64) {
    let reply = read(&View::new(tree, WallTime(1000), 1).with_work_max(WORK_DEFAULT), words);
    (reply, tree.meter().spent())
}

fn error(reply: &Reply) -> String {
    match reply {
        Reply::Error(failure) => failure.to_string(),
        other => format!("{other:?}").chars().take(200).collect(),
    }
}

fn with(document: &str) -> Tree {
    let mut tree = Tree::new();
    assert_eq!(run(&mut tree, &[b"JSON.SET", b"k", b"$", document.as_bytes()]).0, Reply::Ok);
    tree
}

#[test]
fn filters_inside_filters_are_read_in_linear_time_and_have_a_bound() {
    let nested = |levels: usize| format!("${}{}", "[?@".repeat(levels), "]".repeat(levels));
    let (deepest, too_deep) = (nested(32), nested(40));
    assert!(too_deep.len() <= 161);
    let mut tree = with(r#"[[[[1]]],{"a":{"b":2}}]"#);
    let before = tree.digest();
    let refused = check(&[b"JSON.DEL", b"k", too_deep.as_bytes()]).expect_err("before the log").to_string();
    assert!(refused.ends_with("it has more than 32 filters inside one another"), "{refused}");
    assert_eq!(error(&run(&mut tree, &[b"JSON.DEL", b"k", too_deep.as_bytes()]).0), refused, "and in it");
    assert_eq!(tree.digest(), before);
    check(&[b"JSON.DEL", b"k", deepest.as_bytes()]).expect("it is short");
    let (reply, spent) = run(&mut tree, &[b"JSON.DEL", b"k", deepest.as_bytes()]);
    assert_eq!(reply, Reply::Integer(0), "nothing is nested as deeply");
    assert!(spent < 10_000, "{spent}");
    let (reply, _) = run(&mut tree, &[b"JSON.DEL", b"k", nested(3).as_bytes()]);
    assert_eq!(reply, Reply::Integer(2), "both hold something that holds something");
}

#[test]
fn a_path_that_means_one_value_thousands_of_times_keeps_only_what_it_changes() {
    let document = format!("{}true{}", "[".repeat(117), "]".repeat(117));
    assert!(document.len() <= 239);
    let mut tree = with(&document);
    let (reply, spent) = run(&mut tree, &[b"JSON.TOGGLE", b"k", b"$..*..*..*"]);
    let Reply::Array(answers) = reply else { panic!("{}", error(&reply)) };
    // Three of the 117 steps down to it, one above the other; and so for each value above it.
    let choose = |n: usize, k: usize| (0..k).fold(1, |product, i| product * (n - i) / (i + 1));
    assert_eq!(answers.len(), choose(117, 3));
    let toggled: Vec<i64> = answers
        .iter()
        .filter_map(|answer| match answer {
            Reply::Integer(is_true) => Some(*is_true),
            Reply::Nil => None,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(toggled.len(), choose(116, 2));
    assert!(spent < WORK_DEFAULT, "{spent}");
    let left = if toggled.len().is_multiple_of(2) { "true" } else { "false" };
    assert_eq!(ask(&tree, &[b"JSON.GET", b"k"]).0, Reply::bulk(document.replace("true", left).into_bytes()));
    // More than that is refused, and has done nothing.
    let wide = format!("{}1{}", "[true,".repeat(126), "]".repeat(126));
    let mut tree = with(&wide[..]);
    let before = tree.digest();
    let (reply, spent) = run(&mut tree, &[b"JSON.TOGGLE", b"k", b"$..*..*..*"]);
    assert!(error(&reply).starts_with("BUDGET "), "{} {spent}", error(&reply));
    assert!(spent < WORK_DEFAULT + SLACK, "it went on to {spent}");
    assert_eq!(tree.digest(), before);
    // What only reads keeps nothing but what it answers.
    let (reply, spent) = ask(&tree, &[b"JSON.GET", b"k", b"$..*..*..*"]);
    assert!(matches!(reply, Reply::Bulk(_)) && spent < WORK_DEFAULT, "{} {spent}", error(&reply));
}

#[test]
fn what_is_put_at_many_places_is_refused_before_it_is_made() {
    let value = format!("\"{}\"", "x".repeat(1024 * 1024));
    let value = value.as_bytes();
    let numbers = format!("[{}]", vec!["0"; 10_000].join(","));
    let arrays = format!("[{}]", vec!["[]"; 10_000].join(","));
    let texts = format!("[{}]", vec![r#""""#; 10_000].join(","));
    let patch = [b"{\"a\":".as_slice(), value, b",\"b\":null}"].concat();
    let objects = format!("[{}]", vec![r#"{"b":1}"#; 10_000].join(","));
    let cases: [(&str, &[&[u8]]); 6] = [
        (&numbers, &[b"JSON.SET", b"k", b"$[*]", value]),
        (&arrays, &[b"JSON.ARRAPPEND", b"k", b"$[*]", value]),
        (&arrays, &[b"JSON.ARRINSERT", b"k", b"$[*]", b"0", value]),
        (&texts, &[b"JSON.STRAPPEND", b"k", b"$[*]", value]),
        (&objects, &[b"JSON.MERGE", b"k", b"$[*]", &patch]),
        (&numbers, &[b"JSON.MSET", b"k", b"$[*]", value, b"other", b"$", b"1"]),
    ];
    for (document, words) in cases {
        let name = String::from_utf8_lossy(words[0]);
        let mut tree = with(document);
        let before = tree.digest();
        let (reply, spent) = run(&mut tree, words);
        assert!(error(&reply).contains("exceeds maximum allowed size"), "{name}: {}", error(&reply));
        // The text is looked at, a few copies are made, and that is all.
        assert!(spent < SLACK, "{name}: {spent}");
        assert_eq!(tree.digest(), before, "{name}");
    }
    // What fits is put everywhere.
    let mut tree = with(&numbers);
    assert_eq!(run(&mut tree, &[b"JSON.SET", b"k", b"$[*]", b"[1]"]).0, Reply::Ok);
    assert_eq!(ask(&tree, &[b"JSON.GET", b"k", b"$[9999]"]).0, Reply::bulk("[[1]]"));
}

#[test]
fn values_of_documents_pay_one_by_one() {
    // Two bytes of text become 72 in memory.
    let zeros = format!("[{}]", vec!["0"; 1_000_000].join(","));
    let mut tree = Tree::new();
    let (reply, spent) = run(&mut tree, &[b"JSON.SET", b"k", b"$", zeros.as_bytes()]);
    assert!(reply == Reply::Ok && spent > 38_000_000, "{spent}");
    let (reply, spent) = ask(&tree, &[b"JSON.GET", b"k", b"$[0]"]);
    assert!(reply == Reply::bulk("[0]") && spent > 38_000_000, "{spent}");
    let limited = read(&View::new(&tree, WallTime(1000), 1).with_work_max(1_000_000), &[b"JSON.GET", b"k", b"$[0]"]);
    assert!(error(&limited).starts_with("BUDGET "));
    assert!(tree.meter().spent() < 1_100_000, "no value was made that was not paid for: {}", tree.meter().spent());
    // So does each of many keys.
    let words: Vec<&[u8]> =
        [&b"JSON.MGET"[..]].into_iter().chain(vec![&b"k"[..]; 1000]).chain([&b"$[0]"[..]]).collect();
    let (reply, spent) = ask(&tree, &words);
    assert!(error(&reply).starts_with("BUDGET ") && spent < WORK_DEFAULT + SLACK, "{spent}");
}

#[test]
fn what_is_taken_out_at_many_places_goes_in_one_walk() {
    let numbers = format!("[{}]", (0..100_000).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let mut tree = with(&numbers);
    let (reply, spent) = run(&mut tree, &[b"JSON.DEL", b"k", b"$[0:50000]"]);
    assert!(reply == Reply::Integer(50_000) && spent < 20_000_000, "{} {spent}", error(&reply));
    assert_eq!(ask(&tree, &[b"JSON.GET", b"k", b"$[0,-1]"]).0, Reply::bulk("[50000,99999]"));
    let members: Vec<String> = (0..100_000).map(|n| format!("\"m{n}\":{n}")).collect();
    let gone: Vec<String> = (0..99_999).map(|n| format!("\"m{n}\":null")).collect();
    let mut tree = with(&format!("{{{}}}", members.join(",")));
    let patch = format!("{{{}}}", gone.join(","));
    let (reply, spent) = run(&mut tree, &[b"JSON.MERGE", b"k", b"$", patch.as_bytes()]);
    assert!(reply == Reply::Ok && spent < 50_000_000, "{} {spent}", error(&reply));
    assert_eq!(ask(&tree, &[b"JSON.GET", b"k"]).0, Reply::bulk(r#"{"m99999":99999}"#));
    // Taking the first of a long array again and again moves the others each time, and pays for that.
    let mut tree = with(&numbers);
    let path = format!("$[{}]", ["'a'"; 500].join(","));
    let mut nested = with(&format!("{{\"a\":{numbers}}}"));
    let (_, once) = run(&mut nested, &[b"JSON.ARRPOP", b"k", b"$.a", b"0"]);
    let (reply, spent) = run(&mut nested, &[b"JSON.ARRPOP", b"k", path.as_bytes(), b"0"]);
    assert!(error(&reply).starts_with("[") || matches!(reply, Reply::Array(_)));
    assert!(spent > once + 400 * 100_000 * 72 / 16, "{once} {spent}");
    assert_eq!(run(&mut tree, &[b"JSON.ARRPOP", b"k"]).0, Reply::bulk("99999"));
}

#[test]
fn answers_pay_for_their_bytes() {
    let tree = with(&format!("[{}]", vec!["[1,2,3,4,5,6,7,8]"; 10_000].join(",")));
    let indent = vec![b' '; 16 * 1024];
    let (reply, spent) = ask(&tree, &[b"JSON.GET", b"k", b"INDENT", &indent, b"NEWLINE", &indent, b"SPACE", &indent]);
    assert!(error(&reply).starts_with("BUDGET ") && spent < WORK_DEFAULT + SLACK, "{} {spent}", error(&reply));
    // The same path many times is followed, and answered, once.
    let words: Vec<&[u8]> = [&b"JSON.GET"[..], b"k"].into_iter().chain(vec![&b"$[0][0]"[..]; 200_000]).collect();
    let (reply, spent) = ask(&tree, &words);
    assert!(reply == Reply::bulk("[1]") || reply == Reply::bulk(r#"{"$[0][0]":[1]}"#), "{}", error(&reply));
    assert!(spent < 20_000_000, "{spent}");
    // Whatever shows all below each of all.
    let deep = with(&format!("{}{}{}", "[".repeat(120), "1,".repeat(20_000) + "1", "]".repeat(120)));
    for words in [
        &[&b"JSON.GET"[..], b"k", b"$..*"][..],
        &[b"JSON.RESP", b"k", b"$..*"],
        &[b"JSON.DEBUG", b"MEMORY", b"k", b"$..*"],
        &[b"JSON.ARRINDEX", b"k", b"$..*", b"2"],
    ] {
        let (reply, spent) = ask(&deep, words);
        assert!(spent > 1_000_000, "{}: {spent}", error(&reply));
        let limited = read(&View::new(&deep, WallTime(1000), 1).with_work_max(spent - 1), words);
        assert!(error(&limited).starts_with("BUDGET "), "{}", error(&limited));
    }
}

fn payload(body: &[u8]) -> Vec<u8> {
    let mut payload = body.to_vec();
    payload.extend(10u16.to_le_bytes());
    payload.extend(crc64_redis(&payload).to_le_bytes());
    payload
}

fn compressed(text: &[u8]) -> Vec<u8> {
    let mut string = vec![0xc3];
    let packed = lzf::compress(text).expect("it repeats itself");
    for length in [packed.len(), text.len()] {
        string.push(0x80);
        string.extend(u32::try_from(length).expect("it is short").to_be_bytes());
    }
    string.extend(packed);
    string
}

#[test]
fn payloads_pay_for_what_they_hold() {
    // A listpack of two million numbers, which a hundredth of its length says.
    let entries = 2_000_000;
    let total = 7 + 2 * entries;
    let mut listpack = u32::try_from(total).expect("it is short").to_le_bytes().to_vec();
    listpack.extend([0xff, 0xff]);
    listpack.extend([1, 1].repeat(entries));
    listpack.push(0xff);
    let payload_of = |kind: &[u8]| payload(&[kind, &compressed(&listpack)].concat());
    let list = payload_of(&[18, 1, 2]);
    assert!(list.len() < total / 60);
    check(&[b"RESTORE", b"k", b"0", &list]).expect("nothing is read of it before it is applied");
    let mut tree = Tree::new();
    let before = tree.digest();
    let applied = apply(&mut tree, &context(10_000_000), &[b"RESTORE", b"k", b"0", &list]);
    assert!(error(&applied.reply).starts_with("BUDGET "), "{}", error(&applied.reply));
    assert!(tree.meter().spent() < 11_000_000, "{}", tree.meter().spent());
    assert_eq!(tree.len(), 0);
    let (reply, spent) = run(&mut tree, &[b"RESTORE", b"k", b"0", &list]);
    assert!(reply == Reply::Ok && spent > 40_000_000, "{} {spent}", error(&reply));
    assert_ne!(tree.digest(), before);
    // A name that stands there once comes again with every entry of a stream.
    let name = vec![b'n'; 1 << 20];
    let mut items: Vec<u8> = Vec::new();
    let small = |items: &mut Vec<u8>, number: u8| items.extend([number, 1]);
    let (count, word) = (100u8, [&[0xf0][..], &(name.len() as u32).to_le_bytes(), &name].concat());
    [count, 0, 1].into_iter().for_each(|number| small(&mut items, number));
    items.extend(&word);
    items.extend(vec![0; 3]);
    small(&mut items, 0);
    for entry in 0..count {
        [2, entry, 0, 5, 4].into_iter().for_each(|number| small(&mut items, number));
    }
    let mut pack = u32::try_from(items.len() + 7).expect("it is short").to_le_bytes().to_vec();
    pack.extend([0xff, 0xff]);
    pack.extend(items);
    pack.push(0xff);
    let mut body = vec![15, 1, 16];
    body.extend([0; 16]);
    body.extend(compressed(&pack));
    body.extend([0x40, count, 0x40, count, 0, 0]);
    let stream = payload(&body);
    let applied = apply(&mut tree, &context(2_000_000), &[b"RESTORE", b"s", b"0", &stream]);
    assert!(error(&applied.reply).starts_with("BUDGET "), "{}", error(&applied.reply));
    assert!(tree.meter().spent() < 3_000_000, "{}", tree.meter().spent());
}
