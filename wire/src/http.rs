//! Tells the lines of an HTTP request from inline commands.
//!
//! A web page can send a request to any port of any machine that its visitor's browser reaches. At
//! the port for RESP each line of it would be an inline command. Redis therefore closes a connection
//! on the commands `POST` and `Host:` (`processCommand`). That is not enough: the page also chooses
//! the method, so `fetch(url, {method: "SET"})` begins with the line `SET /key HTTP/1.1`. Here every
//! request line counts but that of `GET`, which Redis answers with an error (too many words); the
//! line `Host:` behind it then ends the connection. Browsers send `Host:` first, before any line
//! that the page can choose.

use crate::arguments::ArgumentsRef;

/// How the last word of a request line begins; a digit follows.
const VERSION: &[u8] = b"HTTP/";

/// Whether this command ends its connection in Redis, too: `POST` or `Host:`, in any case.
#[must_use]
pub fn is_redis_warning(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// Whether an inline command is a line of an HTTP request that must not be taken for a command.
pub(crate) fn is_line_of_a_request(words: ArgumentsRef<'_>) -> bool {
    let Some(first) = words.iter().next() else { return false };
    if is_redis_warning(first) {
        return true;
    }
    let mut behind = words.iter().skip(2);
    let version = behind.next().map(|third| behind.last().unwrap_or(third));
    let is_version = |word: &[u8]| {
        word.split_at_checked(VERSION.len()).is_some_and(|(head, rest)| {
            head.eq_ignore_ascii_case(VERSION) && rest.first().is_some_and(u8::is_ascii_digit)
        })
    };
    version.is_some_and(is_version) && !first.eq_ignore_ascii_case(b"get")
}
