//! Holds the conversations that nodes want held: a step in each pass.

use node::{ConnectionId, Errand, ErrandAnswer, Heard, Input, Listener, Say, Side, Target};
use wire::{ReplyParser, Value};

use super::Cluster;

/// One of them.
#[derive(Debug)]
pub struct Talk {
    me: u16,
    errand: Errand,
    /// Connections to the node, for the source and the target, with what was read on them.
    ends: [(ConnectionId, ReplyParser); 2],
    replies: Vec<Value>,
    /// The side that is to answer, and how many replies it owes.
    waits: Option<(Side, usize)>,
    /// How often something was said.
    pub said: usize,
}

impl Cluster {
    /// Begins to hold an errand. Its connections get numbers of their own.
    pub(super) fn begin_errand(&mut self, me: u16, errand: Errand) {
        self.errands_begun += 1;
        let end = |place| (ConnectionId(5_000_000 + 2 * self.errands_begun + place), ReplyParser::default());
        let ends = [end(0), end(1)];
        for (connection, _) in &ends {
            self.open_at(me, *connection, Listener::Inside);
        }
        self.errands.push(Talk { me, errand, ends, replies: Vec::new(), waits: None, said: 0 });
    }

    /// Each says what comes next, if it has heard all that it waits for. There is no other server.
    pub(super) fn hold_errands(&mut self) {
        for mut talk in std::mem::take(&mut self.errands) {
            if self.standing_still.contains(&talk.me) {
                self.errands.push(talk);
                continue;
            }
            let mut heard = Heard::Nothing;
            if let Some((side, count)) = talk.waits {
                let (connection, parser) = &mut talk.ends[side as usize];
                parser.push(&self.heard_bytes(talk.me, *connection));
                while let Ok(Some(value)) = parser.next() {
                    talk.replies.push(value);
                }
                if talk.replies.len() < count {
                    self.errands.push(talk);
                    continue;
                }
                heard = Heard::Replies(std::mem::take(&mut talk.replies));
            }
            match talk.errand.go_on(heard) {
                Say::To(Side::Target, ..) if talk.errand.target() != Target::Here => {
                    let Say::Done(answer) = talk.errand.go_on(Heard::NoConnection(Side::Target)) else {
                        panic!("there is nothing to say without a connection")
                    };
                    self.end_errand(talk, answer);
                }
                Say::To(side, bytes, count) => {
                    talk.waits = Some((side, count));
                    talk.said += 1;
                    let connection = talk.ends[side as usize].0;
                    self.give(talk.me, Input::Received { connection, bytes: &bytes });
                    self.errands.push(talk);
                }
                Say::Done(answer) => self.end_errand(talk, answer),
            }
        }
    }

    fn end_errand(&mut self, talk: Talk, answer: ErrandAnswer) {
        let Talk { me, errand, ends, .. } = talk;
        for (connection, _) in ends {
            self.give(me, Input::Closed { connection });
        }
        self.give(me, Input::ErrandDone { connection: errand.connection, slot: errand.slot, answer });
    }
}
