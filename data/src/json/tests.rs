use super::path::Path;
use super::read::Given;
use super::*;

fn parse(text: &[u8]) -> Result<Json, Failure> {
    Given::parse(text).and_then(|text| text.read(&Meter::default()))
}

fn places(path: &str, document: &Json) -> Vec<Place> {
    Path::parse(path.as_bytes()).and_then(|path| path.places(document, &Meter::default())).expect("a path")
}

fn json(text: &str) -> Json {
    parse(text.as_bytes()).expect("a document")
}

#[test]
fn what_is_too_deep_is_never_kept() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deepest = json(&nested(DEPTH_MAX));
    let meter = Meter::default();
    let to_text = |document: &Json| to_text(document, u64::MAX, &meter);
    assert_eq!(stored(&to_text(&deepest).expect("it may be kept"), &meter), Ok(deepest.clone()));
    assert!(parse(nested(DEPTH_MAX + 1).as_bytes()).is_err());
    assert!(to_text(&Json::Array(vec![deepest.clone()])).is_err());
    assert!(to_text(&Json::from_iter([("a", deepest)])).is_err());
}

#[test]
fn numbers_and_members_stay_as_they_were() {
    for text in ["1.0", "1e+100", "-0.0", "18446744073709551615", "0.1", r#"{"b":1,"a":{"d":[],"c":{}}}"#, r#""é\n""#]
    {
        assert_eq!(json(text).to_string(), text);
    }
}

#[test]
fn only_the_outermost_places_are_changed() {
    let document = json(r#"{"a":{"a":1,"b":[{"a":2},{"a":3}]},"c":[0,{"a":4}]}"#);
    let outermost = |text: &str| outermost(places(text, &document), &Meter::default()).expect("no limit");
    let found = |text: &str| outermost(text).len();
    assert_eq!(places("$..a", &document).len(), 5);
    assert_eq!(found("$..a"), 2);
    assert_eq!(found("$..*"), 2);
    for (path, removed, left) in [
        ("$.c[*]", 2, r#"{"a":{"a":1,"b":[{"a":2},{"a":3}]},"c":[]}"#),
        ("$..a", 2, r#"{"c":[0,{}]}"#),
        ("$..b[0]", 1, r#"{"a":{"a":1,"b":[{"a":3}]},"c":[0,{"a":4}]}"#),
        ("$['c','c']", 1, r#"{"a":{"a":1,"b":[{"a":2},{"a":3}]}}"#),
        ("$.*[?@>0]", 1, r#"{"a":{"b":[{"a":2},{"a":3}]},"c":[0,{"a":4}]}"#),
        ("$.a.b[1,0].a", 2, r#"{"a":{"a":1,"b":[{},{}]},"c":[0,{"a":4}]}"#),
        ("$.absent", 0, r#"{"a":{"a":1,"b":[{"a":2},{"a":3}]},"c":[0,{"a":4}]}"#),
    ] {
        let mut without = document.clone();
        assert_eq!(remove_all(&mut without, &outermost(path)), removed, "{path}");
        assert_eq!(without.to_string(), left, "{path}");
    }
    assert_eq!(remove_all(&mut document.clone(), &[vec![]]), 0);
}

#[test]
fn merging_follows_the_examples_of_its_standard() {
    // RFC 7396, appendix A.
    for (target, patch, result) in [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
        (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
        (r#"{"a":"foo"}"#, "null", "null"),
        (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
        ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
    ] {
        let mut merged = json(target);
        merge(&mut merged, json(patch), &Meter::default());
        assert_eq!(merged.to_string(), result, "{patch} into {target}");
    }
}

#[test]
fn equal_is_what_means_the_same() {
    let are_equal = |one: &Json, other: &Json| are_equal(one, other, &Meter::default());
    assert!(are_equal(&json("[1,{\"a\":2}]"), &json("[1.0,{\"a\":2}]")));
    assert!(are_equal(&json(r#"{"a":1,"b":2}"#), &json(r#"{"b":2,"a":1}"#)));
    for (one, other) in [
        ("1", "2"),
        ("1", "\"1\""),
        ("[1]", "[1,2]"),
        (r#"{"a":1}"#, r#"{"b":1}"#),
        ("9007199254740993", "9007199254740992"),
    ] {
        assert!(!are_equal(&json(one), &json(other)), "{one} {other}");
    }
}
