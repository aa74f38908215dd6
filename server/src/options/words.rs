//! What names, addresses and lists of nodes may look like.

use std::fmt;
use std::net::SocketAddr;

use base::limits::{NODE_NAME_BYTES_MAX, VOTERS_MAX, ZONE_BYTES_MAX};
use node::Member;
use tls::KeyHash;

/// Whether a node may be labelled so.
pub(crate) fn check_zone(flag: &str, label: &str) -> Result<(), String> {
    if node::is_zone(label) {
        return Ok(());
    }
    Err(format!(
        "{flag}: {label:?} cannot be the label of a zone; use up to {ZONE_BYTES_MAX} letters, digits, '-', '_', '.'"
    ))
}

/// Clients get it as it is: nothing in it may end a line or a word.
pub(super) fn is_host_and_port(text: &str) -> bool {
    let fits =
        |host: &str| !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]%".contains(c));
    let is_short = text.len() <= base::limits::NODE_ADDRESS_BYTES_MAX;
    is_short
        && text
            .rsplit_once(':')
            .is_some_and(|(host, port)| fits(host) && port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// Takes `n1=host:port,n2=…` apart. The list comes back sorted by name.
pub(crate) fn parse_cluster(text: &str) -> Result<Vec<Member>, String> {
    parse_members("--cluster", text, VOTERS_MAX)
}

/// Reads the value of `--peer-keys`.
///
/// # Errors
/// It is something else; the text says how to write it.
pub(crate) fn parse_peer_keys(text: &str) -> Result<Vec<(String, KeyHash)>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let read = |part: &str| {
        let (name, key) = part.split_once('=')?;
        Some((name.trim().to_owned(), KeyHash::parse(key.trim())?))
    };
    let wrong = |part| {
        format!(
            "--peer-keys: {part:?} is no key of a node; write it as n1=HASH, with the 64 hexadecimal digits that the log has"
        )
    };
    parts.map(|part| read(part).ok_or_else(|| wrong(part))).collect()
}

/// The same of another flag.
pub(crate) fn parse_members(flag: &'static str, text: &str, most: usize) -> Result<Vec<Member>, String> {
    let mut members = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let wrong = || Wrong { flag, part };
        let (name, address) = part.split_once('=').ok_or_else(|| wrong().to_string())?;
        let (name, address) = (name.trim(), address.trim());
        let (host, port) = address.rsplit_once(':').ok_or_else(|| wrong().to_string())?;
        if host.is_empty() || !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return Err(wrong().to_string());
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
        if name.is_empty() || name.len() > NODE_NAME_BYTES_MAX || !name.chars().all(fits) {
            return Err(format!(
                "{flag}: {name:?} cannot be a node's name; use up to {NODE_NAME_BYTES_MAX} letters, digits, '-', '_', '.'"
            ));
        }
        members.push(Member { name: name.to_owned(), peer_address: address.to_owned() });
    }
    members.sort_by(|a, b| a.name.cmp(&b.name));
    if members.is_empty() {
        return Err(format!("{flag} is empty; write it as n1=HOST:PORT,n2=HOST:PORT,n3=HOST:PORT"));
    }
    if members.len() > most {
        return Err(format!("{flag} has {} nodes; at most {most} are possible", members.len()));
    }
    for pair in members.windows(2) {
        if pair[0].name == pair[1].name {
            return Err(format!("{flag} names {} twice; give every node its own name", pair[0].name));
        }
    }
    for (index, member) in members.iter().enumerate() {
        if let Some(other) = members[..index].iter().find(|other| other.peer_address == member.peer_address) {
            return Err(format!(
                "{flag} gives {} and {} the same address {}; give every node its own",
                other.name, member.name, member.peer_address
            ));
        }
    }
    Ok(members)
}

/// A part of a list of nodes that cannot be understood.
struct Wrong<'a> {
    flag: &'static str,
    part: &'a str,
}

impl fmt::Display for Wrong<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrong { flag, part } = self;
        write!(f, "{flag}: {part:?} is not NAME=HOST:PORT; write for example n1=10.0.0.1:9001,n2=10.0.0.2:9001")
    }
}

pub(super) fn parse_address(flag: &str, given: Option<String>, default: &str) -> Result<SocketAddr, String> {
    let text = given.as_deref().unwrap_or(default);
    // The one name that people write here.
    text.replacen("localhost:", "127.0.0.1:", 1)
        .parse()
        .map_err(|_| format!("{flag} {text}: write an address of this machine as IP:PORT, for example {default}"))
}
