//! Lies that somebody could tell a node in the name of a dead member: for the simulator and tests.
//!
//! All of it is well-formed as a message and a lie in what it says. None of it may end the node, keep it from having a leader, or change what clients are answered.

use base::checksum::xxh3;
use base::{Ballot, NodeId, Rng};
use bytes::Bytes;
use paxos::{Knowledge, Message, Tail};

use crate::council::{COUNCIL, Order};
use crate::entry::{Kind, Life};
use crate::lives::Claim;
use crate::node::Node;
use crate::peer::{Forwarded, PeerMessage, Ping};
use crate::registry::{Change, NodeKey};
use crate::testimony::{SignedClaim, Signer};

/// Bodies of writes that no replica can apply, or must not: see [`crate::intake`].
const BODIES: [(Kind, &[u8]); 8] = [
    // No word at all: replicas answer it.
    (Kind::Command, &[0, 0, 0, 0]),
    // Five words, of which none is there.
    (Kind::Command, &[5, 0, 0, 0]),
    (Kind::Command, &[0xfe, 0xff, 0xff, 0xff, 1]),
    (Kind::Command, &[0xfb, 0xff, 0xff, 0xff, 9, 0, 0, 0]),
    (Kind::Transaction, &[1]),
    (Kind::Once, &[0xff; 3]),
    (Kind::Evict, &[7]),
    (Kind::Council, &[0]),
];

/// Lies for this node, in the name of a member that no longer runs.
#[must_use]
pub fn lies_of(node: &Node, member: NodeId, seed: u64) -> Vec<Bytes> {
    let mut rng = Rng::new(seed);
    let cluster = node.cluster_name();
    let mut lies = vec![PeerMessage::Farewell { cluster }, PeerMessage::LeftBehind { cluster }];
    lies.extend(about_folders(node, member, &mut rng));
    for group in node.groups.iter() {
        let partition = group.id();
        let round =
            if rng.chance(1, 2) { u64::MAX } else { group.partition.replica.promised().round.saturating_add(1 << 40) };
        let ballot = Ballot { round, node: member };
        let tail = Tail { ballot, last: group.partition.replica.log().last() };
        let noted = Knowledge::Noted { promised: ballot, incarnations: Vec::new(), leads: None, members: None };
        let messages = [
            Message::Prepare { ballot },
            Message::Refuse { promised: ballot },
            Message::PreVote { ballot },
            Message::PreVoteReply {
                ballot: group.partition.replica.promised(),
                granted: false,
                promised: ballot,
                tail,
            },
            Message::Accept {
                ballot,
                previous: tail.last,
                previous_ballot: group.partition.replica.log().tail().ballot,
                entries: Vec::new(),
                decided: tail.last,
            },
            Message::RecoverReply { incarnation: group.partition.replica.incarnation(), knowledge: noted },
        ];
        lies.extend(messages.map(|message| PeerMessage::Paxos { partition, message }));
        lies.push(PeerMessage::Copies { partition, ballot, copies: vec![(member, tail.last)] });
        // Of a life that is over: nobody waits for what has its numbers.
        let Some(life) = group.partition.origins.life_of(member).filter(|life| *life != Life::default()) else {
            continue;
        };
        let taken = group.taken.iter().find(|(of, known, _)| *of == member && *known == life);
        let last = taken.map_or(0, |(_, _, last)| *last).max(group.partition.origins.last(member, life));
        let of_council = (partition == COUNCIL).then(|| (Kind::Council, too_new(node).into()));
        let bodies = BODIES.map(|(kind, body)| (kind, Bytes::from_static(body))).into_iter().chain(of_council);
        let writes = (last + 1..).zip(bodies).map(|(sequence, (kind, body))| Forwarded { kind, sequence, body });
        let writes = writes.collect();
        lies.push(PeerMessage::Forward { partition, life, floor: last + 1, elsewhere: false, writes });
    }
    let version = node.version_with(member);
    let encoded = lies.iter().map(|lie| {
        let mut bytes = Vec::new();
        lie.encode(version, &mut bytes);
        bytes.into()
    });
    encoded.collect()
}

/// A ping that says of all others what would end them, or take their memory from them; and the same as if they had signed it.
fn about_folders(node: &Node, member: NodeId, rng: &mut Rng) -> Vec<PeerMessage> {
    let Some(before) = node.news.get(&member) else { return Vec::new() };
    let lie = |own: Claim, rng: &mut Rng| match rng.chance(1, 2) {
        true => Claim { process: !own.process, journal: own.journal + (1 << 40), ..own },
        false => Claim { incarnation: own.incarnation.saturating_add(1), ..own },
    };
    let others = node.roll.ids().filter(|other| *other != member);
    let true_claims =
        others.map(|other| (other, if other == node.config.me { node.claim() } else { node.lives.of(other) }));
    let lives: Vec<(NodeId, Claim)> = true_claims.map(|(other, claim)| (other, lie(claim, rng))).collect();
    let ping = Ping { number: before.number + 1, lives: lives.clone(), ..before.clone() };
    let signed = lives.into_iter().map(|(about, claim)| {
        // The public key of a [`PlainSigner`] is its hash.
        let key = node.registry.keys.of(about).first().copied().unwrap_or_default();
        let signature = Bytes::copy_from_slice(&rng.next_u64().to_be_bytes());
        let public = Bytes::copy_from_slice(&key);
        PeerMessage::SignedClaim(Box::new(SignedClaim { node: about, claim, public, signature }))
    });
    signed.chain([PeerMessage::Ping(Box::new(ping))]).collect()
}

/// An order to raise the cluster's version to one that nobody speaks.
fn too_new(node: &Node) -> Vec<u8> {
    let speak = node.roll.ids().collect();
    let founders = node.config.members.len() as u16;
    Order::Nodes(Change::Version { version: u16::MAX, speak, founders }).encode()
}

/// The words by which a member of this node's cluster is told that it was removed.
#[must_use]
pub fn farewell(node: &Node) -> Bytes {
    let mut bytes = Vec::new();
    PeerMessage::Farewell { cluster: node.cluster_name() }.encode(node.cluster_version(), &mut bytes);
    bytes.into()
}

/// Signs as far as the simulator and tests need it. The public key is the key, so anybody could make up a signature; nobody there makes up one that it was not given.
#[derive(Debug)]
pub struct PlainSigner(pub NodeKey);

fn plain_signature(public: &[u8], bytes: &[u8]) -> Vec<u8> {
    xxh3(&[public, bytes].concat()).to_be_bytes().to_vec()
}

impl Signer for PlainSigner {
    fn public(&self) -> &[u8] {
        &self.0
    }

    fn hash_of(&self, public: &[u8]) -> NodeKey {
        public.try_into().unwrap_or_default()
    }

    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        Ok(plain_signature(&self.0, bytes))
    }

    fn is_signed(&self, public: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
        plain_signature(public, bytes) == signature
    }
}
