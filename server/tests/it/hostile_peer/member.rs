//! A member that has gone wrong: somebody with a node's key and the cluster's secret, who sends any frame in that node's name.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use base::versions::{NEWEST, OLDEST, Versions};
use base::{NodeId, Rng};
use bytes::Bytes;
use node::fuzzing::fuzz_peer_message;
use tls::NodeKey;
use wire::{Hello, HelloError, JoinRequest, split_frames};

use super::damage::{damage, framed};
use super::messages::{FAREWELL, LEFT_BEHIND, Ping, all_kinds, outcast};
use super::speech::{Call, Caller};
use crate::common::{NodeInfo, wait_for};

/// Frames on one link, before it is ended in order.
const FRAMES_PER_LINK: u64 = 200;
/// After so many frames the member says again who it is: else nothing else of it is looked at.
const PING_EVERY: u64 = 10;
/// Messages of a kind that are remembered of those that nodes have sent.
const RECORDED_MAX: usize = 32;

/// A node's name, and what makes one that node.
#[derive(Clone)]
pub struct Member {
    caller: Caller,
    secret: [u8; 32],
    pub hello: Hello,
}

/// The secret in a file of `dictum init`.
pub fn secret_in(file: &Path) -> [u8; 32] {
    let text = fs::read_to_string(file).expect("the secret");
    let digits = text.trim().strip_prefix("dictum-cluster-secret-1.").expect("a secret");
    let byte = |place: usize| u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).expect("two digits");
    std::array::from_fn(byte)
}

impl Member {
    /// In the name of `node`, whose process has ended, with the key in its folder.
    pub fn new(node: &NodeInfo, id: NodeId, names: &[&str], secret: [u8; 32]) -> Member {
        let key = fs::read(node.dir.join("node.key")).expect("its key");
        let hello = Hello {
            version: NEWEST,
            speaks: Versions::ALL,
            needs: OLDEST,
            // The founders' names stand for the cluster.
            cluster: base::checksum::xxh3(names.join("\0").as_bytes()),
            node: node.name.clone(),
            address: node.peer.clone(),
            id,
            incarnation: 1 << 62,
        };
        Member { caller: Caller::new(&NodeKey::from_pkcs8(&key).expect("a key")), secret, hello }
    }

    /// Its first frame.
    pub fn greeting(&self) -> Vec<u8> {
        encoded(&self.hello)
    }

    /// A call that is proven.
    ///
    /// # Errors
    /// The node has ended it.
    fn proven(&self, peer: &str) -> io::Result<Call> {
        let mut call = self.caller.call(peer)?;
        call.prove(&self.secret)?;
        Ok(call)
    }

    /// Proves itself and sends these bytes as the first frame. What the node answers; none if it has no place for one more caller now.
    pub fn greets(&self, peer: &str, payload: &[u8]) -> Option<Vec<u8>> {
        let mut call = self.proven(peer).ok()?;
        let _ = call.send(&framed(payload));
        Some(call.finish())
    }

    /// A link that is up, on which both have introduced themselves; none if the node has ended.
    pub fn link(&self, peer: &str, is_well: &dyn Fn() -> bool) -> Option<Link> {
        wait_for("a link as a member", || match self.try_link(peer) {
            Ok(link) => Some(Some(link)),
            Err(_) if is_well() => None,
            Err(_) => Some(None),
        })
    }

    fn try_link(&self, peer: &str) -> io::Result<Link> {
        let mut call = self.proven(peer)?;
        call.send(&framed(&self.greeting()))?;
        Hello::decode(&call.frame()?).map_err(io::Error::other)?;
        // A node's first ping says everything that it knows, of this member's folder too.
        let theirs = loop {
            if let Some(ping) = Ping::read(&call.frame()?) {
                break ping;
            }
        };
        let own = theirs.lives.iter().find(|(node, _)| *node == self.hello.id);
        let claim = own.map(|(_, claim)| *claim).unwrap_or_default();
        let own = Ping {
            cluster: theirs.cluster,
            boot: claim.boot,
            life: 1,
            clocks: theirs.clocks,
            claim,
            ..Ping::default()
        };
        let mut link = Link { call, id: self.hello.id, theirs, own };
        link.ping()?;
        Ok(link)
    }
}

/// See [`Member::link`].
pub struct Link {
    call: Call,
    /// The number of this member.
    id: NodeId,
    /// The last ping of the node that said something of partitions.
    pub theirs: Ping,
    pub own: Ping,
}

impl Link {
    /// Says who it is, and that it lives.
    ///
    /// # Errors
    /// The node has closed the link.
    pub fn ping(&mut self) -> io::Result<()> {
        self.own.number += 1;
        self.own.heard = (self.theirs.life, self.theirs.number);
        let payload = self.own.payload();
        self.send(&framed(&payload))
    }

    /// # Errors
    /// The node has closed the link.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.call.send(bytes)
    }

    /// What the node has said meanwhile.
    ///
    /// # Errors
    /// The node has closed the link.
    pub fn hear(&mut self) -> io::Result<Vec<Bytes>> {
        let frames = self.call.frames()?;
        for ping in frames.iter().filter_map(|frame| Ping::read(frame)) {
            let known = std::mem::take(&mut self.theirs.partitions);
            let partitions = if ping.partitions.is_empty() { known } else { ping.partitions.clone() };
            self.theirs = Ping { partitions, ..ping };
        }
        Ok(frames)
    }

    /// Waits for the next frame of the node.
    ///
    /// # Errors
    /// The node has closed the link.
    pub fn frame(&mut self) -> io::Result<Bytes> {
        self.call.frame()
    }

    /// Ends it. All that was sent on it was taken, or refused, when this returns.
    pub fn finish(self) -> Vec<u8> {
        self.call.finish()
    }

    fn cut(self) {
        self.call.cut();
    }
}

/// Which damaged messages are sent.
pub type Filter<'a> = &'a (dyn Fn(&[u8]) -> bool + Sync);

/// What a member has sent to a node.
#[derive(Default)]
pub struct Sent {
    pub frames: u64,
    /// Of these, whole frames whose payload a node can read as a message.
    pub readable: u64,
    pub links: u64,
    /// The frames of the last link.
    pub last: Vec<Vec<u8>>,
}

/// Sends so many frames to this node, on one link after the other, as long as it runs.
pub fn speaks(
    member: &Member,
    peer: &str,
    frames: u64,
    filter: Filter<'_>,
    is_well: &dyn Fn() -> bool,
    rng: &mut Rng,
) -> Sent {
    let mut sent = Sent::default();
    let mut recorded: BTreeMap<u8, Vec<Bytes>> = BTreeMap::new();
    while sent.frames < frames && is_well() {
        let count = FRAMES_PER_LINK.min(frames - sent.frames);
        let Some(mut link) = member.link(peer, is_well) else { break };
        sent.links += 1;
        sent.last.clear();
        // An error means that the node has closed the link, as it should at a broken frame.
        let ended = speak(&mut link, count, filter, &mut recorded, &mut sent, rng);
        if ended.is_err() || rng.chance(1, 8) {
            link.cut();
        } else {
            link.finish();
        }
    }
    sent
}

fn speak(
    link: &mut Link,
    count: u64,
    filter: Filter<'_>,
    recorded: &mut BTreeMap<u8, Vec<Bytes>>,
    sent: &mut Sent,
    rng: &mut Rng,
) -> io::Result<()> {
    for number in 0..count {
        if number % PING_EVERY == 0 {
            link.ping()?;
            // One member's word that the receiver is out: said again and again, else it would count for nothing anyway.
            for kind in [FAREWELL, LEFT_BEHIND] {
                link.send(&framed(&outcast(kind, link.theirs.cluster)))?;
            }
            for frame in link.hear()? {
                let of_kind = recorded.entry(frame.first().copied().unwrap_or(0)).or_default();
                if of_kind.len() >= RECORDED_MAX {
                    of_kind.swap_remove(rng.below(RECORDED_MAX as u64) as usize);
                }
                of_kind.push(frame);
            }
        }
        let payload = loop {
            let payload = lie(link, recorded, rng);
            if filter(&payload) {
                break payload;
            }
        };
        let whole = framed(&payload);
        let (bytes, is_broken) = if rng.chance(1, 50) { (broken(&whole, rng), true) } else { (whole, false) };
        sent.frames += 1;
        sent.readable += u64::from(!is_broken && fuzz_peer_message(&payload));
        sent.last.push(bytes.clone());
        link.send(&bytes)?;
        if is_broken {
            return Ok(());
        }
    }
    Ok(())
}

/// A message that is damaged: one that a node has sent, or one of any kind.
fn lie(link: &Link, recorded: &BTreeMap<u8, Vec<Bytes>>, rng: &mut Rng) -> Vec<u8> {
    let real = |rng: &mut Rng| {
        let kinds: Vec<&[Bytes]> = recorded.values().map(Vec::as_slice).collect();
        if kinds.is_empty() || rng.chance(1, 8) {
            return link.own.payload();
        }
        let of_kind = *rng.pick(&kinds);
        rng.pick(of_kind).to_vec()
    };
    let made = |rng: &mut Rng| {
        let about = rng.pick(&link.theirs.partitions);
        let all = all_kinds(*about, link.id, &link.own, rng);
        rng.pick(&all).clone()
    };
    let [one, other] = [0, 1].map(|_| if rng.chance(1, 3) { real(rng) } else { made(rng) });
    let mut payload = damage(&one, &other, rng);
    if rng.chance(1, 8) && !payload.is_empty() {
        payload[0] = rng.below(40) as u8;
    }
    payload
}

/// A frame that is none: its length, its checksum or its bytes are others; two in one; less than one.
fn broken(whole: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let length = u32::from_le_bytes([whole[0], whole[1], whole[2], whole[3]]);
    let at = rng.below(bytes.len() as u64) as usize;
    match rng.below(6) {
        0 => bytes[..4].fill(0),
        1 => bytes[..4].fill(0xff),
        2 => bytes[..4].copy_from_slice(&(length + 1).to_le_bytes()),
        3 => bytes[..4].copy_from_slice(&length.saturating_sub(1).to_le_bytes()),
        4 => bytes[at.max(4)] ^= 1 << rng.below(8),
        _ => bytes.truncate(at),
    }
    // The next one is read as a part of this, or as what it is.
    [&bytes[..], whole].concat()
}

/// First frames behind a right proof that are no greeting of this member: damaged ones, ones in another's name or under another key, requests to join without a token.
pub fn greetings(member: &Member, targets: &[String], frames: u64, rng: &mut Rng) {
    let own = member.greeting();
    let stranger = Member { caller: Caller::new(&NodeKey::generate().expect("a key")), ..member.clone() };
    for _ in 0..frames {
        let place = rng.below(targets.len() as u64) as usize;
        let target = targets[place].as_str();
        let (heard, must_be_refused) = match rng.below(8) {
            0 | 1 => (member.greets(target, &damage(&own, &own, rng)), false),
            2 => (member.greets(target, &encoded(&of_other_versions(&member.hello, rng))), false),
            // The receiver's own name is one of them.
            3 | 4 => {
                let id = NodeId(rng.below(targets.len() as u64) as u16);
                let node = format!("n{}", id.0 + 1);
                let hello = Hello { id, node, incarnation: rng.next_u64(), ..member.hello.clone() };
                (member.greets(target, &encoded(&hello)), true)
            }
            5 => (stranger.greets(target, &own), true),
            _ => {
                let mut request = Vec::new();
                join_request("n9", rng).encode(&mut request);
                (member.greets(target, &damage(&request, &own, rng)), false)
            }
        };
        if let Some(heard) = heard.filter(|_| must_be_refused) {
            let said = split_frames(&heard).next().expect("it says why").expect("a frame");
            assert!(matches!(Hello::decode(said), Err(HelloError::Refused(_))), "{:?}", String::from_utf8_lossy(said));
        }
    }
}

/// The same of a program of other versions.
fn of_other_versions(hello: &Hello, rng: &mut Rng) -> Hello {
    let [version, oldest, newest, needs] = [0; 4].map(|_| rng.below(12) as u16);
    Hello { version, speaks: Versions { oldest, newest }, needs, ..hello.clone() }
}

fn encoded(hello: &Hello) -> Vec<u8> {
    let mut payload = Vec::new();
    hello.encode(&mut payload);
    payload
}

/// A request to join by a node of this name, without a token.
pub fn join_request(name: &str, rng: &mut Rng) -> JoinRequest {
    JoinRequest {
        token: "no token".to_owned(),
        name: name.to_owned(),
        peer_address: "127.0.0.1:1".to_owned(),
        nonce: rng.next_u64(),
        zone: name.to_owned(),
        newest: NEWEST,
    }
}
