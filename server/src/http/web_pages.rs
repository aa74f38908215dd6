//! Keeps web pages out: a page in an operator's browser reaches every address that the browser
//! reaches, this port among them, and must not read, write or order anything here.
//!
//! One middleware judges every request before its password is looked at. Its rules, and why they
//! are these: docs/decisions/2026-11-28-web-pages.md.
//!
//! 1. In protected mode only this machine is answered ([`Remote`]); probes are answered always.
//! 2. `Host` must be an address, `localhost`, a name of this node, or one of `--http-host`: else a
//!    page could have its own name resolve to this node (DNS rebinding) and read everything.
//! 3. `Origin` must be this origin, or one of `--http-origin`; `Sec-Fetch-Site` likewise.
//! 4. A change that carries an `Origin` must not have a body of a type that a form can send.
//! 5. No page has an answer in a frame, and what somebody goes to is always shown, never stored as a file: else the page that has sent them there could tell by that
//!    whether a key exists whose name it guesses.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Api;
use super::problem::Problem;
use super::text::shown;
use crate::log;

/// Paths that tell no names under a name that is not this node's: probes ask them under any name, in protected mode too.
const PROBES: &[&str] = super::OPEN_PATHS;
/// Prometheus asks it by the name in its settings, whatever that is. What it tells is for no page.
const METRICS: &str = "/metrics";
/// The types of bodies that a form can send, and so a page of any origin without being asked.
const FORM_TYPES: [&str; 3] = ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"];
/// What a page of an allowed origin may ask and read.
const CORS_METHODS: &str = "GET, HEAD, PUT, POST, PATCH, DELETE";
const CORS_HEADERS: &str = "authorization, content-type, if-match, if-none-match, idempotency-key, dictum-durability, dictum-consistency, dictum-token, last-event-id";
const CORS_EXPOSED: &str = "etag, allow, retry-after, dictum-token, dictum-age-ms";
/// For answers as documents: they load nothing, and stand in nobody's frame.
const SHOWN_ALONE: &str = "default-src 'none'; frame-ancestors 'none'";
/// How long a browser may remember that, in seconds.
const CORS_SECONDS: &str = "600";
/// Least time between two lines in the log about pages.
const LINE_EVERY: Duration = Duration::from_secs(1);

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const CORP: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const PRIVATE_ASKED: HeaderName = HeaderName::from_static("access-control-request-private-network");
const PRIVATE_ALLOWED: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Where the request comes from; the accepting loop adds it to each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote(pub(super) SocketAddr);

/// The request is to a host that this node does not know as itself: a page may read the answer, whose own name leads here. Only probes are answered at all.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderForeignName;

/// The clients that may ask this node over HTTP.
#[derive(Clone, Debug, Default)]
pub struct Visitors {
    /// Names of this node: its own, and those of `--http-host`. `*.example.com` stands for all names
    /// that end so, `*` for all there are.
    pub hosts: Vec<String>,
    /// Origins whose pages may read and write, as a browser writes them: `https://app.example`.
    pub origins: Vec<String>,
    /// Protected mode: only clients of this machine are answered. Changes while the node runs.
    pub is_protected: Arc<AtomicBool>,
}

/// The verdict on a request.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// The page of an allowed origin asks.
    PassTo(HeaderValue),
    /// Such a page's browser asks first whether it may.
    Preflight(HeaderValue),
    Refused(Problem),
}

/// Notes when a page was last named in the log.
#[derive(Default)]
pub(super) struct PageLog(Mutex<Option<Instant>>);

/// The middleware.
pub(super) async fn keep_out(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let visitors = &api.options.visitors;
    let is_probe = PROBES.contains(&request.uri().path());
    if is_probe && !visitors.know_hosts(request.uri(), request.headers()) {
        request.extensions_mut().insert(UnderForeignName);
    }
    let remote = request.extensions().get::<Remote>().map(|remote| remote.0);
    let wants_private = request.headers().contains_key(&PRIVATE_ASKED);
    let is_gone_to = goes_there(request.headers());
    let mut response = match visitors.judge(remote, request.method(), request.uri(), request.headers()) {
        Verdict::Pass => next.run(request).await,
        Verdict::PassTo(origin) => allow(origin, next.run(request).await),
        Verdict::Preflight(origin) => {
            let mut response = allow(origin, StatusCode::NO_CONTENT.into_response());
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(CORS_METHODS));
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(CORS_HEADERS));
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(CORS_SECONDS));
            if wants_private {
                headers.insert(PRIVATE_ALLOWED, HeaderValue::from_static("true"));
            }
            response
        }
        Verdict::Refused(problem) => {
            api.page_log.tell(remote, &problem);
            problem.into_response()
        }
    };
    let headers = response.headers_mut();
    // Where a browser does not say what is behind a request, it at least takes no answer for a script or a picture.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CORP, HeaderValue::from_static("same-origin"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SHOWN_ALONE));
    if is_gone_to && !headers.get(header::CONTENT_TYPE).is_some_and(is_shown) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    if !visitors.origins.is_empty() {
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    response
}

/// True if a browser shows the answer: its user follows a link or sends a form, or a page opens a window.
fn goes_there(headers: &HeaderMap) -> bool {
    let accepts_pages =
        |value: &HeaderValue| value.as_bytes().windows(9).any(|part| part.eq_ignore_ascii_case(b"text/html"));
    headers.get(&SEC_FETCH_MODE).is_some_and(|mode| mode.as_bytes() == b"navigate")
        || headers.contains_key(header::UPGRADE_INSECURE_REQUESTS)
        || headers.get_all(header::ACCEPT).iter().any(accepts_pages)
}

/// True if every browser shows bodies of this type, and offers none of them as a file.
fn is_shown(of: &HeaderValue) -> bool {
    let essence = of.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    [&b"application/json"[..], b"text/plain"].iter().any(|shown| essence.eq_ignore_ascii_case(shown))
}

/// Lets the page of an origin read the answer.
fn allow(origin: HeaderValue, mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(CORS_EXPOSED));
    response
}

impl PageLog {
    /// One line a second at the most, so that nobody fills the disk by sending requests.
    pub(super) fn tell(&self, remote: Option<SocketAddr>, problem: &Problem) {
        let now = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| now.duration_since(last) >= LINE_EVERY) {
            *last = Some(now);
            let from = remote.map_or_else(|| "an unknown address".to_owned(), |remote| remote.to_string());
            log::warning(&format!("HTTP request from {from} refused ({}): {}", problem.code, problem.message));
        }
    }
}

impl Visitors {
    fn judge(&self, remote: Option<SocketAddr>, method: &Method, uri: &Uri, headers: &HeaderMap) -> Verdict {
        let host = match self.check(remote, uri, headers) {
            Ok(host) => host,
            Err(problem) => return Verdict::Refused(problem),
        };
        let origin = match single(headers, &header::ORIGIN) {
            Ok(origin) => origin,
            Err(problem) => return Verdict::Refused(problem),
        };
        let is_allowed = |origin: &&HeaderValue| {
            self.origins.iter().any(|allowed| allowed.as_bytes().eq_ignore_ascii_case(origin.as_bytes()))
        };
        let allowed = origin.filter(is_allowed);
        if let Some(origin) = origin.filter(|_| allowed.is_none())
            && !is_same_origin(origin.as_bytes(), host)
        {
            let shown = shown(origin.as_bytes());
            return Verdict::Refused(foreign(format!("A web page of the origin {shown} is not let in")));
        }
        if allowed.is_none() && comes_from_elsewhere(method, headers) {
            return Verdict::Refused(foreign("A web page of another site is not let in".to_owned()));
        }
        let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if changes && origin.is_none() && hides_its_origin(headers) {
            let who = "A browser that does not say which page it asks for may not change anything";
            return Verdict::Refused(foreign(who.to_owned()));
        }
        if changes && origin.is_some() && has_form_type(headers) {
            return Verdict::Refused(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "FORM",
                "A web page must send its body as application/json or application/octet-stream: a form can send the other types to any server. Nothing was done.",
            ));
        }
        match allowed {
            Some(origin)
                if *method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) =>
            {
                Verdict::Preflight(origin.clone())
            }
            Some(origin) => Verdict::PassTo(origin.clone()),
            None => Verdict::Pass,
        }
    }

    /// Protected mode and the name that the request is addressed to. Returns that name, with its port.
    fn check<'h>(
        &self,
        remote: Option<SocketAddr>,
        uri: &'h Uri,
        headers: &'h HeaderMap,
    ) -> Result<Option<&'h str>, Problem> {
        let is_probe = PROBES.contains(&uri.path());
        let is_local = remote.is_some_and(|remote| remote.ip().to_canonical().is_loopback());
        if self.is_protected.load(Ordering::Relaxed) && !is_local && !is_probe {
            return Err(Problem::new(StatusCode::FORBIDDEN, "DENIED", PROTECTED));
        }
        let named = single(headers, &header::HOST)?.map(|host| host.to_str().unwrap_or_default());
        // Of a request that goes through a proxy; it stands above the header (RFC 9112, 3.2.2).
        let absolute = uri.authority().map(Authority::as_str);
        for host in absolute.into_iter().chain(named) {
            let tells_nobody = is_probe || (uri.path() == METRICS && !is_of_a_browser(headers));
            if !tells_nobody && !self.knows(host) {
                return Err(misdirected(host));
            }
        }
        Ok(absolute.or(named))
    }

    /// True if all hosts that the request names are this node's.
    fn know_hosts(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let named = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default());
        uri.authority().map(Authority::as_str).into_iter().chain(named).all(|host| self.knows(host))
    }

    /// Whether nobody else can own this name.
    fn knows(&self, host: &str) -> bool {
        let Some((name, _)) = host_and_port(host) else { return false };
        let name = name.strip_suffix('.').unwrap_or(&name);
        let is = |known: &String| match known.strip_prefix('*') {
            Some("") => true,
            Some(end) => name.len() > end.len() && name.ends_with(&end.to_ascii_lowercase()),
            None => known.eq_ignore_ascii_case(name),
        };
        name.parse::<IpAddr>().is_ok() || name == "localhost" || self.hosts.iter().any(is)
    }
}

/// Takes `HOST` or `HOST:PORT` apart: the host in small letters, an IPv6 address without its brackets. None of anything else: what is
/// not understood to the last byte is no name of ours.
fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(inside) => {
            let (address, rest) = inside.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            (address, rest)
        }
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if host.is_empty() || !(text.starts_with('[') || host.bytes().all(is_name)) {
        return None;
    }
    let port = match rest.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
        Some(_) => return None,
        None if rest.is_empty() => None,
        None => return None,
    };
    Some((host.to_ascii_lowercase(), port))
}

const PROTECTED: &str = "Dictum is running in protected mode because protected mode is enabled and no password is set. In this mode only \
clients on the node's own machine are answered. To be answered from elsewhere: give the nodes a password (dictum start --password-file FILE); or, \
in a network that you trust, send CONFIG SET protected-mode no from the node's own machine, or start the nodes with --protected-mode no.";

fn misdirected(host: &str) -> Problem {
    let host = shown(host.as_bytes());
    Problem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "MISDIRECTED",
        format!(
            "This node does not know {host} as its name, and a web page could have that name lead here. If it is a name of this node, start the node \
             with --http-host NAME. Addresses, localhost and the host in --cluster or --peer-announce need no setting. Nothing was done."
        ),
    )
}

fn foreign(who: String) -> Problem {
    let text =
        format!("{who}. If it may read and write here, start the node with --http-origin ORIGIN. Nothing was done.");
    Problem::new(StatusCode::FORBIDDEN, "ORIGIN", text)
}

/// A header that may come once at most.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(Problem::bad_request(format!("The header {name} comes twice."))),
    }
}

/// Whether an origin is the one that the request is addressed to. The scheme is not compared: this port
/// speaks HTTP, and a proxy before it may speak HTTPS to the page.
fn is_same_origin(origin: &[u8], host: Option<&str>) -> bool {
    let Some((origin, host)) = std::str::from_utf8(origin).ok().zip(host) else { return false };
    let (own, usual_port) = match (origin.strip_prefix("http://"), origin.strip_prefix("https://")) {
        (Some(rest), _) => (rest, 80),
        (_, Some(rest)) => (rest, 443),
        _ => return false,
    };
    let (Some((own, own_port)), Some((host, port))) = (host_and_port(own), host_and_port(host)) else { return false };
    own == host && own_port.unwrap_or(usual_port) == port.unwrap_or(usual_port)
}

/// Whether the browser says that a page of another site is behind the request. That somebody follows a
/// link is none: the page behind the link sees nothing of the answer.
fn comes_from_elsewhere(method: &Method, headers: &HeaderMap) -> bool {
    let is = |name: &HeaderName, value: &str| headers.get(name).is_some_and(|it| it.as_bytes() == value.as_bytes());
    let follows_a_link = matches!(*method, Method::GET | Method::HEAD)
        && is(&SEC_FETCH_MODE, "navigate")
        && is(&SEC_FETCH_DEST, "document");
    let is_own = is(&SEC_FETCH_SITE, "same-origin") || is(&SEC_FETCH_SITE, "none");
    headers.contains_key(&SEC_FETCH_SITE) && !is_own && !follows_a_link
}

/// Whether a header stands there that every browser sends with everything, and that no page can take away.
/// The page can set it, so that what it says means nothing.
fn is_of_a_browser(headers: &HeaderMap) -> bool {
    [header::ACCEPT_LANGUAGE, header::ORIGIN, header::REFERER, SEC_FETCH_SITE].iter().any(|it| headers.contains_key(it))
}

/// Whether an old browser asks, which sends forms without saying whose they are; newer ones name the origin
/// of everything that changes something. Node.js's own client sends `Accept-Language: *`.
fn hides_its_origin(headers: &HeaderMap) -> bool {
    let has_language = headers.get(header::ACCEPT_LANGUAGE).is_some_and(|it| it.as_bytes() != b"*");
    !headers.contains_key(&SEC_FETCH_SITE) && (has_language || headers.contains_key(header::REFERER))
}

fn has_form_type(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_TYPE).iter().any(|value| {
        let text = String::from_utf8_lossy(value.as_bytes());
        let essence = text.split(';').next().unwrap_or_default().trim();
        FORM_TYPES.iter().any(|form| form.eq_ignore_ascii_case(essence))
    })
}

#[cfg(test)]
mod tests;
