use super::*;
use crate::Protocol;

/// The replies in `input`, fed whole and byte by byte, and the error that ended them.
fn read_all(input: &[u8], limits: ReplyLimits) -> (Vec<Value>, Option<ReplyError>) {
    let mut runs = [usize::MAX, 1, 3].map(|bytes_each| {
        let mut parser = ReplyParser::new(limits);
        let mut found = Vec::new();
        for piece in input.chunks(bytes_each) {
            parser.push(piece);
            loop {
                match parser.next() {
                    Ok(Some(value)) => found.push(value),
                    Ok(None) => break,
                    Err(error) => {
                        assert_eq!(parser.next(), Err(error));
                        return (found, Some(error));
                    }
                }
            }
        }
        (found, None)
    });
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0], runs[2]);
    std::mem::take(&mut runs[0])
}

fn read(input: &[u8]) -> Vec<Value> {
    match read_all(input, ReplyLimits::default()) {
        (values, None) => values,
        (_, Some(error)) => panic!("{error}: {}", input.escape_ascii()),
    }
}

#[test]
fn every_type_is_read() {
    let text = |text: &str| Value::Simple(text.to_owned());
    let table: [(&str, Value); 22] = [
        ("+OK\r\n", Value::ok()),
        ("-ERR no\r\n", Value::Error("ERR no".to_owned())),
        ("!7\r\nERR a\r\n\r\n", Value::Error("ERR a\r\n".to_owned())),
        (":-5\r\n", Value::Integer(-5)),
        ("$3\r\n\r\nx\r\n", Value::bulk("\r\nx")),
        ("$0\r\n\r\n", Value::bulk("")),
        ("$-1\r\n", Value::Null),
        ("_\r\n", Value::Null),
        ("*-1\r\n", Value::NullArray),
        ("*0\r\n", Value::Array(vec![])),
        ("*2\r\n*1\r\n:1\r\n+a\r\n", Value::Array(vec![Value::Array(vec![Value::Integer(1)]), text("a")])),
        ("%1\r\n+a\r\n*0\r\n", Value::Map(vec![(text("a"), Value::Array(vec![]))])),
        ("%0\r\n", Value::Map(vec![])),
        ("~1\r\n#t\r\n", Value::Set(vec![Value::Boolean(true)])),
        ("#f\r\n", Value::Boolean(false)),
        (",-1.5e-9\r\n", Value::Double(-1.5e-9)),
        (",inf\r\n", Value::Double(f64::INFINITY)),
        ("(-12345678901234567890\r\n", Value::BigNumber("-12345678901234567890".to_owned())),
        ("=6\r\nmkd:#x\r\n", Value::Verbatim { format: *b"mkd", text: b"#x".to_vec() }),
        (">2\r\n+a\r\n:1\r\n", Value::Push(vec![text("a"), Value::Integer(1)])),
        (
            "|1\r\n+ttl\r\n:9\r\n*1\r\n:1\r\n",
            Value::Attributed {
                attributes: vec![(text("ttl"), Value::Integer(9))],
                value: Box::new(Value::Array(vec![Value::Integer(1)])),
            },
        ),
        (
            "*1\r\n|0\r\n+a\r\n",
            Value::Array(vec![Value::Attributed { attributes: vec![], value: Box::new(text("a")) }]),
        ),
    ];
    let mut all = String::new();
    for (input, expected) in &table {
        assert_eq!(read(input.as_bytes()), std::slice::from_ref(expected), "{input:?}");
        all.push_str(input);
    }
    let values: Vec<Value> = table.into_iter().map(|(_, value)| value).collect();
    assert_eq!(read(all.as_bytes()), values);
}

#[test]
fn what_is_wrong_is_refused() {
    for (input, error) in [
        ("PING\r\n", ReplyError::UnknownType(b'P')),
        ("+OK\n", ReplyError::Malformed),
        ("\r\n", ReplyError::Malformed),
        (":\r\n", ReplyError::Malformed),
        (":1.5\r\n", ReplyError::Malformed),
        ("$3\r\nabcde\r\n", ReplyError::Malformed),
        ("$-2\r\n", ReplyError::Malformed),
        ("$?\r\n", ReplyError::Malformed),
        ("*-2\r\n", ReplyError::Malformed),
        ("#x\r\n", ReplyError::Malformed),
        ("_x\r\n", ReplyError::Malformed),
        (",infinity\r\n", ReplyError::Malformed),
        ("(12a\r\n", ReplyError::Malformed),
        ("(-\r\n", ReplyError::Malformed),
        ("=3\r\ntxt\r\n", ReplyError::Malformed),
        ("=4\r\ntext\r\n", ReplyError::Malformed),
        ("*99999999999\r\n", ReplyError::TooLarge),
        ("$9223372036854775807\r\n", ReplyError::TooLarge),
        ("%9223372036854775807\r\n", ReplyError::TooLarge),
    ] {
        assert_eq!(read_all(input.as_bytes(), ReplyLimits::default()), (vec![], Some(error)), "{input:?}");
    }
}

#[test]
fn limits_hold() {
    let limits = ReplyLimits { depth_max: 3, values_max: 5, bytes_max: 40 };
    let fails = |input: &str| read_all(input.as_bytes(), limits).1 == Some(ReplyError::TooLarge);
    assert!(!fails("*1\r\n*1\r\n*1\r\n:1\r\n"));
    assert!(fails("*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"));
    assert!(!fails("*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n"), "the list counts as one");
    assert!(fails("*5\r\n"));
    assert!(fails("*2\r\n*2\r\n:1\r\n:1\r\n*2\r\n"));
    assert!(fails(&format!("+{}", "x".repeat(40))));
    assert!(!fails(&"+OK\r\n".repeat(20)), "each reply has the limits for itself");
    assert!(fails("$35\r\n"));
}

#[test]
fn every_value_reads_as_it_was_written() {
    let value = Value::Map(vec![
        (Value::Integer(i64::MAX), Value::Set(vec![Value::Boolean(true), Value::Null])),
        (Value::bulk(b"\0\xff"), Value::Push(vec![Value::Double(0.1), Value::Error("ERR x".to_owned())])),
    ]);
    let mut out = Vec::new();
    value.encode(&mut out, Protocol::Resp3);
    assert_eq!(read(&out), [value]);
}
