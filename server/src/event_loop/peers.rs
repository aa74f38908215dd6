//! Links to the other nodes: one TCP connection per pair, so that replies ride along with requests.
//!
//! ```text
//!  the lower id dials      Connecting ──connected──► Greeting ──a Hello that fits──► Up
//!  the higher id accepts                 accepted ──────┘
//! ```
//! Only if it is not called for some seconds does the higher id dial: whoever was removed while it was away is not called by anybody any more, and
//! finds out in this way. A node that wants to join sends a [`JoinRequest`] instead, and is handed over to [`Admission`].
//! The caller sends a [`Hello`] first; who is called answers with its own if the caller is a member of the same
//! cluster, and closes the link otherwise, saying why if the caller can understand that. In which version they talk is in `wire/src/hello.rs`. A node that
//! closes the link on a greeting without a word may be of the oldest version and know no newer one: it is called again in that (`Peer::is_old`). Messages are taken only after the other's Hello. A new link from a peer replaces the old one: the peer must have lost it.
//! Half-open links are found by the kernel (unacknowledged bytes) and by the node (its heartbeats).

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use base::limits::{PEER_MESSAGE_BYTES_MAX, PEER_OUTPUT_BYTES_MAX};
use base::versions::{OLDEST, Versions};
use base::{NodeId, Rng, Time};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use node::{Input, LinkTerms, Member, Nodes};
use tls::KeyHash;
use wire::{FrameReader, Hello};

use complaints::Complaints;

use super::busy::BusyLinks;
use super::output::SharedOutput;
use super::{Messenger, Step};
use crate::admission::Admission;
use crate::log;
use crate::peer_tls::Socket;
pub(super) use handshakes::{Arrival, Handshakes};

/// The first and the longest wait before a peer is dialled again; each is drawn from its upper half.
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_millis(500);
/// A link that was up for so long worked; the next one is dialled soon.
const STEADY: Duration = Duration::from_secs(1);
/// A process that was heard within this time runs: pings come twenty times a second.
const LIVELY: Duration = Duration::from_secs(3);
/// A peer that is to call, and does not for so long, is called: it may not know (any more) that this node is there.
const CALLED_PATIENCE: Duration = Duration::from_secs(5);
/// How long connecting and greeting may take together; where links are under TLS, connecting, the handshake and greeting each.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);
/// How long sent bytes may stay unacknowledged by the other machine before the link is given up.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);
/// A link that was made in the oldest version because no newer greeting was answered is made anew after this time: the other node may have been about to end.
const NEWEST_AGAIN_AFTER: Duration = Duration::from_secs(300);
/// Largest greeting, in bytes: until a caller has shown who it is, it deserves little.
const GREETING_BYTES_MAX: usize = 1024;
/// Most accepted links that have not greeted yet.
const STRANGERS_MAX: usize = 64;
/// Who we are, to the others.
#[derive(Clone, Debug)]
pub(super) struct Ourselves {
    pub(super) name: String,
    /// Where they reach us.
    pub(super) address: String,
    pub(super) me: NodeId,
    /// The fingerprint of the cluster.
    pub(super) cluster: u64,
    /// Which versions we speak.
    pub(super) speaks: Versions,
    /// Grows with every start.
    pub(super) incarnation: u64,
}

/// All links of this node.
pub(super) struct Peers {
    ourselves: Ourselves,
    /// Where nodes are, by name, as this one's operator has said: the cluster may not know yet.
    moved: BTreeMap<String, String>,
    /// By which keys their operator knows nodes, beside those that the cluster has heard of.
    trusted: Vec<(String, KeyHash)>,
    /// The version of the cluster, as the node knows it: whoever speaks less is not talked to.
    version: u16,
    links: Vec<Option<Link>>,
    /// All other nodes, those that were removed among them.
    peers: BTreeMap<NodeId, Peer>,
    /// The poll token of the first link.
    first_token: usize,
    /// Links in which something may lie that was not read.
    unread: Vec<usize>,
    rng: Rng,
    messenger: Messenger,
    /// Who answers nodes that want to join.
    admission: Option<Admission>,
    complaints: Complaints,
    /// Links on which it is said that the loop is busy.
    busy: BusyLinks,
    /// Makes links secure, if they are to be.
    handshakes: Option<Handshakes>,
}

struct Peer {
    /// How it is known; nothing of one that was removed before this process began.
    member: Option<Member>,
    /// It was removed: it is only told so.
    is_removed: bool,
    /// By which keys the council knows it; none: by any.
    keys: Vec<KeyHash>,
    /// It has closed the last link on a greeting in our newest version: the next one is in the oldest.
    is_old: bool,
    /// It has ended the last call under TLS without a word: the next one is in plain text, where that may be.
    is_plain: bool,
    /// The link that is up, and the start of the peer that it is of.
    up: Option<usize>,
    started: u64,
    /// When to dial; not set while a dialled link exists, its address is looked up, or the peer is to dial us.
    dial_at: Option<Time>,
    backoff: Duration,
    /// How often it was dialled without success: it may have several addresses, which are tried in turn.
    failures: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Connecting,
    Greeting,
    Up(NodeId),
}

struct Link {
    socket: Socket<TcpStream>,
    stage: Stage,
    /// Whom we dialled; nobody if it was accepted.
    dialled: Option<NodeId>,
    /// The key of the node at the other end, where the link is under TLS.
    key: Option<KeyHash>,
    /// The version in which we have greeted.
    greeted_in: Option<u16>,
    remote: SocketAddr,
    /// When it was dialled or accepted; once it is up, when it came up.
    since: Time,
    /// When something came last.
    heard: Time,
    reader: FrameReader,
    output: SharedOutput,
    half_closed: bool,
    /// Something has come from the other side.
    has_spoken: bool,
}

impl Peer {
    fn new(dial_at: Option<Time>) -> Peer {
        Peer {
            member: None,
            is_removed: false,
            keys: Vec::new(),
            is_old: false,
            is_plain: false,
            up: None,
            started: 0,
            dial_at,
            backoff: BACKOFF_MIN,
            failures: 0,
        }
    }
}

impl Peers {
    pub(super) fn new(
        ourselves: Ourselves,
        moved: Vec<Member>,
        first_token: usize,
        seed: u64,
        messenger: Messenger,
    ) -> Peers {
        Peers {
            ourselves,
            trusted: Vec::new(),
            moved: moved.into_iter().map(|member| (member.name, member.peer_address)).collect(),
            version: OLDEST,
            links: Vec::new(),
            peers: BTreeMap::new(),
            first_token,
            unread: Vec::new(),
            rng: Rng::new(seed),
            messenger,
            admission: None,
            complaints: Complaints::default(),
            busy: BusyLinks::default(),
            handshakes: None,
        }
    }

    /// Has links told while the loop is at one long step.
    pub(super) fn tell_when_busy(&mut self, busy: BusyLinks) {
        self.busy = busy;
    }

    /// Nodes are known by these keys, too, whatever the cluster has heard.
    pub(super) fn trust(&mut self, keys: Vec<(String, KeyHash)>) {
        self.trusted = keys;
    }

    /// Nodes that want to join are answered by it.
    pub(super) fn admit_by(&mut self, admission: Admission) {
        self.admission = Some(admission);
    }

    /// Links have a handshake before them.
    pub(super) fn secure_by(&mut self, handshakes: Handshakes) {
        self.handshakes = Some(handshakes);
    }

    /// Takes over who is there. Links end of nodes that the council does not know by their keys any more.
    pub(super) fn follow(&mut self, nodes: Nodes, now: Time, step: &mut Step<'_>) {
        let me = self.ourselves.me;
        self.version = self.version.max(nodes.version);
        for (id, member) in nodes.members.into_iter().filter(|(id, _)| *id != me) {
            self.note_member(id, member, now);
        }
        for peer in self.peers.values_mut() {
            peer.keys.clear();
        }
        for (id, keys) in nodes.keys {
            if let Some(peer) = self.peers.get_mut(&id) {
                peer.keys = keys.into_iter().map(KeyHash).collect();
            }
        }
        for id in nodes.removed.into_iter().filter(|id| *id != me) {
            let peer = self.peers.entry(id).or_insert_with(|| Peer::new(None));
            (peer.is_removed, peer.dial_at) = (true, None);
        }
        for place in 0..self.links.len() {
            let Some(Link { stage: Stage::Up(peer), key, .. }) = &self.links[place] else { continue };
            if let Some(why) = self.is_unknown_by(*peer, *key) {
                self.drop_link(place, &why, now, step);
            }
        }
    }

    fn note_member(&mut self, id: NodeId, member: Member, now: Time) {
        // Who is to be called is called at once; whoever calls is waited for.
        let dial_at = if id > self.ourselves.me { now } else { now + CALLED_PATIENCE };
        self.peers.entry(id).or_insert_with(|| Peer::new(Some(dial_at))).member = Some(member);
    }

    /// Takes all links that wait at the listener.
    pub(super) fn accept(&mut self, listener: &TcpListener, registry: &Registry, now: Time) {
        loop {
            match listener.accept() {
                Ok((stream, remote)) => {
                    if let Some(handshakes) = &self.handshakes {
                        if !handshakes.give(stream, None, remote) {
                            let reason = "too many callers wait for their handshakes";
                            self.complain_of_stranger(now, format!("refused a link from {}: {reason}", remote.ip()));
                        }
                        continue;
                    }
                    if self.has_many_strangers() {
                        self.complain_of_stranger(
                            now,
                            format!("refused a link from {}: too many callers have not greeted", remote.ip()),
                        );
                        continue;
                    }
                    let place = self.insert(Socket::Plain(stream), Stage::Greeting, None, remote, now);
                    if let Err(error) = self.register(place, registry).and_then(|()| self.set_options(place)) {
                        self.complain_of_stranger(now, format!("the link from {} failed: {error}", remote.ip()));
                        self.links[place] = None;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.complain(now, format!("a peer's link could not be accepted: {error}"));
                    return;
                }
            }
        }
    }

    /// Whether no more callers are taken that have not greeted.
    fn has_many_strangers(&self) -> bool {
        let greets = |link: &&Link| link.dialled.is_none() && link.stage == Stage::Greeting;
        self.links.iter().flatten().filter(greets).count() >= STRANGERS_MAX
    }

    /// When [`Peers::tick`] wants to be called next.
    pub(super) fn wake_at(&self) -> Option<Time> {
        let greeting = self.links.iter().flatten().filter(|link| !matches!(link.stage, Stage::Up(_)));
        let timeouts = greeting.map(|link| link.since + GREETING_TIMEOUT);
        self.peers.values().filter_map(|peer| peer.dial_at).chain(timeouts).min()
    }

    /// Whether [`Peers::read_unread`] has work.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Bytes that wait to be sent, over all links.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.links.iter().flatten().map(|link| link.output.lock().waiting_bytes()).sum()
    }

    /// Dials who is due and gives up links whose greeting took too long.
    pub(super) fn tick(&mut self, registry: &Registry, now: Time, step: &mut Step<'_>) {
        if self.wake_at().is_none_or(|at| at > now) {
            return;
        }
        for place in 0..self.links.len() {
            let Some(link) = &self.links[place] else { continue };
            if !matches!(link.stage, Stage::Up(_)) && now >= link.since + GREETING_TIMEOUT {
                self.drop_link(place, "no greeting came in time", now, step);
            }
        }
        let is_due = |peer: &Peer| peer.dial_at.is_some_and(|at| at <= now);
        let due: Vec<NodeId> = self.peers.iter().filter(|(_, peer)| is_due(peer)).map(|(id, _)| *id).collect();
        for id in due {
            if let Some(peer) = self.peers.get_mut(&id) {
                peer.dial_at = None;
            }
            self.dial(id, registry, now);
        }
    }

    fn insert(
        &mut self,
        socket: Socket<TcpStream>,
        stage: Stage,
        dialled: Option<NodeId>,
        remote: SocketAddr,
        now: Time,
    ) -> usize {
        let place = self.links.iter().position(Option::is_none).unwrap_or_else(|| {
            self.links.push(None);
            self.links.len() - 1
        });
        self.links[place] = Some(Link {
            socket,
            stage,
            since: now,
            heard: now,
            dialled,
            key: None,
            greeted_in: None,
            remote,
            reader: FrameReader::with_limit(GREETING_BYTES_MAX),
            output: SharedOutput::default(),
            half_closed: false,
            has_spoken: false,
        });
        place
    }

    fn register(&mut self, place: usize, registry: &Registry) -> io::Result<()> {
        let token = Token(self.first_token + place);
        let Some(link) = &mut self.links[place] else { return Ok(()) };
        registry.register(link.socket.stream_mut(), token, Interest::READABLE | Interest::WRITABLE)
    }

    fn set_options(&mut self, place: usize) -> io::Result<()> {
        let Some(link) = &self.links[place] else { return Ok(()) };
        #[cfg(target_os = "linux")]
        rustix::net::sockopt::set_tcp_user_timeout(link.socket.stream(), UNACKNOWLEDGED_MAX.as_millis() as u32)?;
        link.socket.stream().set_nodelay(true)
    }

    fn become_up(&mut self, place: usize, hello: &Hello, spoken: u16, now: Time, step: &mut Step<'_>) {
        let peer = hello.id;
        if let Some(old) = self.peers.get(&peer).and_then(|peer| peer.up) {
            self.drop_link(old, "the peer has made a new one", now, step);
        }
        let is_known = self.peers.get(&peer).is_some_and(|peer| peer.member.is_some() || peer.is_removed);
        self.peers.entry(peer).or_insert_with(|| Peer::new(None));
        if !is_known {
            // The node decides whether it is one. Until then it is called nowhere.
            step(Input::Met { peer, member: Member { name: hello.node.clone(), peer_address: hello.address.clone() } });
        }
        let Some(link) = &mut self.links[place] else { return };
        link.stage = Stage::Up(peer);
        link.since = now;
        link.reader.set_limit(PEER_MESSAGE_BYTES_MAX);
        let is_secured = matches!(link.socket, Socket::Secured(..));
        self.busy.add(place, &link.socket, spoken, link.output.clone());
        let fell_back =
            link.greeted_in.filter(|_| link.dialled.is_some()).is_some_and(|it| it < self.ourselves.speaks.newest);
        if let Some(state) = self.peers.get_mut(&peer) {
            let again = fell_back.then(|| now + NEWEST_AGAIN_AFTER);
            (state.up, state.started, state.dial_at) = (Some(place), hello.incarnation, again);
        }
        self.complaints.forget_peers();
        let terms = LinkTerms { spoken, newest: hello.speaks.newest, is_secured };
        let older =
            if spoken < self.ourselves.speaks.newest { format!(", in version {spoken}") } else { String::new() };
        let plain = if self.handshakes.is_some() && !is_secured { ", IN PLAIN TEXT" } else { "" };
        log::info(&format!("linked to {}{older}{plain}", self.describe(peer)));
        step(Input::PeerUp { peer, terms });
    }

    /// Sends whole frames to a peer. Without a link they are lost, which the node knows from `PeerDown`.
    pub(super) fn send(&mut self, peer: NodeId, bytes: Vec<u8>, now: Time, step: &mut Step<'_>) -> Option<Vec<u8>> {
        let place = self.peers.get(&peer).and_then(|peer| peer.up)?;
        let link = self.links[place].as_mut()?;
        let mut output = link.output.lock();
        let sent = output.send(&mut link.socket, bytes);
        let waiting = output.waiting_bytes();
        drop(output);
        match sent {
            Err(error) => self.drop_link(place, &error.to_string(), now, step),
            Ok(emptied) if waiting <= PEER_OUTPUT_BYTES_MAX => return emptied,
            Ok(_) => self.drop_link(place, "it does not take what is sent to it", now, step),
        }
        None
    }

    fn drop_link(&mut self, place: usize, reason: &str, now: Time, step: &mut Step<'_>) {
        let Some(link) = self.links[place].take() else { return };
        if let Stage::Up(peer) = link.stage {
            self.busy.remove(place);
            log::info(&format!("lost the link to {}: {reason}", self.describe(peer)));
            if self.peers.get(&peer).is_some_and(|state| state.member.is_none() && !state.is_removed) {
                self.peers.remove(&peer);
            } else if let Some(state) = self.peers.get_mut(&peer) {
                state.up = None;
                if now.since(link.since) >= STEADY {
                    state.backoff = BACKOFF_MIN;
                }
            }
            step(Input::PeerDown { peer });
            if link.dialled.is_none() {
                // It calls again; and if not, it is called.
                self.dial_later(peer, now);
            }
        } else if let Some(peer) = link.dialled {
            self.complain(now, format!("{} cannot be reached: {reason}", self.describe(peer)));
        }
        if let Some(peer) = link.dialled {
            if !matches!(link.stage, Stage::Up(_)) {
                self.note_failure(peer);
            }
            self.dial_later(peer, now);
        }
    }

    fn name(&self, peer: NodeId) -> String {
        let member = self.peers.get(&peer).and_then(|peer| peer.member.as_ref());
        member.map_or_else(|| peer.to_string(), |member| member.name.clone())
    }

    fn describe(&self, peer: NodeId) -> String {
        let member = self.peers.get(&peer).and_then(|peer| peer.member.as_ref());
        member.map_or_else(|| peer.to_string(), |member| format!("{} ({})", member.name, self.address_of(peer, member)))
    }
}

mod complaints;
mod dialling;
mod greeting;
mod handshakes;
mod reading;
mod securing;
#[cfg(test)]
mod tests;
