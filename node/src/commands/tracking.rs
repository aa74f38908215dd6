//! `CLIENT TRACKING` and its relatives: what a connection keeps, and wants to be told of when it changes.

use std::collections::BTreeSet;

use bytes::Bytes;
use data::{Failure, Reply};

use super::Context;
use crate::door::ConnectionId;
use crate::pubsub::audience::check_name;
use crate::tracking::Tracked;

/// Most prefixes of a connection.
const PREFIXES_MAX: usize = 1024;
const TOO_MANY: Failure = Failure::Text("ERR too many prefixes");

/// `CLIENT TRACKING ON | OFF [REDIRECT id] [PREFIX prefix …] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`
pub(super) fn tracking(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let mut wanted = Tracked::default();
    let mut prefixes: Vec<Bytes> = Vec::new();
    let mut rest = words[3..].iter();
    while let Some(option) = rest.next() {
        let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
        if is(b"redirect") {
            let id = rest.next().ok_or(Failure::Syntax)?;
            if wanted.redirect.is_some() {
                return Err(Failure::Text("ERR A client can only redirect to a single other client"));
            }
            let id = data::args::parse_integer(id).ok_or(Failure::NotAnInteger)?;
            let id = ConnectionId(u64::try_from(id).unwrap_or(0));
            if id != context.session.id && !context.node.sessions.contains_key(&id) {
                return Err(Failure::Text("ERR The client ID you want redirect to does not exist"));
            }
            wanted.redirect = Some(id);
        } else if is(b"bcast") {
            wanted.broadcast = true;
        } else if is(b"optin") {
            wanted.opt_in = true;
        } else if is(b"optout") {
            wanted.opt_out = true;
        } else if is(b"noloop") {
            wanted.no_loop = true;
        } else if is(b"prefix") {
            let prefix = rest.next().ok_or(Failure::Syntax)?;
            check_name(prefix)?;
            if prefixes.len() >= PREFIXES_MAX {
                return Err(TOO_MANY);
            }
            prefixes.push(Bytes::copy_from_slice(prefix));
        } else {
            return Err(Failure::Syntax);
        }
    }
    if words[2].eq_ignore_ascii_case(b"off") {
        context.node.track_no_more(context.session);
        return Ok(Reply::Ok);
    }
    if !words[2].eq_ignore_ascii_case(b"on") {
        return Err(Failure::Syntax);
    }
    if !wanted.broadcast && !prefixes.is_empty() {
        return Err(Failure::Text("ERR PREFIX option requires BCAST mode to be enabled"));
    }
    let present = context.session.tracked.as_deref();
    if present.is_some_and(|present| present.broadcast != wanted.broadcast) {
        return Err(Failure::Text(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
        ));
    }
    if wanted.broadcast && (wanted.opt_in || wanted.opt_out) {
        return Err(Failure::Text("ERR OPTIN and OPTOUT are not compatible with BCAST"));
    }
    if wanted.opt_in && wanted.opt_out {
        return Err(Failure::Text("ERR You can't specify both OPTIN mode and OPTOUT mode"));
    }
    if present.is_some_and(|present| (wanted.opt_in && present.opt_out) || (wanted.opt_out && present.opt_in)) {
        return Err(Failure::Text(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
        ));
    }
    let before = present.map_or_else(BTreeSet::new, |present| present.prefixes.clone());
    check_overlaps(&prefixes, &before)?;
    wanted.prefixes = before.into_iter().chain(prefixes).collect();
    if wanted.prefixes.len() > PREFIXES_MAX {
        return Err(TOO_MANY);
    }
    if wanted.broadcast && wanted.prefixes.is_empty() {
        wanted.prefixes.insert(Bytes::new());
    }
    context.node.track(context.session, wanted);
    Ok(Reply::Ok)
}

/// Refuses a prefix that is the beginning of another, or the other way round.
fn check_overlaps(prefixes: &[Bytes], before: &BTreeSet<Bytes>) -> Result<(), Failure> {
    for (place, prefix) in prefixes.iter().enumerate() {
        let overlaps = |other: &&Bytes| other.starts_with(prefix) || prefix.starts_with(other);
        let existing = before.iter().find(overlaps).map(|other| (&b"' overlaps with an existing prefix '"[..], other));
        let provided = || prefixes[place + 1..].iter().find(overlaps);
        let provided = || provided().map(|other| (&b"' overlaps with another provided prefix '"[..], other));
        if let Some((how, other)) = existing.or_else(provided) {
            let end = &b"'. Prefixes for a single client must not overlap."[..];
            return Err(Failure::built(&[b"ERR Prefix '", &prefix[..], how, other, end].concat()));
        }
    }
    Ok(())
}

/// `CLIENT CACHING YES | NO`
pub(super) fn caching(context: &mut Context<'_>, words: &[&[u8]]) -> Result<Reply, Failure> {
    let tracked = context.session.tracked.as_deref_mut().filter(|tracked| tracked.opt_in || tracked.opt_out);
    let Some(tracked) = tracked else {
        return Err(Failure::Text(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    if words[2].eq_ignore_ascii_case(b"yes") {
        if !tracked.opt_in {
            return Err(Failure::Text("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."));
        }
    } else if words[2].eq_ignore_ascii_case(b"no") {
        if !tracked.opt_out {
            return Err(Failure::Text("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."));
        }
    } else {
        return Err(Failure::Syntax);
    }
    tracked.caching = true;
    Ok(Reply::Ok)
}

/// `CLIENT GETREDIR`: -1 without tracking, 0 where nobody else is told.
pub(super) fn get_redirection(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    Ok(Reply::Integer(redirection(context.session.tracked.as_deref())))
}

/// Who is told, as Redis numbers it.
pub(super) fn redirection(tracked: Option<&Tracked>) -> i64 {
    tracked.map_or(-1, |tracked| tracked.redirect.map_or(0, |id| i64::try_from(id.0).unwrap_or(i64::MAX)))
}

/// `CLIENT TRACKINGINFO`
pub(super) fn tracking_info(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let tracked = context.session.tracked.as_deref();
    let mut flags = Vec::new();
    let mut flag = |set: bool, name: &'static str| {
        if set {
            flags.push(Reply::bulk(name));
        }
    };
    flag(tracked.is_some(), "on");
    flag(tracked.is_none(), "off");
    if let Some(it) = tracked {
        flag(it.broadcast, "bcast");
        flag(it.opt_in, "optin");
        flag(it.opt_in && it.caching, "caching-yes");
        flag(it.opt_out, "optout");
        flag(it.opt_out && it.caching, "caching-no");
        flag(it.no_loop, "noloop");
        flag(it.broken, "broken_redirect");
    }
    let prefixes = tracked.into_iter().flat_map(|it| &it.prefixes).map(|prefix| Reply::bulk(&prefix[..]));
    Ok(Reply::Map(vec![
        (Reply::bulk("flags"), Reply::Set(flags)),
        (Reply::bulk("redirect"), Reply::Integer(redirection(tracked))),
        (Reply::bulk("prefixes"), Reply::Array(prefixes.collect())),
    ]))
}
