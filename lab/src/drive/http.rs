//! HTTP/1.1 over a kept connection: the three commands that have a route, and where a response ends.
//!
//! | command | `/v1/keys` | dictionary |
//! |---|---|---|
//! | `GET key` | `GET /v1/keys/{key}` | `GET /getValue?key={key}` |
//! | `SET key value` | `PUT /v1/keys/{key}`, the value as body | `POST /insertOrUpdate`, `{"key":…,"value":…}` |
//! | `DEL key` | `DELETE /v1/keys/{key}` | none |
//!
//! Framing of messages is RFC 9112 §6: `Content-Length`, or chunks, or neither for 204 and 304.

use std::fmt::Write as _;

use super::skim::{Kind, Reply};
use crate::workload::{Words, push_decimal};

/// Bytes of a response's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a response's body.
const BODY_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Which routes are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routes {
    /// `/v1/keys/{key}`.
    Keys,
    /// The replicated dictionary's.
    Dictionary,
}

/// Appends the request for `words` to `out`.
///
/// # Errors
/// A sentence, if HTTP has no route for the command; nothing was appended.
pub fn encode(
    out: &mut Vec<u8>,
    words: &Words<'_>,
    routes: Routes,
    host: &str,
    authorization: &str,
) -> Result<(), String> {
    let name = words.get(0).unwrap_or_default();
    let (key, value) = (words.get(1), words.get(2));
    let plain = |count| words.len() == count;
    match (name, key, value) {
        (b"GET", Some(key), None) => {
            out.extend_from_slice(b"GET ");
            out.extend_from_slice(if routes == Routes::Keys { b"/v1/keys/" } else { b"/getValue?key=" });
            percent(out, key);
            head(out, host, authorization);
            out.extend_from_slice(b"\r\n");
        }
        (b"DEL", Some(key), None) if routes == Routes::Keys => {
            out.extend_from_slice(b"DELETE /v1/keys/");
            percent(out, key);
            head(out, host, authorization);
            out.extend_from_slice(b"\r\n");
        }
        (b"SET", Some(key), Some(value)) if plain(3) && routes == Routes::Keys => {
            out.extend_from_slice(b"PUT /v1/keys/");
            percent(out, key);
            head(out, host, authorization);
            out.extend_from_slice(b"content-length: ");
            push_decimal(out, value.len() as u64);
            out.extend_from_slice(b"\r\n\r\n");
            out.extend_from_slice(value);
        }
        (b"SET", Some(key), Some(value)) if plain(3) => {
            let mut body = String::with_capacity(key.len() + value.len() + 32);
            body.push_str("{\"key\":");
            json_text(&mut body, key)?;
            body.push_str(",\"value\":");
            json_text(&mut body, value)?;
            body.push('}');
            out.extend_from_slice(b"POST /insertOrUpdate");
            head(out, host, authorization);
            out.extend_from_slice(b"content-type: application/json\r\ncontent-length: ");
            push_decimal(out, body.len() as u64);
            out.extend_from_slice(b"\r\n\r\n");
            out.extend_from_slice(body.as_bytes());
        }
        _ => {
            let command: Vec<String> = words.clone().take(2).map(|word| word.escape_ascii().to_string()).collect();
            return Err(format!(
                "HTTP has no route for `{} …`: use a target that begins with redis://, or a workload of GET and SET",
                command.join(" ")
            ));
        }
    }
    Ok(())
}

fn head(out: &mut Vec<u8>, host: &str, authorization: &str) {
    out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    out.extend_from_slice(host.as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(authorization.as_bytes());
}

/// Percent-encodes what is not unreserved (RFC 3986 §2.3).
fn percent(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(*byte);
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

/// Appends `bytes` as a JSON string (RFC 8259 §7).
fn json_text(out: &mut String, bytes: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| "JSON carries only text: use /v1/keys (http://) for values of any bytes".to_owned())?;
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 => write!(out, "\\u{:04x}", c as u32).map_err(|error| error.to_string())?,
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(())
}

/// A response at the beginning of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Its length and kind: 2xx and 304 are values, 404 is nothing, the rest are errors.
    pub reply: Reply,
    /// Its status.
    pub status: u16,
    /// Whether the server closes the connection after it.
    pub closes: bool,
    /// Where its body begins.
    pub body_at: usize,
}

/// The response at the beginning of `bytes`, if all of it is there.
///
/// # Errors
/// A sentence, when the bytes are no response: the connection is to be closed.
pub fn skim(bytes: &[u8]) -> Result<Option<Response>, String> {
    let Some(head_bytes) = bytes.windows(4).take(HEAD_BYTES_MAX).position(|four| four == b"\r\n\r\n") else {
        let started = bytes.len().min(5);
        if bytes.len() > HEAD_BYTES_MAX || bytes[..started] != b"HTTP/"[..started] {
            return Err("the server's answer is no HTTP response".to_owned());
        }
        return Ok(None);
    };
    let head = &bytes[..head_bytes];
    let body_at = head_bytes + 4;
    let strange = || "the head of the server's HTTP response is malformed".to_owned();
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.next().unwrap_or_default();
    let status = first
        .strip_prefix(b"HTTP/1.")
        .and_then(|rest| std::str::from_utf8(rest.get(2..5)?).ok()?.parse::<u16>().ok())
        .ok_or_else(strange)?;
    let (mut length, mut chunked, mut closes) = (None, false, first.starts_with(b"HTTP/1.0"));
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return Err(strange()) };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let digits = std::str::from_utf8(value).ok().and_then(|text| text.parse::<usize>().ok());
            length = Some(digits.filter(|length| *length <= BODY_BYTES_MAX).ok_or_else(strange)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            chunked = value.to_ascii_lowercase().ends_with(b"chunked");
        } else if name.eq_ignore_ascii_case(b"connection") {
            closes = value.eq_ignore_ascii_case(b"close");
        }
    }
    let body_bytes = match (status, chunked, length) {
        (204 | 304, ..) => 0,
        (_, true, _) => match chunks(&bytes[body_at..])? {
            Some(length) => length,
            None => return Ok(None),
        },
        (_, false, Some(length)) => length,
        (_, false, None) => return Err("the server's HTTP response does not say how long it is".to_owned()),
    };
    if bytes.len() < body_at + body_bytes {
        return Ok(None);
    }
    let kind = match status {
        200..=299 | 304 => Kind::Value,
        404 => Kind::Nothing,
        _ => Kind::Error,
    };
    Ok(Some(Response { reply: Reply { length: body_at + body_bytes, kind }, status, closes, body_at }))
}

/// The length of a chunked body with its trailer, if all of it is there.
fn chunks(bytes: &[u8]) -> Result<Option<usize>, String> {
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
        let digits = rest[..end].split(|byte| *byte == b';').next().unwrap_or_default();
        let length = std::str::from_utf8(digits).ok().and_then(|text| usize::from_str_radix(text.trim(), 16).ok());
        let length = length
            .filter(|length| *length <= BODY_BYTES_MAX)
            .ok_or_else(|| "a chunk of the server's HTTP response has no length".to_owned())?;
        at += end + 2;
        if length == 0 {
            // The trailer: lines up to an empty one.
            loop {
                let rest = bytes.get(at..).unwrap_or_default();
                let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
                at += end + 2;
                if end == 0 {
                    return Ok(Some(at));
                }
            }
        }
        at += length + 2;
        if at > BODY_BYTES_MAX {
            return Err("the server's HTTP response is too long".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Draft;

    fn sent(words: &[&[u8]], routes: Routes) -> Result<String, String> {
        let mut draft = Draft::default();
        draft.command(words[0]);
        for word in &words[1..] {
            draft.word(word);
        }
        let mut out = Vec::new();
        encode(&mut out, &draft.at(0), routes, "h:1", "")?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn commands_become_requests() {
        assert_eq!(sent(&[b"GET", b"a b"], Routes::Keys).unwrap(), "GET /v1/keys/a%20b HTTP/1.1\r\nhost: h:1\r\n\r\n");
        assert_eq!(
            sent(&[b"GET", b"a"], Routes::Dictionary).unwrap(),
            "GET /getValue?key=a HTTP/1.1\r\nhost: h:1\r\n\r\n"
        );
        assert_eq!(
            sent(&[b"SET", b"a", b"xyz"], Routes::Keys).unwrap(),
            "PUT /v1/keys/a HTTP/1.1\r\nhost: h:1\r\ncontent-length: 3\r\n\r\nxyz"
        );
        assert!(
            sent(&[b"SET", b"a", b"q\"\n"], Routes::Dictionary)
                .unwrap()
                .ends_with("content-length: 31\r\n\r\n{\"key\":\"a\",\"value\":\"q\\\"\\u000a\"}")
        );
        assert!(sent(&[b"HSET", b"a", b"f"], Routes::Keys).unwrap_err().contains("no route for `HSET a"));
        assert!(sent(&[b"SET", b"a", b"v", b"NX"], Routes::Keys).is_err());
    }

    #[test]
    fn responses_are_found_in_whatever_pieces() {
        let whole: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n\
            3\r\nabc\r\n0\r\n\r\nHTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
        for piece in 1..whole.len() {
            let (mut buffer, mut found) = (Vec::new(), Vec::new());
            for bytes in whole.chunks(piece) {
                buffer.extend_from_slice(bytes);
                while !buffer.is_empty() {
                    let Some(response) = skim(&buffer).unwrap() else { break };
                    found.push((response.status, response.reply.kind, response.closes));
                    buffer.drain(..response.reply.length);
                }
            }
            assert_eq!(
                found,
                [(200, Kind::Value, false), (404, Kind::Nothing, false), (204, Kind::Value, true)],
                "{piece}"
            );
        }
        assert!(skim(b"+OK\r\n").is_err());
        assert!(skim(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
