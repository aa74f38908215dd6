//! Logins over HTTP. A client shows a user's name and password (Basic), or the password of `default` (Bearer); the commands of the request are then carried out with the
//! rights of that user, by the node, as those of a connection after `AUTH` are. A client that shows nothing is the user that the certificate of the connection names, or `default`.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

use axum::extract::{FromRequestParts, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use node::{Login, PasswordOutcome, PasswordWork, Verdict};

use super::client::Failure;
use super::guesses::HasShown;
use super::levels::Levels;
use super::place::{BucketName, Credentials, OwnBucket};
use super::problem::{self, Access, Problem};
use super::web_pages::Remote;
use super::{Api, OPEN_PATHS};

/// The user whose rights count where nobody has said a name.
const DEFAULT: &[u8] = b"default";

/// The user whose rights a command has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Caller {
    /// This process: for what it tells everybody.
    Process,
    User(Arc<[u8]>),
}

/// The name in the certificate that a connection's client has shown; the accepting loop adds it to each request.
#[derive(Clone, Debug, Default)]
pub(super) struct Certified(Arc<OnceLock<String>>);

impl Certified {
    /// Once, before the first request.
    pub(super) fn note(&self, name: Option<String>) {
        if let Some(name) = name {
            // It was empty.
            let _ = self.0.set(name);
        }
    }

    fn name(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

impl FromRequestParts<Arc<Api>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<Api>) -> Result<Caller, Problem> {
        // A route that nobody was let in to has no rights.
        parts.extensions.get::<Caller>().cloned().ok_or_else(|| Problem::internal("The request has no user."))
    }
}

/// Lets a request pass in the name of the user that it shows; and remembers which bucket that user means.
pub(super) async fn authenticate(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    if OPEN_PATHS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let shown = Credentials::read(request.headers());
    let remote = request.extensions().get::<Remote>().map(|remote| remote.0);
    let has_shown = request.extensions().get::<HasShown>().cloned().unwrap_or_default();
    // A request without a password is no guess: browsers and libraries ask first whether a password is needed.
    if let Some(shown) = &shown
        && let Some(guesser) = remote.filter(|_| needs_login(&api) && !has_shown.is(shown))
        && let Err(problem) = api.guesses.wait(guesser.ip()).await
    {
        return problem.into_response();
    }
    let certified = request.extensions().get::<Certified>().cloned().unwrap_or_default();
    match let_in(&api, shown.as_ref(), certified.name(), remote.map(Remote)).await {
        Ok((caller, own)) => {
            if let Some(shown) = shown {
                if needs_login(&api) && !has_shown.is(&shown) {
                    api.auditor.logged_in(Some(&shown), remote.map(Remote));
                }
                has_shown.note(shown);
            }
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(OwnBucket(own));
            next.run(request).await
        }
        Err(Refused { problem, is_counted }) => {
            if let Some(guesser) = remote.filter(|_| shown.is_some() && problem.status == StatusCode::UNAUTHORIZED) {
                if !is_counted {
                    api.guesses.note(guesser.ip());
                }
                api.auditor.login_failed(shown.as_ref(), remote.map(Remote));
                api.page_log.tell(remote, &problem);
            }
            problem.into_response()
        }
    }
}

/// True if logins are judged at all.
fn needs_login(api: &Api) -> bool {
    api.options.logins.get().is_some() || api.options.password.get().is_some()
}

/// The user, and the bucket that was said with its name.
async fn let_in(
    api: &Api,
    shown: Option<&Credentials>,
    certified: Option<&str>,
    remote: Option<Remote>,
) -> Result<(Caller, BucketName), Refused> {
    let unknown = || unauthorized("The user must be default, or the name of a bucket.");
    let of_certificate = match (shown, certified, api.options.logins.get()) {
        (None, Some(name), Some(logins)) => logins.named(name.as_bytes()),
        _ => None,
    };
    let Login { user, bucket } = match of_certificate {
        Some(login) => login,
        None => judge(api, shown, remote).await?,
    };
    let caller = Caller::User(user.into());
    let Some(bucket) = bucket else { return Ok((caller, BucketName::default_bucket().clone())) };
    let needs_login = needs_login(api);
    let own = BucketName::new(&bucket).ok_or_else(|| {
        let message = "The user in Authorization must be default, or the name of a bucket.";
        if needs_login { unknown() } else { Problem::bad_request(message) }
    })?;
    if needs_login && own != *BucketName::default_bucket() {
        match api.pool.lease(&caller, &own, &Levels::default(), Access::Read).await {
            Ok(_) => {}
            Err(Failure::Refused(text)) if text.starts_with(problem::NO_SUCH_BUCKET) => return Err(unknown().into()),
            Err(failure) => return Err(Problem::from_failure(failure, Access::Read).into()),
        }
    }
    Ok((caller, own))
}

/// Nobody is let in.
struct Refused {
    problem: Problem,
    /// The password is wrong, and was counted as a guess when it was tried.
    is_counted: bool,
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Refused {
        Refused { problem, is_counted: false }
    }
}

/// Judges a login.
async fn judge(api: &Api, shown: Option<&Credentials>, remote: Option<Remote>) -> Result<Login, Refused> {
    let (name, password) = shown.map_or((&b""[..], None), |shown| (&shown.user, Some(shown.password.as_slice())));
    let mut tried: Option<PasswordWork> = None;
    // The users of now, after each try: they may have changed meanwhile.
    while let Some(logins) = api.options.logins.get() {
        let work = match logins.judge(name, password) {
            Verdict::Right(login) => return Ok(login),
            Verdict::Untried(work) if tried.as_ref() != Some(&work) => work,
            Verdict::Untried(_) | Verdict::Wrong => {
                let message =
                    "Show a user's name and password: Authorization: Basic, or Bearer PASSWORD for the user default.";
                return Err(Refused { problem: unauthorized(message), is_counted: tried.is_some() });
            }
        };
        let from = remote.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |remote| remote.0.ip());
        let outcome = api.trials.run(from, &work).await?;
        if outcome == PasswordOutcome::Failed {
            let message = "The password could not be tried, as there is no memory for it: try again later.";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "TRYAGAIN", message).into());
        }
        logins.note(&work, &outcome, tls::random_key().map_err(|_| Problem::internal("There is no randomness."))?);
        tried = Some(work);
    }
    // Until somebody has changed users everybody is `default`, with the password of the node if it has one.
    let is_right =
        api.options.password.get().is_none_or(|expected| {
            password.is_some_and(|password| equal_in_constant_time(password, expected.as_bytes()))
        });
    if !is_right {
        let message = "Show the cluster's password: Authorization: Bearer PASSWORD, or Basic with the user default.";
        return Err(unauthorized(message).into());
    }
    Ok(Login { user: DEFAULT.to_vec(), bucket: (!name.is_empty()).then(|| name.to_vec()) })
}

fn unauthorized(message: &'static str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "NOAUTH", message)
}

/// Compares without telling by the time taken where the first difference is. The length may show.
pub(super) fn equal_in_constant_time(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b));
    one.len() == other.len() && std::hint::black_box(difference) == 0
}
