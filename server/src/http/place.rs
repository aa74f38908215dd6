//! Which bucket, and which key of it, a request is about.
//!
//! The URL says it (`/v1/buckets/{name}/keys/{key}`), or the user of Basic authentication, as `AUTH` has it; otherwise it is the
//! default bucket.

use std::sync::{Arc, LazyLock};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use base::limits::BUCKET_NAME_BYTES_MAX;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Api;
use super::problem::Problem;
use super::text::percent_decode;

/// Where the keys of the default bucket, or of the user's, are.
pub(super) const KEYS: &str = "/v1/keys/";

/// Where the buckets are.
pub(super) const BUCKETS: &str = "/v1/buckets/";

/// What a bucket's name may be, for the description.
pub(super) const NAME_PATTERN: &str = "^[A-Za-z][A-Za-z0-9._-]{0,63}$";

const _: () = assert!(BUCKET_NAME_BYTES_MAX == 64, "the pattern above says so");

/// The name that a bucket may have: never a number, which `SELECT` would take for one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BucketName(Arc<str>);

static DEFAULT: LazyLock<BucketName> = LazyLock::new(|| BucketName("default".into()));

impl BucketName {
    /// The bucket that is always there.
    pub(super) fn default_bucket() -> &'static BucketName {
        &DEFAULT
    }

    /// `None` if no bucket can have this name.
    pub(super) fn new(name: &[u8]) -> Option<BucketName> {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let well = name.first().is_some_and(u8::is_ascii_alphabetic)
            && name.iter().all(plain)
            && name.len() <= BUCKET_NAME_BYTES_MAX;
        std::str::from_utf8(name).ok().filter(|_| well).map(|name| BucketName(name.into()))
    }

    /// The name in a path that begins with [`BUCKETS`], and what stands behind the slash after it.
    pub(super) fn in_path(uri: &Uri) -> Result<(BucketName, &str), Problem> {
        let rest = uri.path().strip_prefix(BUCKETS).unwrap_or_default();
        let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let name = percent_decode(name, false).and_then(|name| BucketName::new(&name)).ok_or_else(|| {
            Problem::bad_request(
                "A bucket's name is a letter, then letters, digits, '-', '_' and '.', 64 bytes at most.",
            )
        })?;
        Ok((name, rest))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The bucket that a request without one in its URL is for. As an extension of the request: the one that was said with the user's name.
#[derive(Clone, Debug)]
pub(super) struct OwnBucket(pub(super) BucketName);

impl FromRequestParts<Arc<Api>> for OwnBucket {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<OwnBucket, std::convert::Infallible> {
        let chosen = parts.extensions.get::<OwnBucket>().cloned();
        Ok(chosen.unwrap_or_else(|| OwnBucket(BucketName::default_bucket().clone())))
    }
}

/// A key in its bucket.
pub(super) struct Place {
    pub(super) bucket: BucketName,
    /// Any bytes.
    pub(super) key: Vec<u8>,
}

impl FromRequestParts<Arc<Api>> for Place {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Place, Problem> {
        let Ok(OwnBucket(own)) = OwnBucket::from_request_parts(parts, api).await;
        let (bucket, key) = match parts.uri.path().strip_prefix(KEYS) {
            Some(key) => (own, key),
            None => {
                let (bucket, rest) = BucketName::in_path(&parts.uri)?;
                (bucket, rest.strip_prefix("keys/").unwrap_or_default())
            }
        };
        let key = percent_decode(key, false)
            .ok_or_else(|| Problem::bad_request("The key has a % that is not followed by two hexadecimal digits."))?;
        Ok(Place { bucket, key })
    }
}

/// What an `Authorization` header shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Credentials {
    /// As Basic has it; empty for a bearer token.
    pub(super) user: Vec<u8>,
    pub(super) password: Vec<u8>,
}

impl Credentials {
    /// `None` if there is no such header, or it is none of the two schemes.
    pub(super) fn read(headers: &HeaderMap) -> Option<Credentials> {
        let (scheme, rest) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return Some(Credentials { user: Vec::new(), password: rest.trim().as_bytes().to_vec() });
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let mut user = STANDARD.decode(rest.trim()).ok()?;
        let colon = user.iter().position(|&byte| byte == b':')?;
        let password = user.split_off(colon).split_off(1);
        Some(Credentials { user, password })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths() {
        let read = |path: &str| {
            let uri: Uri = path.parse().expect("a URI");
            BucketName::in_path(&uri).ok().map(|(name, rest)| (name.as_str().to_owned(), rest.to_owned()))
        };
        let found = |name: &str, rest: &str| Some((name.to_owned(), rest.to_owned()));
        assert_eq!(read("/v1/buckets/users"), found("users", ""));
        assert_eq!(read("/v1/buckets/%75sers/keys/a%2Fb/c"), found("users", "keys/a%2Fb/c"));
        for wrong in ["/v1/buckets/", "/v1/buckets/0", "/v1/buckets/a%2Fb", "/v1/buckets/%C3%A9", "/v1/buckets/a%2"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert!(BucketName::new(&[b'x'; 64]).is_some() && BucketName::new(&[b'x'; 65]).is_none());
    }

    #[test]
    fn credentials_of_both_schemes() {
        let read = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, header::HeaderValue::from_static(text));
            Credentials::read(&headers)
        };
        let shown = |user: &str, password: &str| {
            Some(Credentials { user: user.as_bytes().to_vec(), password: password.as_bytes().to_vec() })
        };
        assert_eq!(read("Bearer secret "), shown("", "secret"));
        assert_eq!(read("basic dXNlcnM6c2U6Y3JldA=="), shown("users", "se:cret"));
        assert_eq!(read("Basic OnNlY3JldA=="), shown("", "secret"));
        for wrong in ["Bearer", "Digest x", "Basic ?", "Basic c2VjcmV0"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
