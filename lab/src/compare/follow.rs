//! A command behind each write, in the same piece: what makes Redis wait for its replicas.

use std::sync::Arc;

use crate::drive::Answer;
use crate::workload::{Draft, Draw, Follow, Workload};

/// Commands that write nothing, of those that workloads send.
const READS: [&[u8]; 7] = [b"GET", b"HGETALL", b"HMGET", b"HGET", b"ZRANGEBYSCORE", b"LRANGE", b"ZRANGE"];

/// Another workload with a command behind the writes of each step. The step is answered when all its commands are.
pub struct Followed {
    of: Arc<dyn Workload>,
    words: Vec<String>,
}

impl Followed {
    /// `words` behind each write of `of`.
    #[must_use]
    pub fn new(of: Arc<dyn Workload>, words: Vec<String>) -> Followed {
        Followed { of, words }
    }
}

impl Workload for Followed {
    fn kinds(&self) -> Vec<String> {
        self.of.kinds()
    }

    fn records(&self) -> u64 {
        self.of.records()
    }

    fn load(&self, number: u64, draft: &mut Draft) {
        self.of.load(number, draft);
    }

    fn draw(&self, seed: u64) -> Result<Box<dyn Draw>, String> {
        Ok(Box::new(Drawer { of: self.of.draw(seed)?, words: self.words.clone() }))
    }
}

struct Drawer {
    of: Box<dyn Draw>,
    words: Vec<String>,
}

impl Drawer {
    fn add(&self, draft: &mut Draft) {
        if draft.commands().all(|words| words.get(0).is_some_and(|name| READS.contains(&name))) {
            return;
        }
        let mut words = self.words.iter();
        if let Some(name) = words.next() {
            draft.command(name.as_bytes());
        }
        for word in words {
            draft.word(word.as_bytes());
        }
    }
}

impl Draw for Drawer {
    fn next(&mut self, client: u32, draft: &mut Draft) -> bool {
        let more = self.of.next(client, draft);
        if more {
            self.add(draft);
        }
        more
    }

    fn follow(&mut self, client: u32, answer: &Answer<'_>, draft: &mut Draft) -> Follow {
        let then = self.of.follow(client, answer, draft);
        if then == Follow::Again {
            self.add(draft);
        }
        then
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Parameters, find};

    #[test]
    fn writes_are_followed_and_reads_are_not() {
        let workload = (find("ycsb-a").unwrap().build)(&Parameters::default()).unwrap();
        let followed = Followed::new(Arc::from(workload), ["WAIT", "1", "0"].map(str::to_owned).to_vec());
        let mut draw = followed.draw(1).unwrap();
        let (mut draft, mut seen) = (Draft::default(), Vec::new());
        for _ in 0..50 {
            draft.clear();
            assert!(draw.next(0, &mut draft));
            let names: Vec<String> =
                draft.commands().map(|words| String::from_utf8_lossy(words.get(0).unwrap()).into_owned()).collect();
            seen.push(names.join(" "));
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen, ["HGETALL", "HSET WAIT"]);
    }
}
