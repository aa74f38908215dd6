//! Replies as people read them, in the manner of redis-cli.

use std::fmt::Write;

use crate::value::Value;

/// Bytes in double quotes, with what is not printable ASCII escaped as redis-cli does.
/// [`split_line`](crate::split_line) reads it back.
#[must_use]
pub fn quote(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            7 => out.push_str("\\a"),
            8 => out.push_str("\\b"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => write!(out, "\\x{byte:02x}").expect("a string takes all text"),
        }
    }
    out.push('"');
    out
}

impl Value {
    /// This reply for people, as redis-cli shows it on a terminal: `(integer) 1`, `1) "a"`, `1# "key" => "value"`.
    /// Lines end with `\n`, the last one too.
    #[must_use]
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        write_value(&mut out, self, 0);
        out
    }
}

/// Appends a value that begins at column `indent`, and an end of line.
fn write_value(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Simple(text) | Value::BigNumber(text) => line(out, text),
        Value::Error(text) => line(out, &format!("(error) {text}")),
        Value::Integer(number) => line(out, &format!("(integer) {number}")),
        Value::Bulk(bytes) => line(out, &quote(bytes)),
        Value::Null | Value::NullArray => line(out, "(nil)"),
        Value::Boolean(truth) => line(out, if *truth { "(true)" } else { "(false)" }),
        Value::Double(number) => {
            let mut text = Vec::new();
            crate::format_double(&mut text, *number);
            line(out, &format!("(double) {}", String::from_utf8_lossy(&text)));
        }
        Value::Verbatim { text, .. } => line(out, &String::from_utf8_lossy(text)),
        Value::Array(elements) => write_list(out, elements, ')', "(empty array)", indent),
        Value::Set(elements) => write_list(out, elements, '~', "(empty set)", indent),
        Value::Push(elements) => write_list(out, elements, ')', "(empty push)", indent),
        Value::Map(pairs) => write_map(out, pairs, '#', "(empty hash)", indent),
        Value::Attributed { attributes, value } => {
            if !attributes.is_empty() {
                write_map(out, attributes, '|', "", indent);
                spaces(out, indent);
            }
            write_value(out, value, indent);
        }
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn spaces(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}

/// The width of the largest number of a list, so that the numbers stand right-aligned.
fn number_width(count: usize) -> usize {
    count.to_string().len()
}

fn write_list(out: &mut String, elements: &[Value], mark: char, empty: &str, indent: usize) {
    if elements.is_empty() {
        return line(out, empty);
    }
    let width = number_width(elements.len());
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            spaces(out, indent);
        }
        write!(out, "{:>width$}{mark} ", index + 1).expect("a string takes all text");
        write_value(out, element, indent + width + 2);
    }
}

fn write_map(out: &mut String, pairs: &[(Value, Value)], mark: char, empty: &str, indent: usize) {
    if pairs.is_empty() {
        return line(out, empty);
    }
    let width = number_width(pairs.len());
    for (index, (key, value)) in pairs.iter().enumerate() {
        if index > 0 {
            spaces(out, indent);
        }
        write!(out, "{:>width$}{mark} ", index + 1).expect("a string takes all text");
        let inner = indent + width + 2;
        write_value(out, key, inner);
        out.pop();
        out.push_str(" => ");
        let is_aggregate = matches!(value, Value::Array(_) | Value::Set(_) | Value::Push(_) | Value::Map(_));
        let mut text = String::new();
        write_value(&mut text, value, inner);
        if is_aggregate && text.trim_end_matches('\n').contains('\n') {
            // redis-cli begins what takes several lines on a line of its own.
            out.push('\n');
            spaces(out, inner);
        }
        out.push_str(&text);
    }
}

#[cfg(test)]
mod tests;
