//! Conditional requests (RFC 9110, section 13): ETags are revisions, `If-Match` and `If-None-Match` ask about them.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use super::problem::Problem;

/// What `If-Match` and `If-None-Match` may be, for the description.
pub(super) const PATTERN: &str = r#"^(\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$"#;

/// One of the two headers.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Tags {
    /// `*`: any present value.
    Any,
    /// One of these. A tag that is no revision of ours can never match and is left out.
    Listed(Vec<u64>),
}

/// What a request asks of the key's present revision.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Conditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

/// The outcome for a present revision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Carry the request out.
    Go,
    /// `If-Match` is not met.
    Mismatch,
    /// `If-None-Match` is not met: 304 for a read, 412 for a write.
    NotModified,
}

/// How a write can see to its conditions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plan {
    /// There are none.
    Unconditional,
    /// The command's own `IFREVISION` says it all.
    Exactly(u64),
    /// The present revision has to be looked at first.
    LookFirst,
}

impl Conditions {
    /// Reads both headers.
    pub(super) fn parse(headers: &HeaderMap) -> Result<Conditions, Problem> {
        Ok(Conditions {
            if_match: parse_tags(headers, &header::IF_MATCH)?,
            if_none_match: parse_tags(headers, &header::IF_NONE_MATCH)?,
        })
    }

    /// Judges a present revision; `None` if the key does not exist. `If-Match` comes first (RFC 9110, section 13.2.2).
    pub(super) fn judge(&self, present: Option<u64>) -> Verdict {
        let matches = |tags: &Tags| match (tags, present) {
            (_, None) => false,
            (Tags::Any, Some(_)) => true,
            (Tags::Listed(tags), Some(revision)) => tags.contains(&revision),
        };
        if self.if_match.as_ref().is_some_and(|tags| !matches(tags)) {
            Verdict::Mismatch
        } else if self.if_none_match.as_ref().is_some_and(matches) {
            Verdict::NotModified
        } else {
            Verdict::Go
        }
    }

    /// How a write can see to them.
    pub(super) fn plan(&self) -> Plan {
        match (&self.if_match, &self.if_none_match) {
            (None, None) => Plan::Unconditional,
            (None, Some(Tags::Any)) => Plan::Exactly(0),
            (Some(Tags::Listed(tags)), None) => match tags[..] {
                [tag] => Plan::Exactly(tag),
                _ => Plan::LookFirst,
            },
            _ => Plan::LookFirst,
        }
    }
}

/// A revision as an entity tag.
pub(super) fn etag(revision: u64) -> HeaderValue {
    HeaderValue::try_from(format!("\"{revision}\"")).expect("digits in quotes are a header's value")
}

fn parse_tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Problem> {
    let wrong = || Problem::bad_request(format!("The header {name} must be * or a list of tags such as \"7\"."));
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    // A header that comes in several lines is one list (RFC 9110, section 5.3).
    let mut text = first.to_str().map_err(|_| wrong())?.trim().to_owned();
    for value in values {
        text.push(',');
        text.push_str(value.to_str().map_err(|_| wrong())?);
    }
    if text == "*" {
        return Ok(Some(Tags::Any));
    }
    parse_list(&text).map(Tags::Listed).map(Some).ok_or_else(wrong)
}

/// `"7", W/"8"`: commas may stand within a tag's quotes. A weak tag is compared as if it were strong, because a
/// revision of ours names the very bytes.
fn parse_list(text: &str) -> Option<Vec<u64>> {
    let mut tags = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let quoted = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
        let (tag, after) = quoted.split_once('"')?;
        if !tag.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        // As `etag` writes it and in no other way; revisions begin at 1.
        if let Ok(revision @ 1..) = tag.parse::<u64>()
            && revision.to_string() == tag
        {
            tags.push(revision);
        }
        rest = after.trim_start();
        if rest.is_empty() {
            return Some(tags);
        }
        rest = rest.strip_prefix(',')?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(pairs: &[(&'static str, &'static str)]) -> Option<Conditions> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        Conditions::parse(&headers).ok()
    }

    fn judged(pairs: &[(&'static str, &'static str)], present: Option<u64>) -> Verdict {
        conditions(pairs).expect("well-formed").judge(present)
    }

    #[test]
    fn verdicts() {
        use Verdict::{Go, Mismatch, NotModified};
        for (pairs, present, verdict) in [
            (&[][..], None, Go),
            (&[("if-match", "*")], None, Mismatch),
            (&[("if-match", "*")], Some(7), Go),
            (&[("if-match", "\"7\"")], Some(7), Go),
            (&[("if-match", "\"7\"")], Some(8), Mismatch),
            (&[("if-match", "\"x,y\", W/\"7\" ,\"9\"")], Some(9), Go),
            (&[("if-match", "\"007\"")], Some(7), Mismatch),
            (&[("if-match", "\"0\"")], None, Mismatch),
            (&[("if-none-match", "*")], Some(7), NotModified),
            (&[("if-none-match", "*")], None, Go),
            (&[("if-none-match", "\"7\"")], Some(7), NotModified),
            (&[("if-none-match", "\"7\"")], Some(8), Go),
            (&[("if-match", "\"8\""), ("if-none-match", "\"7\"")], Some(7), Mismatch),
            (&[("if-match", "\"7\""), ("if-none-match", "\"7\"")], Some(7), NotModified),
            (&[("if-match", "\"1\""), ("if-match", "\"7\"")], Some(7), Go),
        ] {
            assert_eq!(judged(pairs, present), verdict, "{pairs:?} {present:?}");
        }
    }

    #[test]
    fn plans() {
        let plan = |pairs: &[(&'static str, &'static str)]| conditions(pairs).expect("well-formed").plan();
        assert_eq!(plan(&[]), Plan::Unconditional);
        assert_eq!(plan(&[("if-match", "\"7\"")]), Plan::Exactly(7));
        assert_eq!(plan(&[("if-none-match", "*")]), Plan::Exactly(0));
        assert_eq!(plan(&[("if-match", "*")]), Plan::LookFirst);
        assert_eq!(plan(&[("if-match", "\"7\", \"8\"")]), Plan::LookFirst);
        assert_eq!(plan(&[("if-match", "\"other\"")]), Plan::LookFirst);
        assert_eq!(plan(&[("if-none-match", "\"7\"")]), Plan::LookFirst);
        assert_eq!(plan(&[("if-match", "\"7\""), ("if-none-match", "\"7\"")]), Plan::LookFirst);
    }

    #[test]
    fn malformed_headers_are_refused() {
        for text in ["", "7", "\"7", "\"7\" \"8\"", "\"7\",", "*, \"7\"", "w/\"7\"", "\"a b\""] {
            let mut headers = HeaderMap::new();
            headers.insert("if-match", HeaderValue::from_static(text));
            assert!(Conditions::parse(&headers).is_err(), "{text}");
        }
        assert!(conditions(&[("if-match", "*"), ("if-match", "\"7\"")]).is_none());
    }
}
