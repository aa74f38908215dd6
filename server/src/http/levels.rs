//! Durability and consistency of a request: the headers that ask for them, and those that tell what was seen. What each level promises:
//! docs/levels.md.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use wire::Value;

use super::Api;
use super::client::{Order, Told};
use super::login::Caller;
use super::place::BucketName;
use super::problem::{Access, Problem};
use crate::bucket::{CONSISTENCIES, DURABILITIES};

/// How many replicas must have a write before it is answered.
const DURABILITY: HeaderName = HeaderName::from_static("dictum-durability");
/// How new the state must be that a read sees.
const CONSISTENCY: HeaderName = HeaderName::from_static("dictum-consistency");
/// Stands for a state: in an answer, for one that is no older than what the request saw; in a request, for one that a read's must
/// not be older than.
const TOKEN: HeaderName = HeaderName::from_static("dictum-token");
/// How many milliseconds old the state was at most that a read saw.
const AGE: HeaderName = HeaderName::from_static("dictum-age-ms");

/// Longest token, in bytes: two numbers of twenty digits.
const TOKEN_BYTES_MAX: usize = 41;

/// What a token may be, for the description.
pub(super) const TOKEN_PATTERN: &str = "^[0-9]{1,20}:[0-9]{1,20}$";

/// The level at which every read sees every write that was answered before it.
pub(super) const LINEARIZABLE: &str = CONSISTENCIES[0];
const SESSION: &str = CONSISTENCIES[1];

/// What a request asks of its reads and writes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Levels {
    /// One of [`DURABILITIES`]; `None`: as the bucket's settings say.
    pub(super) durability: Option<&'static str>,
    /// One of [`CONSISTENCIES`]; `None`: as the bucket's settings say.
    pub(super) consistency: Option<&'static str>,
    /// Only with the consistency `session`.
    pub(super) token: Option<HeaderValue>,
}

impl Levels {
    /// Reads the headers.
    fn parse(headers: &HeaderMap) -> Result<Levels, Problem> {
        let durability = word(headers, &DURABILITY, &DURABILITIES)?;
        let mut consistency = word(headers, &CONSISTENCY, &CONSISTENCIES)?;
        let token = single(headers, &TOKEN)?.cloned();
        if let Some(token) = &token {
            if !is_token(token.as_bytes()) {
                return Err(Problem::bad_request(format!(
                    "{TOKEN} must be a token as an earlier answer has given it, in the header of the same name."
                )));
            }
            let level = consistency.unwrap_or(SESSION);
            if level != SESSION {
                return Err(Problem::bad_request(format!(
                    "{TOKEN} goes with {CONSISTENCY}: {SESSION}, not with {level}. Nothing was done."
                )));
            }
            consistency = Some(level);
        }
        Ok(Levels { durability, consistency, token })
    }

    /// For a request that writes: what it looks at first must be true now, whatever the bucket's reads are content with; and a write is
    /// newer than every token.
    pub(super) fn of_a_write(self) -> Levels {
        Levels { consistency: Some(LINEARIZABLE), token: None, ..self }
    }
}

impl FromRequestParts<Arc<Api>> for Levels {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Levels, Problem> {
        Levels::parse(&parts.headers)
    }
}

/// A header that may come once at most.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(Problem::bad_request(format!("The header {name} comes twice."))),
    }
}

/// A header that is one of these words.
fn word(headers: &HeaderMap, name: &HeaderName, words: &[&'static str]) -> Result<Option<&'static str>, Problem> {
    let Some(value) = single(headers, name)? else { return Ok(None) };
    let found = words.iter().copied().find(|word| value.as_bytes() == word.as_bytes());
    found
        .map(Some)
        .ok_or_else(|| Problem::bad_request(format!("The header {name} must be one of {}.", words.join(", "))))
}

/// Whether it looks like one; what it stands for the node knows.
fn is_token(text: &[u8]) -> bool {
    let mut parts = text.split(|byte| *byte == b':');
    let mut number = || {
        let digits = parts.next();
        digits.is_some_and(|digits| (1..=20).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit))
    };
    text.len() <= TOKEN_BYTES_MAX && number() && number() && parts.next().is_none()
}

/// The commands that a request gives about its bucket, and what it sees there, for the headers of its answer.
pub(super) struct Talk<'a> {
    api: &'a Api,
    caller: &'a Caller,
    bucket: &'a BucketName,
    levels: Levels,
    seen: Seen,
}

/// What an answer tells of the state that was seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Seen {
    token: Option<HeaderValue>,
    age_ms: Option<u64>,
}

impl Seen {
    /// What a command's line has told; nothing, if the command has not seen the state.
    pub(super) fn of(told: &Told, asked: Option<&'static str>) -> Option<Seen> {
        let is_weak = asked.or(told.level).is_some_and(|level| level != LINEARIZABLE);
        let token = told.token.as_deref().and_then(|token| HeaderValue::from_bytes(token).ok())?;
        Some(Seen { token: Some(token), age_ms: told.age_ms.filter(|_| is_weak) })
    }

    /// Puts the headers on.
    pub(super) fn write(self, headers: &mut HeaderMap) {
        if let Some(token) = self.token {
            headers.insert(TOKEN, token);
        }
        if let Some(age) = self.age_ms {
            headers.insert(AGE, HeaderValue::from(age));
        }
    }
}

impl<'a> Talk<'a> {
    pub(super) fn new(api: &'a Api, caller: &'a Caller, bucket: &'a BucketName, levels: Levels) -> Talk<'a> {
        Talk { api, caller, bucket, levels, seen: Seen::default() }
    }

    /// A command that only looks.
    pub(super) async fn read(&mut self, words: &[&[u8]]) -> Result<Value, Problem> {
        let order = Order { words, levels: &self.levels, access: Access::Read, wants_level: true };
        let told = self.api.pool.ask(self.caller, self.bucket, &order).await;
        if let Some(seen) = Seen::of(&told, self.levels.consistency) {
            self.seen = seen;
        }
        told.reply.map_err(|failure| Problem::from_failure(failure, Access::Read))
    }

    /// A command that may change something; carried out once, however often it is sent under the same `once`.
    ///
    /// The key itself is the identifier, so `DICTUM.OUTCOME` knows it; the node refuses it with another command.
    pub(super) async fn write(&mut self, once: Option<&[u8]>, words: &[&[u8]]) -> Result<Value, Problem> {
        self.write_told(once, words, false).await.map(|(reply, _)| reply)
    }

    /// As [`Talk::write`], and says which durability the write has, if the node has told.
    pub(super) async fn write_saying_level(
        &mut self,
        once: Option<&[u8]>,
        words: &[&[u8]],
    ) -> Result<(Value, Option<&'static str>), Problem> {
        self.write_told(once, words, true).await
    }

    async fn write_told(
        &mut self,
        once: Option<&[u8]>,
        words: &[&[u8]],
        wants_level: bool,
    ) -> Result<(Value, Option<&'static str>), Problem> {
        let wrapped: Vec<&[u8]>;
        let words = match once {
            None => words,
            Some(id) => {
                wrapped = [&[&b"DICTUM.ONCE"[..], id], words].concat();
                &wrapped
            }
        };
        let order = Order { words, levels: &self.levels, access: Access::Write, wants_level };
        let told = self.api.pool.ask(self.caller, self.bucket, &order).await;
        if let Some(seen) = Seen::of(&told, Some(LINEARIZABLE)) {
            self.seen = seen;
        }
        let level = self.levels.durability.or(told.level);
        told.reply.map(|reply| (reply, level)).map_err(|failure| Problem::from_failure(failure, Access::Write))
    }

    /// The answer, whatever it is, with what was seen.
    pub(super) fn seal(self, outcome: Result<impl IntoResponse, Problem>) -> Response {
        let mut response = match outcome {
            Ok(answer) => answer.into_response(),
            Err(problem) => problem.into_response(),
        };
        self.seen.write(response.headers_mut());
        response
    }
}

/// What is true of a write of this durability once it is answered, for people.
pub(super) fn stored_where(durability: Option<&'static str>) -> &'static str {
    match durability {
        Some("all") => "every replica has it",
        Some("persist-majority") => "a majority of the replicas has it on disk",
        _ => "a majority of the replicas has it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(pairs: &[(&'static str, &'static str)]) -> Result<Levels, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        Levels::parse(&headers).map_err(|problem| problem.message)
    }

    fn levels(durability: Option<&'static str>, consistency: Option<&'static str>, token: Option<&str>) -> Levels {
        Levels { durability, consistency, token: token.map(|token| HeaderValue::try_from(token).expect("text")) }
    }

    #[test]
    fn headers_are_read_strictly() {
        assert_eq!(parsed(&[]), Ok(Levels::default()));
        assert_eq!(parsed(&[("dictum-durability", "all")]), Ok(levels(Some("all"), None, None)));
        assert_eq!(parsed(&[("dictum-consistency", "local")]), Ok(levels(None, Some("local"), None)));
        let with_token = Ok(levels(None, Some("session"), Some("3:7")));
        assert_eq!(parsed(&[("dictum-token", "3:7")]), with_token);
        assert_eq!(parsed(&[("dictum-token", "3:7"), ("dictum-consistency", "session")]), with_token);
        for (pairs, complaint) in [
            (&[("dictum-durability", "All")][..], "must be one of majority, persist-majority, all."),
            (&[("dictum-durability", "")], "must be one of"),
            (&[("dictum-durability", "all"), ("dictum-durability", "all")], "comes twice"),
            (&[("dictum-consistency", "eventual")], "must be one of linearizable, session, local."),
            (&[("dictum-token", "3:7"), ("dictum-token", "3:8")], "comes twice"),
            (&[("dictum-token", "3:7"), ("dictum-consistency", "local")], "not with local"),
            (&[("dictum-token", "3:7"), ("dictum-consistency", "linearizable")], "not with linearizable"),
            (&[("dictum-token", "")], "must be a token"),
        ] {
            let told = parsed(pairs).expect_err("refused");
            assert!(told.contains(complaint), "{pairs:?}: {told}");
        }
        for wrong in ["3", ":", "3:", ":7", "3:7:", "3:-7", "3:x", "3 :7", "123456789012345678901:1"] {
            assert!(!is_token(wrong.as_bytes()), "{wrong}");
        }
        assert!(is_token(format!("{0}:{0}", u64::MAX).as_bytes()));
    }
}
