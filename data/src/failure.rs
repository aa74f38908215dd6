//! Why a command was refused, in Redis's words: clients parse them.

use base::limits::KEY_BYTES_MAX;
use std::fmt;

/// A refused command. `Display` gives the whole text, its error code first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The options do not fit together, or one of them is unknown.
    Syntax,
    /// The key holds a value of another type.
    WrongType,
    /// An argument or a value should be a 64-bit signed integer.
    NotAnInteger,
    /// An argument or a value should be a number.
    NotAFloat,
    /// A result would not fit 64 bits.
    Overflow,
    /// The command needs a key that exists.
    NoSuchKey,
    /// A key is longer than [`base::limits::KEY_BYTES_MAX`].
    KeyTooLong,
    /// A field of a hash is longer than so many bytes.
    FieldTooLong(usize),
    /// A member of a set is longer than so many bytes.
    MemberTooLong(usize),
    /// The value would be longer than [`crate::EntryContext::value_bytes_max`].
    ValueTooLong,
    /// An expiry that is not positive or not representable; the command's name in lower case.
    InvalidExpireTime(&'static str),
    /// Too few or too many arguments; the command's name in lower case, as `object|encoding` for a subcommand.
    WrongArity(&'static str),
    /// There is no such command; the text names it and the start of its arguments.
    UnknownCommand(Box<str>),
    /// Any other text, code included.
    Text(&'static str),
    /// A text that was put together, code included. Made by [`Failure::built`], which keeps it on one line.
    Built(Box<str>),
}

impl Failure {
    /// What Redis answers to a name that is no command: the name and the arguments, each cut at 128 bytes in all.
    #[must_use]
    pub fn unknown_command(args: &[&[u8]]) -> Failure {
        const SHOWN_BYTES_MAX: usize = 128;
        let (name, rest) = args.split_first().map_or((&b""[..], args), |(name, rest)| (*name, rest));
        let mut listed = Vec::new();
        for argument in rest {
            if listed.len() >= SHOWN_BYTES_MAX {
                break;
            }
            let room = SHOWN_BYTES_MAX - listed.len();
            listed.push(b'\'');
            listed.extend(c_string(argument).iter().take(room));
            listed.extend(b"' ");
        }
        let mut text = b"ERR unknown command '".to_vec();
        text.extend(c_string(name).iter().take(SHOWN_BYTES_MAX));
        text.extend(b"', with args beginning with: ");
        text.extend(listed);
        Failure::UnknownCommand(printable(&text))
    }

    /// What Redis answers to an unknown subcommand of `container` (in upper case, as `OBJECT`).
    #[must_use]
    pub fn unknown_subcommand(container: &str, subcommand: &[u8]) -> Failure {
        let mut text = b"ERR unknown subcommand '".to_vec();
        text.extend(c_string(subcommand).iter().take(128));
        text.extend(b"'. Try ");
        text.extend(container.as_bytes());
        text.extend(b" HELP.");
        Failure::built(&text)
    }

    /// A text that was put together from what a client sent; code included.
    #[must_use]
    pub fn built(text: &[u8]) -> Failure {
        Failure::Built(printable(text))
    }

    /// The first word: `ERR`, `WRONGTYPE`, …
    #[must_use]
    pub fn code(&self) -> String {
        self.to_string().split(' ').next().unwrap_or_default().to_owned()
    }
}

/// The bytes up to the first zero, where Redis's formatted output of a C string ends.
fn c_string(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// An error is one line: line breaks become blanks, bytes that are no text the replacement character.
fn printable(text: &[u8]) -> Box<str> {
    String::from_utf8_lossy(text).replace(['\r', '\n'], " ").into_boxed_str()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Syntax => "ERR syntax error",
            Failure::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Failure::NotAnInteger => "ERR value is not an integer or out of range",
            Failure::NotAFloat => "ERR value is not a valid float",
            Failure::Overflow => "ERR increment or decrement would overflow",
            Failure::NoSuchKey => "ERR no such key",
            Failure::ValueTooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            Failure::KeyTooLong => return write!(f, "ERR key is longer than {KEY_BYTES_MAX} bytes"),
            Failure::FieldTooLong(bytes) => return write!(f, "ERR field is longer than {bytes} bytes"),
            Failure::MemberTooLong(bytes) => return write!(f, "ERR member is longer than {bytes} bytes"),
            Failure::InvalidExpireTime(name) => return write!(f, "ERR invalid expire time in '{name}' command"),
            Failure::WrongArity(name) => return write!(f, "ERR wrong number of arguments for '{name}' command"),
            Failure::UnknownCommand(text) | Failure::Built(text) => text,
            Failure::Text(text) => text,
        })
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_sent_never_breaks_the_line() {
        let text = |args: &[&[u8]]| Failure::unknown_command(args).to_string();
        assert_eq!(text(&[b"a\r\nb", b"c\nd"]), "ERR unknown command 'a  b', with args beginning with: 'c d' ");
        assert_eq!(text(&[b"a\0b"]), "ERR unknown command 'a', with args beginning with: ");
        assert_eq!(text(&[]), "ERR unknown command '', with args beginning with: ");
        assert!(text(&[&[b'x'; 1000], &[b'y'; 1000], b"z"]).len() < 400);
        assert_eq!(Failure::built(b"ERR a\r\n+OK").to_string(), "ERR a  +OK");
        assert_eq!(Failure::WrongType.code(), "WRONGTYPE");
    }
}
