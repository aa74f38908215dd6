//! Replies on the screen and in pipes.

use wire::Value;

/// How replies are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    /// For people: quoted, numbered, typed.
    Pretty,
    /// For programs: the bytes, a line for each value.
    Raw,
}

/// A reply with the end of line behind it.
pub(super) fn formatted(reply: &Value, style: Style) -> Vec<u8> {
    match style {
        Style::Pretty => reply.pretty().into_bytes(),
        Style::Raw => {
            let mut out = Vec::new();
            write_raw(&mut out, reply);
            out.push(b'\n');
            out
        }
    }
}

/// As `redis-cli --raw`: nothing is escaped, elements stand on lines of their own, a map's key and value on one.
fn write_raw(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Simple(text) | Value::Error(text) | Value::BigNumber(text) => out.extend_from_slice(text.as_bytes()),
        Value::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Bulk(bytes) | Value::Verbatim { text: bytes, .. } => out.extend_from_slice(bytes),
        Value::Null | Value::NullArray => {}
        Value::Double(number) => wire::format_double(out, *number),
        Value::Boolean(truth) => out.extend_from_slice(if *truth { b"(true)" } else { b"(false)" }),
        Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => {
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b'\n');
                }
                write_raw(out, element);
            }
        }
        Value::Map(pairs) => {
            for (index, (key, value)) in pairs.iter().enumerate() {
                if index > 0 {
                    out.push(b'\n');
                }
                write_raw(out, key);
                out.push(b' ');
                write_raw(out, value);
            }
        }
        Value::Attributed { value, .. } => write_raw(out, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_output_is_bytes() {
        let raw = |value: Value| formatted(&value, Style::Raw);
        assert_eq!(raw(Value::bulk(b"a\xff\"")), b"a\xff\"\n");
        assert_eq!(raw(Value::Null), b"\n");
        assert_eq!(raw(Value::Integer(-7)), b"-7\n");
        assert_eq!(raw(Value::Double(1.5)), b"1.5\n");
        let list = Value::Array(vec![Value::bulk("a"), Value::Null, Value::Array(vec![Value::Integer(1)])]);
        assert_eq!(raw(list), b"a\n\n1\n");
        let map = Value::Map(vec![(Value::bulk("k"), Value::bulk("v")), (Value::bulk("l"), Value::Boolean(true))]);
        assert_eq!(raw(map), b"k v\nl (true)\n");
    }

    #[test]
    fn pretty_output_is_for_people() {
        assert_eq!(formatted(&Value::bulk("a"), Style::Pretty), b"\"a\"\n");
        assert_eq!(formatted(&Value::Error("ERR x".into()), Style::Pretty), b"(error) ERR x\n");
    }
}
