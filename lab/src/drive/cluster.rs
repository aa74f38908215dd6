//! Which node serves which slot of a Redis cluster, as CLUSTER SLOTS and MOVED tell it.
//!
//! Source: the Redis Cluster specification, "Redirection and resharding": 16,384 slots; `MOVED slot host:port` says where a
//! slot has gone for good, `ASK slot host:port` where to ask this once, after `ASKING`. An empty host stands for the one that
//! was asked.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::slots::hash_slot;
use wire::Value;

use super::Target;
use super::blocking::Blocking;

/// How many slots there are.
const SLOTS: usize = 16_384;
/// Nodes that a map may come to know.
const NODES_MAX: usize = 1_024;

/// The nodes, and the node of each slot.
#[derive(Clone, Debug)]
pub struct SlotMap {
    /// Addresses; a node's number is its place here, and stays.
    pub nodes: Vec<SocketAddr>,
    slots: Vec<u16>,
}

/// Where a reply says that a command should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirection {
    /// To this node, now and later.
    Moved(usize),
    /// To this node, this once, after `ASKING`.
    Ask(usize),
}

impl SlotMap {
    /// Asks the target's nodes, one after the other, until one answers.
    ///
    /// # Errors
    /// A sentence: what the last one said.
    pub fn fetch(target: &Target, patience: Duration) -> Result<SlotMap, String> {
        let mut said = String::new();
        for (_, address) in &target.addresses {
            let answer = Blocking::open(*address, &target.greeting(), patience)
                .and_then(|mut connection| connection.ask(&["CLUSTER", "SLOTS"]));
            match answer.and_then(|value| SlotMap::read(&value, *address)) {
                Ok(map) => return Ok(map),
                Err(error) => said = error,
            }
        }
        Err(format!("no node told the cluster's slots: {said}"))
    }

    /// Reads the reply of CLUSTER SLOTS that `asked` gave.
    ///
    /// # Errors
    /// A sentence, if it is not one, or slots are served by nobody.
    pub fn read(value: &Value, asked: SocketAddr) -> Result<SlotMap, String> {
        if let Some(error) = value.as_error() {
            return Err(format!("{asked} said: {error}"));
        }
        let strange = || format!("{asked} gave a list of slots that is none");
        let mut map = SlotMap { nodes: Vec::new(), slots: vec![u16::MAX; SLOTS] };
        for range in value.as_array().ok_or_else(strange)? {
            let parts = range.as_array().ok_or_else(strange)?;
            let [first, last, master, ..] = parts else { return Err(strange()) };
            let slot = |value: &Value| value.as_integer().and_then(|number| usize::try_from(number).ok());
            let (first, last) = (slot(first).ok_or_else(strange)?, slot(last).ok_or_else(strange)?);
            let master = master.as_array().ok_or_else(strange)?;
            let [host, port, ..] = master else { return Err(strange()) };
            let host = host.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
            let port = port.as_integer().and_then(|port| u16::try_from(port).ok()).ok_or_else(strange)?;
            let node = map.node(host, port, asked).ok_or_else(strange)?;
            let range = map.slots.get_mut(first..=last).ok_or_else(strange)?;
            range.fill(node as u16);
        }
        let unserved = map.slots.iter().filter(|node| **node == u16::MAX).count();
        if unserved > 0 {
            return Err(format!("{unserved} slots of the cluster at {asked} are served by nobody"));
        }
        Ok(map)
    }

    /// Takes over what a newer map says. Nodes keep their numbers here.
    pub fn adopt(&mut self, newer: &SlotMap) {
        let mut numbers = Vec::with_capacity(newer.nodes.len());
        for address in &newer.nodes {
            numbers.push(self.node(&address.ip().to_string(), address.port(), *address));
        }
        for (own, told) in self.slots.iter_mut().zip(&newer.slots) {
            if let Some(Some(number)) = numbers.get(usize::from(*told)) {
                *own = *number as u16;
            }
        }
    }

    /// The node of a key.
    #[must_use]
    pub fn node_of(&self, key: &[u8]) -> usize {
        usize::from(self.slots[usize::from(hash_slot(key))])
    }

    /// What an error's text (`MOVED 3999 127.0.0.1:6381`) orders, if it is a redirection; the map has then learnt it.
    pub fn redirected(&mut self, error: &[u8], asked: SocketAddr) -> Option<Redirection> {
        let text = std::str::from_utf8(error).ok()?;
        let mut words = text.split_ascii_whitespace();
        let name = words.next().filter(|name| matches!(*name, "MOVED" | "ASK"))?;
        let slot: usize = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let node = self.node(host, port.parse().ok()?, asked)?;
        if name == "ASK" {
            return Some(Redirection::Ask(node));
        }
        self.slots[slot] = node as u16;
        Some(Redirection::Moved(node))
    }

    /// The number of the node at this place; a new one if it is not known.
    fn node(&mut self, host: &str, port: u16, asked: SocketAddr) -> Option<usize> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host: IpAddr = if host.is_empty() || host == "?" { asked.ip() } else { host.parse().ok()? };
        let address = SocketAddr::new(host, port);
        if let Some(node) = self.nodes.iter().position(|known| *known == address) {
            return Some(node);
        }
        if self.nodes.len() >= NODES_MAX {
            return None;
        }
        self.nodes.push(address);
        Some(self.nodes.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, host: &str, port: i64) -> Value {
        let node = Value::Array(vec![Value::bulk(host), Value::Integer(port), Value::bulk("id")]);
        Value::Array(vec![Value::Integer(first), Value::Integer(last), node])
    }

    #[test]
    fn slots_are_read_and_redirections_learnt() {
        let asked: SocketAddr = "127.0.0.1:7000".parse().unwrap();
        let value = Value::Array(vec![range(0, 8000, "", 7000), range(8001, 16383, "10.0.0.2", 7001)]);
        let mut map = SlotMap::read(&value, asked).unwrap();
        assert_eq!(map.nodes, ["127.0.0.1:7000".parse().unwrap(), "10.0.0.2:7001".parse().unwrap()]);
        // The slot of "foo" is 12182 (Redis Cluster specification, and CLUSTER KEYSLOT foo).
        assert_eq!(map.node_of(b"foo"), 1);
        assert_eq!(map.redirected(b"MOVED 12182 127.0.0.1:7000", asked), Some(Redirection::Moved(0)));
        assert_eq!(map.node_of(b"foo"), 0);
        assert_eq!(map.redirected(b"ASK 12182 10.0.0.3:7002", asked), Some(Redirection::Ask(2)));
        assert_eq!(map.node_of(b"foo"), 0);
        assert_eq!(map.redirected(b"ERR no", asked), None);
        assert_eq!(map.redirected(b"MOVED 99999 127.0.0.1:7000", asked), None);
    }

    #[test]
    fn a_list_with_holes_is_refused() {
        let asked: SocketAddr = "127.0.0.1:7000".parse().unwrap();
        let error = SlotMap::read(&Value::Array(vec![range(0, 99, "", 7000)]), asked).unwrap_err();
        assert!(error.contains("16284 slots"), "{error}");
        assert!(SlotMap::read(&Value::ok(), asked).is_err());
    }
}
