//! Keys as lines of JSON, and back.

use base::WallTime;
use data::lines;
use data::rebuild::{self, WHOLE_BYTES_MAX};
use data::{Reply, Tree};
use std::convert::Infallible;

use crate::rebuild::{NOW, ask, assert_same, example, must, run};

fn written(tree: &Tree) -> Vec<String> {
    let mut all = Vec::new();
    let Ok(count) = lines::write(tree, |line| -> Result<(), Infallible> {
        all.push(line.to_owned());
        Ok(())
    });
    assert_eq!(count, all.len() as u64);
    all
}

#[test]
fn everything_comes_back() {
    let tree = example();
    let mut other = Tree::new();
    let Ok(()) = rebuild::libraries(&tree, |words| -> Result<(), Infallible> {
        run(&mut other, NOW, words);
        Ok(())
    });
    for line in written(&tree) {
        let read = lines::read(&line, WallTime(NOW)).unwrap_or_else(|text| panic!("{line}: {text}"));
        assert_eq!(read.tree.len(), 1, "{line}");
        let Ok(_) = rebuild::keys(&read.tree, None, WHOLE_BYTES_MAX, |_, _, words| -> Result<(), Infallible> {
            let reply = run(&mut other, NOW, words);
            assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
            Ok(())
        });
    }
    assert_same(&tree, &other, false);
}

#[test]
fn each_type_has_its_form() {
    let mut tree = Tree::new();
    for line in [
        "SET a text",
        "SET b until PXAT 1700000005000",
        "HSET c f v g w",
        "HSET d f v g w",
        "HPEXPIREAT d 1700000006000 FIELDS 1 g",
        "RPUSH e x y x",
        "SADD f only",
        "ZADD g 1.5 one",
        "ZADD h -inf low",
        "JSON.SET i $ {\"n\":[1,2.5,null]}",
        "XADD j 5-1 f v",
    ] {
        must(&mut tree, line);
    }
    run(&mut tree, NOW, &[b"SET", b"k\xff", b"\x00\xfe"]);
    let mut lines = written(&tree);
    lines.sort();
    let expected = [
        r#"{"key":"a","type":"string","value":"text"}"#,
        r#"{"key":"b","type":"string","expires_at_ms":1700000005000,"value":"until"}"#,
        r#"{"key":"c","type":"hash","value":{"#,
        r#"{"key":"d","type":"hash","value":[["#,
        r#"{"key":"e","type":"list","value":["x","y","x"]}"#,
        r#"{"key":"f","type":"set","value":["only"]}"#,
        r#"{"key":"g","type":"zset","value":[["one",1.5]]}"#,
        r#"{"key":"h","type":"zset","value":[["low","-inf"]]}"#,
        r#"{"key":"i","type":"ReJSON-RL","value":{"n":[1,2.5,null]}}"#,
        r#"{"key":"j","type":"stream","value":{"entries":[["5-1",["f","v"]]],"last":"5-1","added":1,"deleted":"0-0","groups":[]}}"#,
        r#"{"key":{"hex":"6bff"},"type":"string","value":{"hex":"00fe"}}"#,
    ];
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }
    assert!(lines[3].contains(r#"["g","w",1700000006000]"#), "{}", lines[3]);
}

#[test]
fn what_is_none_is_told() {
    for (line, text) in [
        ("", "EOF"),
        ("[]", "no object"),
        (r#"{"key":"a","type":"string"}"#, "no 'value'"),
        (r#"{"key":"a","type":"string","value":1}"#, "a text is expected"),
        (r#"{"key":"a","type":"string","value":{"hex":"0"}}"#, "pairs of hexadecimal"),
        (r#"{"key":"a","type":"string","value":{"hex":"\u00e9"}}"#, "pairs of hexadecimal"),
        (r#"{"key":"a","type":"string","value":"v","ttl":5}"#, "'ttl' means nothing"),
        (r#"{"key":"a","type":"tree","value":"v"}"#, "'tree' is not known"),
        (r#"{"key":"a","type":"list","value":[]}"#, "would hold nothing"),
        (r#"{"key":"a","type":"zset","value":[["m","x"]]}"#, "not a valid float"),
        (r#"{"key":"a","type":"hash","value":[["f"]]}"#, "a field has a value"),
        (r#"{"key":"a","type":"stream","value":{"entries":[]}}"#, "no 'groups'"),
    ] {
        let said = lines::read(line, WallTime(NOW)).map(|_| ()).expect_err(line);
        assert!(said.contains(text), "{line}: {said}");
    }
    let over = lines::read(r#"{"key":"a","type":"string","expires_at_ms":5,"value":"v"}"#, WallTime(NOW));
    assert!(over.is_ok_and(|line| line.tree.is_empty()), "its time is up");
    assert_eq!(ask(&Tree::new(), "GET a"), Reply::Nil);
}
