//! Command lines: words split and quoted as `redis-cli` users and inline commands write them.

use std::fmt;

/// A quote was opened and not closed, or something other than a space followed a closing quote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnbalancedQuotes;

impl fmt::Display for UnbalancedQuotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unbalanced quotes")
    }
}

impl std::error::Error for UnbalancedQuotes {}

/// Splits a line into words by Redis's rules.
///
/// Words are separated by white space. Within double quotes `\n \r \t \b \a`, `\xHH` and `\` before any other byte
/// are escapes; within single quotes only `\'` is. A quote may open in the middle of a word; where it closes, the
/// word ends. A zero byte ends the line.
///
/// # Errors
/// [`UnbalancedQuotes`].
pub fn split_line(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
    let mut words = Vec::new();
    split(line, |word| words.push(word.to_vec()))?;
    Ok(words)
}

/// What C's `isspace` takes for white space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Hands each word to `take`.
pub(crate) fn split(line: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), UnbalancedQuotes> {
    let end = memchr::memchr(0, line).unwrap_or(line.len());
    let mut rest = &line[..end];
    let mut word = Vec::new();
    loop {
        let blank = rest.iter().take_while(|&&byte| is_space(byte)).count();
        rest = &rest[blank..];
        if rest.is_empty() {
            return Ok(());
        }
        word.clear();
        rest = read_word(rest, &mut word)?;
        take(&word);
    }
}

/// Reads one word from the beginning of `rest`, which must not be empty, and returns what follows.
fn read_word<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            // Fewer than `is_space` knows: vertical tab and form feed separate words only at their beginning.
            b' ' | b'\n' | b'\r' | b'\t' => break,
            b'"' => return close(read_double_quoted(after, word)?),
            b'\'' => return close(read_single_quoted(after, word)?),
            _ => word.push(byte),
        }
        rest = after;
    }
    Ok(rest)
}

/// Checks what follows a closing quote.
fn close(rest: &[u8]) -> Result<&[u8], UnbalancedQuotes> {
    match rest {
        [] => Ok(rest),
        [byte, ..] if is_space(*byte) => Ok(rest),
        _ => Err(UnbalancedQuotes),
    }
}

fn read_double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        rest = match rest {
            [] => return Err(UnbalancedQuotes),
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                word.push(hex(*high) << 4 | hex(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
        };
    }
}

fn read_single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        rest = match rest {
            [] => return Err(UnbalancedQuotes),
            [b'\'', after @ ..] => return Ok(after),
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
        };
    }
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<String>> {
        let words = split_line(line.as_bytes()).ok()?;
        Some(words.iter().map(|word| word.escape_ascii().to_string()).collect())
    }

    #[test]
    fn lines_are_split_as_redis_splits_them() {
        let table: [(&str, Option<&[&str]>); 20] = [
            ("", Some(&[])),
            ("  \t ", Some(&[])),
            ("PING", Some(&["PING"])),
            (" SET  a\tb ", Some(&["SET", "a", "b"])),
            (r#"SET a "b c""#, Some(&["SET", "a", "b c"])),
            (r#""\n\r\t\b\a\q""#, Some(&[r"\n\r\t\x08\x07q"])),
            (r#""\x41\x4a\xzz""#, Some(&["AJxzz"])),
            (r#""\xFf\"""#, Some(&[r#"\xff\""#])),
            (r"'a\'b\n'", Some(&[r"a\'b\\n"])),
            (r#"'"' "'""#, Some(&[r#"\""#, r"\'"])),
            (r#"a"b""#, Some(&["ab"])),
            (r#"a'b c' d"#, Some(&["ab c", "d"])),
            (r#""""#, Some(&[""])),
            (r#""a"b"#, None),
            (r#"'a'b"#, None),
            (r#""a"#, None),
            (r#"'a"#, None),
            (r#""a\"#, None),
            (r#"'a\'"#, None),
            ("a\u{b}b \u{b}c\0d\"", Some(&[r"a\x0bb", "c"])),
        ];
        for (line, expected) in table {
            let expected = expected.map(|words| words.iter().map(ToString::to_string).collect());
            assert_eq!(words(line), expected, "{line:?}");
        }
    }
}
