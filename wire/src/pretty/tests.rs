use super::*;

fn bulk(text: &str) -> Value {
    Value::bulk(text)
}

#[test]
fn values_look_as_in_redis_cli() {
    let nested = Value::Array(vec![
        bulk("a"),
        Value::Array(vec![Value::Integer(1), Value::Null]),
        Value::Map(vec![(bulk("k"), bulk("v"))]),
    ]);
    let map = Value::Map(vec![
        (bulk("one"), Value::Integer(1)),
        (bulk("list"), Value::Array(vec![bulk("x"), bulk("y")])),
        (bulk("none"), Value::Array(vec![])),
    ]);
    let table: [(Value, &str); 18] = [
        (Value::ok(), "OK\n"),
        (Value::Error("ERR no".to_owned()), "(error) ERR no\n"),
        (Value::Integer(-3), "(integer) -3\n"),
        (Value::bulk(b"a\"\\\n\r\t\x07\x08\0\xff~"), "\"a\\\"\\\\\\n\\r\\t\\a\\b\\x00\\xff~\"\n"),
        (Value::Null, "(nil)\n"),
        (Value::NullArray, "(nil)\n"),
        (Value::Boolean(true), "(true)\n"),
        (Value::Boolean(false), "(false)\n"),
        (Value::Double(1.5), "(double) 1.5\n"),
        (Value::BigNumber("123".to_owned()), "123\n"),
        (Value::Verbatim { format: *b"txt", text: b"as it is".to_vec() }, "as it is\n"),
        (Value::Array(vec![]), "(empty array)\n"),
        (Value::Set(vec![]), "(empty set)\n"),
        (Value::Map(vec![]), "(empty hash)\n"),
        (Value::Set(vec![bulk("a"), bulk("b")]), "1~ \"a\"\n2~ \"b\"\n"),
        (nested, "1) \"a\"\n2) 1) (integer) 1\n   2) (nil)\n3) 1# \"k\" => \"v\"\n"),
        (map, "1# \"one\" => (integer) 1\n2# \"list\" => \n   1) \"x\"\n   2) \"y\"\n3# \"none\" => (empty array)\n"),
        (
            Value::Attributed { attributes: vec![(bulk("ttl"), Value::Integer(1))], value: Box::new(bulk("v")) },
            "1| \"ttl\" => (integer) 1\n\"v\"\n",
        ),
    ];
    for (value, expected) in table {
        assert_eq!(value.pretty(), expected);
    }
}

#[test]
fn numbers_are_aligned() {
    let value = Value::Array((1..=10).map(Value::Integer).collect());
    let pretty = value.pretty();
    assert!(pretty.starts_with(" 1) (integer) 1\n"));
    assert!(pretty.ends_with("\n10) (integer) 10\n"));
}

#[test]
fn values_of_maps_begin_a_line_if_they_take_several() {
    // As redis-cli 7 shows the like.
    let map = |key: &str, value: Value| Value::Map(vec![(bulk(key), value)]);
    let list = |numbers: &[i64]| Value::Array(numbers.iter().copied().map(Value::Integer).collect());
    let value = Value::Map(vec![
        (bulk("a"), list(&[1])),
        (bulk("b"), Value::Array(vec![list(&[1, 2])])),
        (bulk("c"), map("x", map("y", Value::Integer(1)))),
        (bulk("d"), map("u", list(&[1, 2]))),
        (bulk("g"), Value::Array(vec![map("zz", list(&[1, 2]))])),
    ]);
    let expected = [
        "1# \"a\" => 1) (integer) 1",
        "2# \"b\" => ",
        "   1) 1) (integer) 1",
        "      2) (integer) 2",
        "3# \"c\" => 1# \"x\" => 1# \"y\" => (integer) 1",
        "4# \"d\" => ",
        "   1# \"u\" => ",
        "      1) (integer) 1",
        "      2) (integer) 2",
        "5# \"g\" => ",
        "   1) 1# \"zz\" => ",
        "         1) (integer) 1",
        "         2) (integer) 2",
    ];
    assert_eq!(value.pretty().lines().collect::<Vec<_>>(), expected);
}
