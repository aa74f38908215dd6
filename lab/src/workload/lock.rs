//! `lock`: clients take locks and give them back, as Redis' documentation describes for one instance ("Distributed locks with
//! Redis"): `SET key token NX PX ms`; to give it back a script deletes the key if it still holds the token. An operation that
//! finds the lock taken ends there, as the kind `refused`. Where the history is checked locks do not expire, so that one whose return was lost
//! stays taken: let there be many of them.

use base::Rng;

use super::{Draft, Draw, Follow, Parameters, Shape, Workload, push_decimal};
use crate::drive::{Answer, Kind};
use crate::history::words::COMPARE_AND_DELETE;

/// The workload's description.
pub const SHAPE: Shape = Shape {
    name: "lock",
    sentence: "locks taken (SET NX PX) and given back by a script if still held; `refused` are those that found it taken",
    parameters: &["records (locks)"],
    build,
};

const LOCK: usize = 0;
const REFUSED: usize = 1;
/// Milliseconds after which a lock that nobody gives back is free again.
const HELD_MS: u64 = 10_000;

struct Lock {
    locks: u64,
    /// Whether locks expire: the checker of histories knows no time at which a key goes by itself.
    expires: bool,
}

fn build(parameters: &Parameters) -> Result<Box<dyn Workload>, String> {
    // The token has 32 bits for the lock's number.
    let locks = parameters.records_or(100)?.min(u64::from(u32::MAX));
    Ok(Box::new(Lock { locks, expires: !parameters.checked }))
}

impl Workload for Lock {
    fn kinds(&self) -> Vec<String> {
        vec!["lock".to_owned(), "refused".to_owned()]
    }

    fn records(&self) -> u64 {
        0
    }

    fn load(&self, _number: u64, _draft: &mut Draft) {}

    fn draw(&self, seed: u64) -> Result<Box<dyn Draw>, String> {
        Ok(Box::new(Drawer { locks: self.locks, expires: self.expires, rng: Rng::new(seed), sequence: 0 }))
    }
}

struct Drawer {
    locks: u64,
    expires: bool,
    rng: Rng,
    sequence: u32,
}

/// The lock's key, and the value that nobody else writes: client and a number of the client's thread.
fn key(out: &mut Vec<u8>, token: u64) {
    out.extend_from_slice(b"lock:");
    push_decimal(out, token >> 32);
}

fn value(out: &mut Vec<u8>, client: u32, token: u64) {
    push_decimal(out, u64::from(client));
    out.push(b'-');
    push_decimal(out, token & u64::from(u32::MAX));
}

impl Draw for Drawer {
    fn next(&mut self, client: u32, draft: &mut Draft) -> bool {
        self.sequence = self.sequence.wrapping_add(1);
        let token = self.rng.below(self.locks) << 32 | u64::from(self.sequence);
        draft.command(b"SET").word_with(|out| key(out, token)).word_with(|out| value(out, client, token));
        draft.word(b"NX");
        if self.expires {
            draft.word(b"PX").number(HELD_MS);
        }
        draft.kind = LOCK;
        draft.follow = true;
        draft.token = token;
        true
    }

    fn follow(&mut self, client: u32, answer: &Answer<'_>, draft: &mut Draft) -> Follow {
        if answer.kind == Kind::Nothing {
            draft.kind = REFUSED;
            return Follow::Done;
        }
        let token = draft.token;
        draft.command(b"EVAL").word(COMPARE_AND_DELETE.as_bytes()).word(b"1").word_with(|out| key(out, token));
        draft.word_with(|out| value(out, client, token));
        Follow::Again
    }
}
