use super::*;
use crate::json::read::Given;
use proptest::prelude::*;

const DOCUMENT: &str = r#"{"a":1,"b-c":[10,{"a":2},[3,4,5]],"é":{"x y":"z"},"":0,"o'k":6,"d\"q":7}"#;

fn document() -> Json {
    Given::parse(DOCUMENT.as_bytes()).and_then(|text| text.read(&Meter::default())).expect("a document")
}

fn found(path: &str) -> String {
    let document = document();
    let path = Path::parse(path.as_bytes()).expect("a path");
    let meter = Meter::default();
    let values = path.values(&document, &meter).expect("no limit");
    let at_places: Vec<Json> = path
        .places(&document, &meter)
        .expect("no limit")
        .iter()
        .filter_map(|place| at(&document, place).cloned())
        .collect();
    assert_eq!(values.into_iter().cloned().collect::<Vec<_>>(), at_places, "both ways find the same");
    Json::from(at_places).to_string()
}

#[test]
fn both_kinds_are_read() {
    for (path, values) in [
        ("$", format!("[{DOCUMENT}]").as_str()),
        (".", &format!("[{DOCUMENT}]")),
        ("$.a", "[1]"),
        (".a", "[1]"),
        ("a", "[1]"),
        ("$['a']", "[1]"),
        ("[\"a\"]", "[1]"),
        ("$.b-c[0]", "[10]"),
        ("b-c[-1][1]", "[4]"),
        ("$.b-c.[1].a", "[2]"),
        ("$.é['x y']", "[\"z\"]"),
        ("$['']", "[0]"),
        ("$['o\\'k']", "[6]"),
        ("$['d\"q']", "[7]"),
        ("$[\"d\\\"q\"]", "[7]"),
        ("$..a", "[1,2]"),
        ("..a", "[1,2]"),
        ("$.b-c[*]", "[10,{\"a\":2},[3,4,5]]"),
        ("$.b-c[2][0:2]", "[3,4]"),
        ("$['a','o\\'k']", "[1,6]"),
        ("$.b-c[?(@.a==2)]", "[{\"a\":2}]"),
        ("$.b-c[2][?@>3]", "[4,5]"),
        ("$..[0]", "[10,3]"),
        ("$.*.*", "[10,{\"a\":2},[3,4,5],\"z\"]"),
        ("*.*", "[10,{\"a\":2},[3,4,5],\"z\"]"),
        ("$.absent", "[]"),
        ("$.b-c[3]", "[]"),
        ("$.b-c[-4]", "[]"),
        ("$.a.a", "[]"),
    ] {
        assert_eq!(found(path), values, "{path}");
    }
}

#[test]
fn what_names_one_place_is_followed_without_a_query() {
    for path in ["$", "$.a", "$.a[0]['b']", "a.b", ".a[-1]"] {
        assert!(Path::parse(path.as_bytes()).expect("a path").fixed().is_some(), "{path}");
    }
    for path in ["$..a", "$.*", "$[0:1]", "$['a','b']", "$[?@.a]", "$..[0]"] {
        assert!(Path::parse(path.as_bytes()).expect("a path").fixed().is_none(), "{path}");
    }
    assert!(Path::parse(b"$").is_ok_and(|path| path.is_root() && !path.is_legacy()));
    assert!(Path::parse(b".").is_ok_and(|path| path.is_root() && path.is_legacy()));
    assert!(Path::parse(b"$a").is_ok_and(|path| path.is_legacy()));
}

#[test]
fn what_is_no_path_is_refused() {
    let deep = format!("${}", "[0]".repeat(BRACKETS_MAX + 1));
    let nested = format!("$[?{}@.a{}]", "(".repeat(200), ")".repeat(200));
    let hidden = format!("$[?@.a==\"]])\" && {}@.a{}]", "(".repeat(200), ")".repeat(200));
    let long = format!("$.{}", "a".repeat(PATH_BYTES_MAX));
    for path in [
        "",
        "$.",
        "$..",
        "$[",
        "$[]",
        "$.a[",
        "$.a]",
        "$['a",
        "$[?",
        "$[?(@.a]",
        "$.a b",
        "$x.y\0",
        "$....a",
        "$[0",
        "$.a..",
        "$['a'b]",
        "$[1)",
        "$[0]a",
        "$..a..b..c..d",
        "$[?@..a..b..c..d]",
        &deep,
        &nested,
        &hidden,
        &long,
    ] {
        assert!(Path::parse(path.as_bytes()).is_err(), "{path:?}");
    }
    assert!(Path::parse(b"$.\xff").is_err());
}

#[test]
fn long_paths_and_odd_ones_overflow_no_stack() {
    let not = format!("$[?{}@.a]", "!".repeat(3000));
    let and = format!("$[?@.a{}]", "&&@.a".repeat(700));
    let names = format!("${}", ".a".repeat(2000));
    let document = document();
    for path in [&not, &and, &names] {
        if let Ok(path) = Path::parse(path.as_bytes()) {
            let meter = Meter::default();
            let places = path.places(&document, &meter).expect("no limit");
            assert_eq!(places.len(), path.values(&document, &meter).expect("no limit").len());
        }
    }
}

proptest! {
    #[test]
    fn whatever_a_client_sends_is_followed_or_refused(text in "[$.]{0,2}[$.\\[\\]()'\"*?@ab\\-0-2:, !=<>&|\\\\é]{0,24}") {
        let document = document();
        if let Ok(path) = Path::parse(text.as_bytes()) {
            let meter = Meter::default();
            let places = path.places(&document, &meter).expect("no limit");
            let found: Vec<_> = places.iter().map(|place| at(&document, place)).collect();
            let values = path.values(&document, &meter).expect("no limit");
            prop_assert_eq!(found, values.into_iter().map(Some).collect::<Vec<_>>());
        }
    }
}
