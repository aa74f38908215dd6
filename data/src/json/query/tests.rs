//! Queries mean what they meant when a library read and followed them.

use super::super::path::Path;
use super::super::read::Given;
use super::super::{Json, at};
use crate::meter::Meter;
use base::Rng;
use serde_json_path::JsonPath;

fn json(text: &str) -> Json {
    Given::parse(text.as_bytes()).and_then(|text| text.read(&Meter::default())).expect("a document")
}

const DOCUMENT: &str = r#"{"a":[1,2.0,-3,{"b":"ab","c":[true,null,[]]},"xaby",[1,[2]],[1,[2]]],"b":{"a":"ab","b":{"a":5,"c":{"a":[0]}}},
    "c":"é\n\"","d":{"b":1,"a":[1]},"e":{"a":[1],"b":1.0},"":0,"n":9007199254740993,"o'k":[],"f":false}"#;

/// What the library finds, in its order; none if it refuses the path.
fn by_library(query: &str, document: &Json) -> Option<Vec<String>> {
    let path = JsonPath::parse(query).ok()?;
    let located = path.query_located(document);
    Some(located.iter().map(|node| format!("{} {}", node.location(), node.node())).collect())
}

/// What our engine finds. `None` if it refuses the path.
fn by_us(query: &str, document: &Json) -> Option<Vec<String>> {
    let meter = Meter::default();
    let path = Path::parse(query.as_bytes()).ok()?;
    let places = path.places(document, &meter).expect("there is no limit");
    let values = path.values(document, &meter).expect("there is no limit");
    let found = places.iter().zip(&values).map(|(place, value)| {
        assert_eq!(at(document, place), Some(*value), "{query}");
        let mut location = "$".to_owned();
        for hop in place {
            location += &match hop {
                // The library does not escape what it writes.
                super::super::path::Hop::Name(name) => format!("['{name}']"),
                super::super::path::Hop::Index(index) => format!("[{index}]"),
            };
        }
        format!("{location} {value}")
    });
    assert_eq!(places.len(), values.len(), "{query}");
    Some(found.collect())
}

fn add(rng: &mut Rng, out: &mut String, parts: &[&str]) {
    let part: &&str = rng.pick(parts);
    out.push_str(part);
}

/// Parts from which queries are put together, some of them wrong.
fn draw_step(rng: &mut Rng, deep: u64, out: &mut String) {
    match rng.below(12) {
        0 => out.push_str(".*"),
        1 => out.push_str("[*]"),
        2 => add(rng, out, &[".a", ".b", ".c", "['a']", "[\"b\"]", "['o\\'k']", "['\\u0061']", "[ 'a' ]"]),
        3 => add(rng, out, &["[0]", "[-1]", "[1]", "[ 2 ]", "[-0]", "[01]", "[9007199254740992]"]),
        4 => add(rng, out, &["[1:3]", "[::-1]", "[-3: :2]", "[5:0:-2]", "[:-1]", "[::0]", "[-9:9:1]", "[:::]"]),
        5 => add(rng, out, &["..*", "..a", "..[0]", "..['a','b']", "..b", ".."]),
        6 => add(rng, out, &["['a','b','a']", "[0,-1,0]", "['c',1, *]", "[1:3,0]", "['a' , ]"]),
        _ if deep > 0 => {
            out.push_str("[?");
            draw_any(rng, deep - 1, out);
            out.push(']');
        }
        _ => out.push_str(".a"),
    }
}

fn draw_query(rng: &mut Rng, deep: u64, out: &mut String) {
    add(rng, out, &["@", "@", "@", "$"]);
    for _ in 0..rng.below(3) {
        draw_step(rng, deep, out);
    }
}

fn draw_value(rng: &mut Rng, deep: u64, out: &mut String) {
    match rng.below(9) {
        0 => add(rng, out, &["1", "2.0", "-3", "1e0", "0", "-0", "1.", "5E", "01", "9007199254740992"]),
        1 => add(rng, out, &["'ab'", "\"a\"", "'a.*'", "\"\\n\"", "'\\q'", "'a{2}'", "'('"]),
        2 => add(rng, out, &["true", "false", "null", "True"]),
        3..5 => add(rng, out, &["@", "@.a", "@.b", "$.f", "@[0]", "@[-1]", "@['a'][1]", "$.n"]),
        5 => {
            out.push_str("length(");
            draw_value(rng, 0, out);
            out.push(')');
        }
        6 => {
            add(rng, out, &["count(", "value(", "count( "]);
            draw_query(rng, deep.min(1), out);
            add(rng, out, &[")", " )"]);
        }
        _ => draw_query(rng, 0, out),
    }
}

fn draw_test(rng: &mut Rng, deep: u64, out: &mut String) {
    if rng.chance(1, 6) {
        add(rng, out, &["!", "! "]);
    }
    match rng.below(8) {
        0 => {
            out.push('(');
            draw_any(rng, deep, out);
            out.push(')');
        }
        1 => {
            add(rng, out, &["match(", "search(", "find("]);
            draw_value(rng, deep, out);
            add(rng, out, &[",", ", ", ""]);
            draw_value(rng, deep, out);
            out.push(')');
        }
        2..5 => draw_query(rng, deep, out),
        _ => {
            draw_value(rng, deep, out);
            add(rng, out, &["==", " == ", "!=", "<", " <= ", ">", ">=", "=", ""]);
            draw_value(rng, deep, out);
        }
    }
}

fn draw_any(rng: &mut Rng, deep: u64, out: &mut String) {
    draw_test(rng, deep, out);
    for _ in 0..rng.below(5).saturating_sub(2) {
        add(rng, out, &["&&", " && ", "||", " || ", "&"]);
        draw_test(rng, deep, out);
    }
}

#[test]
fn queries_mean_what_they_meant() {
    let document = json(DOCUMENT);
    let (mut taken, mut refused, mut found) = (0, 0, 0);
    for seed in 0..30_000 {
        let mut rng = Rng::new(seed);
        let mut query = "$".to_owned();
        for _ in 0..1 + rng.below(3) {
            draw_step(&mut rng, 2, &mut query);
        }
        if query.matches("..").count() > 3 {
            continue;
        }
        // One that is wrong in its middle, now and then.
        if rng.chance(1, 10) {
            let at = 1 + rng.below(query.len() as u64 - 1) as usize;
            if query.is_char_boundary(at) {
                query.remove(at);
            }
        }
        // Followed as RedisJSON follows it; that has always been here.
        if query.contains(".[")
            || Path::parse(query.as_bytes()).is_ok_and(|path| path.is_legacy() || path.fixed().is_some())
        {
            continue;
        }
        let (ours, theirs) = (by_us(&query, &document), by_library(&query, &document));
        match (&ours, &theirs) {
            (Some(ours), Some(theirs)) => assert_eq!(ours, theirs, "{query}"),
            (None, None) => refused += 1,
            _ => panic!("seed {seed}: {query}: {ours:?} but {theirs:?}"),
        }
        if let Some(ours) = ours {
            taken += 1;
            found += ours.len();
        }
    }
    assert!(taken > 3000 && refused > 1000 && found > 10_000, "{taken} {refused} {found}");
}

#[test]
fn time_to_read_a_path_is_linear() {
    // What the library read 2^40 times.
    let nested = |levels: usize| format!("${}{}", "[?@".repeat(levels), "]".repeat(levels));
    assert!(Path::parse(nested(32).as_bytes()).is_ok());
    let refused = Path::parse(nested(33).as_bytes()).expect_err("it is nested too deeply").to_string();
    assert!(refused.ends_with("it has more than 32 filters inside one another"), "{refused}");
    assert!(Path::parse(nested(40).as_bytes()).is_err());
    // Values that are compared were read twice at each level, too.
    for (open, close) in [("length(", ")"), ("value(@[?", ">1])")] {
        let path = format!("$[?{}@.a{}==1]", open.repeat(30), close.repeat(30));
        assert!(Path::parse(path.as_bytes()).is_ok(), "{path}");
    }
    for (open, close) in [("(", ")"), ("!(", ")"), ("@[?(", ")]")] {
        let path = format!("$[?{}@.a{}]", open.repeat(31), close.repeat(31));
        assert!(Path::parse(path.as_bytes()).is_ok(), "{path}");
    }
}

fn nested_arrays(levels: usize) -> Json {
    json(&format!("{}{}", "[".repeat(levels), "]".repeat(levels)))
}

#[test]
fn what_a_path_finds_is_paid_before_more_is_found() {
    let document = nested_arrays(119);
    let meter = Meter::default();
    for (path, limit) in [("$..*..*..*", 1_000_000), ("$[?$..[?$..[?@.a]]]", 100_000), ("$..[?@..[?@..*]]", 10_000)] {
        let path = Path::parse(path.as_bytes()).expect("a path");
        meter.begin(limit, u64::MAX);
        assert!(path.places(&document, &meter).is_err());
        assert!(meter.spent() < limit + 10_000, "{path:?}: it went on to {}", meter.spent());
    }
    // What is kept of each place pays by the byte.
    meter.begin(u64::MAX, u64::MAX);
    let places = Path::parse(b"$..*").expect("a path").places(&document, &meter).expect("no limit");
    let bytes: usize = places.iter().map(|place| place.iter().map(super::super::path::Hop::bytes).sum::<usize>()).sum();
    assert!(places.len() == 118 && meter.spent() > bytes as u64);
}

#[test]
fn comparisons_and_patterns_pay_for_what_they_look_at() {
    let long = "x".repeat(100_000);
    let document = json(&format!(r#"{{"a":["{long}","{long}"],"w":"{long}","p":"(x|y)*z"}}"#));
    let spent = |path: &str| {
        let meter = Meter::default();
        let found = Path::parse(path.as_bytes()).expect("a path").values(&document, &meter).expect("no limit").len();
        (found, meter.spent())
    };
    let (found, units) = spent("$.a[?@==$.w]");
    assert!(found == 2 && units > 2 * 100_000 / 16, "{units}");
    let (found, units) = spent("$.a[?length(@)>5]");
    assert!(found == 2 && units > 2 * 100_000 / 16, "{units}");
    let (found, units) = spent("$.a[?match(@,'x+')]");
    assert!(found == 2 && units > 2 * 100_000, "{units}");
    let (found, cheap) = spent("$.a[?search(@,$.p)]");
    assert!(found == 0 && cheap > 2 * 100_000, "{cheap}");
    // As many states as may be alive at once.
    let (_, dear) = spent("$.a[?search(@,'(x|y)*x(x|y){200}z')]");
    assert!(dear > 50 * cheap, "{dear} {cheap}");
    // What would become too large matches nothing, and has paid.
    let (found, units) = spent(r"$.a[?match(@,'(\\pL{1000}){1000}')]");
    assert!(found == 0 && units > 10_000_000, "{units}");
}

#[test]
fn deep_queries_overflow_no_stack() {
    let document = nested_arrays(127);
    let wild = format!("${}", ".*".repeat(126));
    // As many steps inside one another as a path has room for.
    let filters = format!("$[?@{}{}", format!("[?${}", ".*".repeat(95)).repeat(20), "]".repeat(21));
    let below = format!("$..[?@..[?@..[?{}]]]", "@[?".repeat(29) + "@" + &"]".repeat(29));
    for path in [wild, filters, below] {
        let path = Path::parse(path.as_bytes()).expect("a path");
        let meter = Meter::default();
        meter.begin(20_000_000, u64::MAX);
        let _ = path.values(&document, &meter);
    }
}
