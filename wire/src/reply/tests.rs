use super::*;

/// What `write` writes, in both dialects.
fn both(write: impl Fn(&mut ReplyWriter<'_>)) -> [String; 2] {
    [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
        let mut out = Vec::new();
        write(&mut ReplyWriter::new(&mut out, protocol));
        out.escape_ascii().to_string()
    })
}

#[test]
fn replies_in_both_dialects() {
    let table: [([String; 2], &str, &str); 22] = [
        (both(|w| w.ok()), r"+OK\r\n", r"+OK\r\n"),
        (both(|w| w.simple("QUEUED")), r"+QUEUED\r\n", r"+QUEUED\r\n"),
        (both(|w| w.error("ERR a\r\nb")), r"-ERR a  b\r\n", r"-ERR a  b\r\n"),
        (both(|w| w.error_bytes(b"ERR \xff")), r"-ERR \xff\r\n", r"-ERR \xff\r\n"),
        (both(|w| w.integer(0)), r":0\r\n", r":0\r\n"),
        (both(|w| w.integer(-1)), r":-1\r\n", r":-1\r\n"),
        (both(|w| w.integer(i64::MIN)), r":-9223372036854775808\r\n", r":-9223372036854775808\r\n"),
        (both(|w| w.bulk(b"a\r\nb")), r"$4\r\na\r\nb\r\n", r"$4\r\na\r\nb\r\n"),
        (both(|w| w.bulk_or_null(Some(b"0123456789"))), r"$10\r\n0123456789\r\n", r"$10\r\n0123456789\r\n"),
        (both(|w| w.bulk_or_null(None)), r"$-1\r\n", r"_\r\n"),
        (both(|w| w.null_array()), r"*-1\r\n", r"_\r\n"),
        (both(|w| w.array(3)), r"*3\r\n", r"*3\r\n"),
        (both(|w| w.map(3)), r"*6\r\n", r"%3\r\n"),
        (both(|w| w.set(12)), r"*12\r\n", r"~12\r\n"),
        (both(|w| w.push(3)), r"*3\r\n", r">3\r\n"),
        (both(|w| assert_eq!(w.attribute(1), w.protocol() == Protocol::Resp3)), "", r"|1\r\n"),
        (both(|w| w.double(1.5)), r"$3\r\n1.5\r\n", r",1.5\r\n"),
        (both(|w| w.double(f64::NEG_INFINITY)), r"$4\r\n-inf\r\n", r",-inf\r\n"),
        (both(|w| w.boolean(true)), r":1\r\n", r"#t\r\n"),
        (both(|w| w.boolean(false)), r":0\r\n", r"#f\r\n"),
        (both(|w| w.big_number("-123")), r"$4\r\n-123\r\n", r"(-123\r\n"),
        (both(|w| w.verbatim(*b"txt", b"hi")), r"$2\r\nhi\r\n", r"=6\r\ntxt:hi\r\n"),
    ];
    for (index, (written, resp2, resp3)) in table.into_iter().enumerate() {
        assert_eq!(written, [resp2, resp3], "line {index}");
    }
}

#[test]
fn commands_are_arrays_of_strings() {
    let mut out = b"before".to_vec();
    encode_command(&mut out, ["SET", "key", ""]);
    assert_eq!(out, b"before*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");
}

#[test]
fn dialects_have_numbers() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        assert_eq!(Protocol::from_number(i64::from(protocol.number())), Some(protocol));
    }
    assert_eq!(Protocol::from_number(4), None);
    assert_eq!(Protocol::default(), Protocol::Resp2);
}
