//! Property: what the listener for clients of a Redis Cluster says of the cluster leads somewhere.
//!
//! 1. `MOVED` names the hash slot that was asked for and a node that has such a listener, and not the one that says it.
//! 2. A picture of the cluster (`CLUSTER SLOTS`, `CLUSTER SHARDS`) has every hash slot once, at nodes that have such a listener; and a node is in it a master or a
//!    replica, not both.
//! 3. In the calm at the end whoever asks any node is at the leader within [`HOPS_MAX`] redirections, and served there.
//!
//! That nobody serves what another leads as if it led it says the search for an order: what such clients read and write is in the same history as all else.

use base::limits::HASH_SLOTS;

/// Redirections that a command may need where nothing happens: one to the leader, and another if that has just changed.
pub const HOPS_MAX: usize = 2;
/// The first node's port; the others follow.
const FIRST_PORT: u16 = 7101;

/// Where clients of a Redis Cluster reach a node.
#[must_use]
pub fn address_of(node: u16) -> String {
    format!("127.0.0.1:{}", FIRST_PORT + node)
}

/// The node with that address, if there can be one.
#[must_use]
pub fn node_of(address: &str) -> Option<u16> {
    address.strip_prefix("127.0.0.1:")?.parse::<u16>().ok()?.checked_sub(FIRST_PORT)
}

/// Somebody was told to ask elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The node that said so.
    pub by: u16,
    /// The hash slot of what was asked.
    pub slot: u16,
    /// What was said.
    pub text: String,
    /// When, in nanoseconds.
    pub at: u64,
}

/// Hash slots and who has them, as a node says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    /// The first slot.
    pub first: i64,
    /// The last one.
    pub last: i64,
    /// The master's address.
    pub master: String,
    /// Those of its replicas.
    pub replicas: Vec<String>,
}

/// What a node shows of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// The node.
    pub by: u16,
    /// All it shows.
    pub ranges: Vec<Range>,
    /// When, in nanoseconds.
    pub at: u64,
}

/// What a command went through in the calm at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Journey {
    /// Its hash slot.
    pub slot: u16,
    /// Where it was asked, and what was said there, if that was not the answer.
    pub stations: Vec<(u16, String)>,
    /// How many of them were redirections.
    pub hops: usize,
    /// It was answered.
    pub answered: bool,
}

/// What clients that route by themselves have written down.
#[derive(Debug, Default)]
pub struct Redirections {
    /// By node whether it has a listener for them.
    pub listeners: Vec<bool>,
    /// Every redirection.
    pub moved: Vec<Moved>,
    /// Every picture.
    pub pictures: Vec<Picture>,
    /// Those in the calm at the end.
    pub journeys: Vec<Journey>,
}

/// Everything that contradicts the promises.
#[must_use]
pub fn check(told: &Redirections) -> Vec<String> {
    let mut violations: Vec<String> = told.moved.iter().filter_map(|moved| check_moved(moved, told)).collect();
    for picture in &told.pictures {
        if let Err(text) = check_picture(picture, told) {
            violations.push(format!("n{} shows at {}: {text}", picture.by + 1, picture.at));
        }
    }
    for journey in &told.journeys {
        if !journey.answered {
            violations.push(format!("nobody serves a command in the calm at the end: {journey:?}"));
        } else if journey.hops > HOPS_MAX {
            violations.push(format!("a command is sent about in the calm at the end: {journey:?}"));
        }
    }
    violations
}

fn has_listener(address: &str, told: &Redirections) -> bool {
    node_of(address).is_some_and(|node| told.listeners.get(usize::from(node)) == Some(&true))
}

fn check_moved(moved: &Moved, told: &Redirections) -> Option<String> {
    let words: Vec<&str> = moved.text.split(' ').collect();
    let wrong = match words[..] {
        ["MOVED", slot, _] if slot.parse() != Ok(moved.slot) => "another hash slot",
        ["MOVED", _, address] if node_of(address) == Some(moved.by) => "itself",
        ["MOVED", _, address] if has_listener(address, told) => return None,
        ["MOVED", _, _] => "nobody",
        _ => "nothing",
    };
    Some(format!("n{} names {wrong} to who asks for {} at {}: {}", moved.by + 1, moved.slot, moved.at, moved.text))
}

fn check_picture(picture: &Picture, told: &Redirections) -> Result<(), String> {
    let mut ranges: Vec<&Range> = picture.ranges.iter().collect();
    ranges.sort_by_key(|range| range.first);
    let mut next = 0;
    for Range { first, last, master, replicas } in &ranges {
        if *first != next || last < first {
            return Err(format!("{first} to {last} where {next} comes next: {ranges:?}"));
        }
        next = last + 1;
        if let Some(nobody) = std::iter::once(master).chain(replicas).find(|address| !has_listener(address, told)) {
            return Err(format!("there is no {nobody:?}: {ranges:?}"));
        }
        if let Some(both) = replicas.iter().find(|replica| ranges.iter().any(|other| other.master == **replica)) {
            return Err(format!("{both} is master and replica: {ranges:?}"));
        }
    }
    if next == i64::from(HASH_SLOTS) { Ok(()) } else { Err(format!("nobody has {next}: {ranges:?}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Redirections {
        Redirections { listeners: vec![true, true, false], ..Redirections::default() }
    }

    fn moved(text: &str) -> Vec<String> {
        check(&Redirections { moved: vec![Moved { by: 0, slot: 5, text: text.to_owned(), at: 1 }], ..told() })
    }

    #[test]
    fn a_redirection_to_nobody_is_seen() {
        assert_eq!(moved("MOVED 5 127.0.0.1:7102"), Vec::<String>::new());
        for (text, wrong) in [
            ("MOVED 6 127.0.0.1:7102", "another hash slot"),
            ("MOVED 5 127.0.0.1:7101", "itself"),
            ("MOVED 5 127.0.0.1:7103", "nobody"),
            ("MOVED 5 127.0.0.1:7002", "nobody"),
            ("MOVED 5 ", "nobody"),
            ("MOVED 5", "nothing"),
        ] {
            assert!(moved(text)[0].contains(&format!("names {wrong} ")), "{text}: {:?}", moved(text));
        }
    }

    fn range(first: i64, last: i64, master: u16, replicas: &[u16]) -> Range {
        let replicas = replicas.iter().map(|node| address_of(*node)).collect();
        Range { first, last, master: address_of(master), replicas }
    }

    #[test]
    fn a_picture_with_a_hole_is_seen() {
        let shows = |ranges: Vec<Range>| {
            check(&Redirections { pictures: vec![Picture { by: 0, ranges, at: 1 }], ..told() }).len()
        };
        assert_eq!(shows(vec![range(0, 16383, 0, &[1])]), 0);
        assert_eq!(shows(vec![range(100, 16383, 0, &[]), range(0, 99, 1, &[])]), 0);
        assert_eq!(shows(vec![]), 1);
        assert_eq!(shows(vec![range(0, 16382, 0, &[])]), 1);
        assert_eq!(shows(vec![range(0, 16384, 0, &[])]), 1);
        assert_eq!(shows(vec![range(0, 98, 0, &[]), range(100, 16383, 1, &[])]), 1);
        assert_eq!(shows(vec![range(0, 100, 0, &[]), range(100, 16383, 1, &[])]), 1);
        assert_eq!(shows(vec![range(0, 16383, 2, &[])]), 1, "it has no such listener");
        assert_eq!(shows(vec![range(0, 99, 0, &[1]), range(100, 16383, 1, &[])]), 1, "master and replica");
    }

    #[test]
    fn a_loop_in_the_calm_is_seen() {
        let goes = |hops: usize, answered: bool| {
            let journeys = vec![Journey { slot: 1, stations: Vec::new(), hops, answered }];
            check(&Redirections { journeys, ..told() }).len()
        };
        assert_eq!((goes(HOPS_MAX, true), goes(HOPS_MAX + 1, true), goes(1, false)), (0, 1, 1));
    }
}
