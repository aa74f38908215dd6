//! Property: while a node's disk is below the low mark, the node acknowledges nothing that grows; and what frees room is never refused for that.
//!
//! A node that has no copy of a key's partition only carries the command to the leader, whose disk counts then; that is not looked at here.

use std::collections::BTreeMap;

use data::room;

use crate::history::{Command, Operation, Outcome, Reply, bucket_of};

/// What a node says that refuses a command for want of room, though its disk is not full.
const REFUSED: &str = "as it may need more";

/// What was seen of nodes with too little room. Empty in runs without the kind.
#[derive(Debug, Default)]
pub struct Rooms {
    /// Whether the run has disks with little room.
    pub is_watched: bool,
    /// By node: since when its disk has had too little room, while it had the default bucket's keys.
    lacking: BTreeMap<u16, u64>,
    /// The same spans of time, when they are over.
    past: Vec<(u16, u64, u64)>,
    /// Operations of one command that were answered, by their places in the history, and by which node.
    answered: Vec<(usize, u16)>,
    /// Commands that were refused for want of room on a disk that was not full, and when.
    refused: Vec<(Command, u64)>,
}

impl Rooms {
    /// A node has had a turn: since when its disk has too little room for what grows, if so.
    pub fn note(&mut self, node: u16, since: Option<u64>, now: u64) {
        let before = self.lacking.get(&node).copied();
        if before == since {
            return;
        }
        if let Some(before) = before {
            self.past.push((node, before, now));
        }
        match since {
            Some(since) => self.lacking.insert(node, since),
            None => self.lacking.remove(&node),
        };
    }

    /// A node has answered a command.
    pub fn note_answer(&mut self, place: usize, node: u16) {
        if self.is_watched {
            self.answered.push((place, node));
        }
    }

    /// A node has refused a command, whose client has sent it as it is and not in a script.
    pub fn note_refusal(&mut self, command: &Command, text: &str, now: u64) {
        if self.is_watched && text.starts_with("MISCONF") && text.contains(REFUSED) {
            self.refused.push((command.clone(), now));
        }
    }

    /// How many commands were refused.
    #[must_use]
    pub fn refusals(&self) -> usize {
        self.refused.len()
    }

    fn lacked(&self, node: u16, (from, until): (u64, u64)) -> bool {
        let covers = |since: u64, end: u64| since <= from && until <= end;
        self.lacking.get(&node).is_some_and(|since| covers(*since, u64::MAX))
            || self.past.iter().any(|(whose, since, end)| *whose == node && covers(*since, *end))
    }
}

fn grows(command: &Command) -> bool {
    let words = command.words();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let entry = words.first().and_then(|name| data::lookup(name));
    entry.is_some_and(|entry| room::needs_room(entry.spec, &words, None))
}

/// What was found wrong. `history`: all of it, as it was written down.
#[must_use]
pub fn check(history: &[Operation], rooms: &Rooms) -> Vec<String> {
    let mut violations = Vec::new();
    for (place, node) in &rooms.answered {
        let Some(operation) = history.get(*place) else { continue };
        let (Some(finish), [command]) = (operation.finish, operation.commands.as_slice()) else { continue };
        // What finds that it has nothing to do is answered without an entry.
        let did_nothing = matches!(operation.replies.first(), None | Some(Reply::Integer(0) | Reply::Nil));
        let is_done = operation.outcome == Outcome::Done && !did_nothing && bucket_of(&command.key).is_empty();
        if is_done && rooms.lacked(*node, (operation.invoke, finish)) && grows(command) {
            violations.push(format!(
                "node {node} had too little room all the time from {} to {finish}, and has acknowledged {:?} {}",
                operation.invoke, command.op, command.key
            ));
        }
    }
    for (command, at) in rooms.refused.iter().filter(|(command, _)| !grows(command)) {
        violations
            .push(format!("{:?} {} was refused at {at} for want of room, and needs none", command.op, command.key));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Op;

    fn done(command: Command) -> Operation {
        Operation {
            client: 0,
            commands: vec![command],
            watched: Vec::new(),
            invoke: 100,
            finish: Some(200),
            outcome: Outcome::Done,
            replies: vec![Reply::Text("OK".to_owned())],
        }
    }

    fn set(key: &str) -> Command {
        Command::new(Op::Set, key).with_argument("v")
    }

    #[test]
    fn what_grows_is_not_acknowledged_below_the_mark() {
        let mut rooms = Rooms { is_watched: true, ..Rooms::default() };
        rooms.note(1, Some(50), 50);
        rooms.note_answer(0, 1);
        assert_eq!(check(&[done(set("a"))], &rooms).len(), 1);
        assert!(check(&[done(Command::new(Op::Del, "a"))], &rooms).is_empty(), "it frees room");
        assert!(check(&[done(set("other/a"))], &rooms).is_empty(), "another bucket");
        rooms.note(1, None, 150);
        assert!(check(&[done(set("a"))], &rooms).is_empty(), "there was room again in time");
    }

    #[test]
    fn a_span_that_is_over_counts() {
        let mut rooms = Rooms { is_watched: true, ..Rooms::default() };
        rooms.note(1, Some(50), 50);
        rooms.note(1, None, 250);
        rooms.note_answer(0, 1);
        assert_eq!(check(&[done(set("a"))], &rooms).len(), 1);
        let mut elsewhere = Rooms { is_watched: true, ..Rooms::default() };
        elsewhere.note(2, Some(50), 50);
        elsewhere.note_answer(0, 1);
        assert!(check(&[done(set("a"))], &elsewhere).is_empty(), "another node's disk");
    }

    #[test]
    fn what_frees_room_is_not_refused() {
        let text =
            "MISCONF the disk of n1, this node, has too little room: the command was not done, as it may need more.";
        let mut rooms = Rooms { is_watched: true, ..Rooms::default() };
        rooms.note_refusal(&set("a"), text, 7);
        assert!(check(&[], &rooms).is_empty());
        rooms.note_refusal(&Command::new(Op::Del, "a"), "MISCONF the disk of n1, this node, is full", 8);
        assert!(check(&[], &rooms).is_empty(), "on a full disk nothing can be done");
        rooms.note_refusal(&Command::new(Op::Del, "a"), text, 9);
        assert_eq!(check(&[], &rooms).len(), 1);
    }
}
