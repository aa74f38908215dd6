//! The loop: one thread that owns the node, the client sockets and the links to peers.
//!
//! A turn:
//! 1. poll; the loop sleeps here and nowhere else
//! 2. read every ready socket once into one shared buffer and step the node with what came
//! 3. tell the node what other threads have to say: bytes from HTTP, how far the disk is, …
//! 4. end the turn: the node batches all of it
//! 5. carry out the outbox: one write per peer, payloads to the journal thread, one write per client
//!
//! Sockets are watched edge-triggered, for both directions from the start: a read that did not fill the buffer has
//! drained the socket (`epoll(7)`, "Questions and answers", 9), so one read and one write is all that an operation
//! of an unpipelined client costs. A socket that had more than a buffer is read on in the next turn.

mod busy;
mod carry_out;
mod client_handshakes;
mod clients;
mod news;
mod output;
mod peers;
mod porters;
mod receive;
mod sockets;
mod vital_signs;
mod work;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use base::{NodeId, Now, PartitionId, Position, Time};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use node::{
    ConnectionId, ErrandAnswer, FullSync, Input, MadeBlock, Member, Node, Outbox, PasswordOutcome, PasswordWork,
    TakenBlocks,
};
use storage::{CacheSettings, CachedStore, Files, LsmStore};
use tls::KeyHash;

use crate::admission::Admission;
use crate::alarm::Alarm;
use crate::audit::Audit;
use crate::bridge::{ReplyLine, Request, Requests};
use crate::client_tls::ClientSecurity;
use crate::clock::Clock;
use crate::errands::Errands;
use crate::full_sync::FullSyncs;
use crate::journal::{JournalEvents, JournalHandle};
use crate::low_disk::{Passed, Refusals};
use crate::passwords::PasswordThread;
use crate::peer_tls::PeerSecurity;
use crate::secrets::SharedLogins;
use crate::systemd::Notifier;
use crate::transfers::{self, Transfers};
use busy::Busy;
use client_handshakes::{ClientDoor, Handshaken};
use clients::NumberHasher;
use peers::{Arrival, Handshakes, Ourselves, Peers};
use porters::Porters;
pub(crate) use receive::is_near;
use sockets::Sockets;
use vital_signs::VitalSigns;
use work::Work;

/// Gives the node an input.
type Step<'a> = dyn FnMut(Input<'_>) + 'a;

const ALARM: Token = Token(0);
const RESP: Token = Token(1);
const PEER: Token = Token(2);
const CLUSTER: Token = Token(3);
/// Links to peers have the tokens from here on …
const FIRST_LINK: usize = 16;
/// … and clients from here on.
const FIRST_CLIENT: usize = 1024;

/// Size of the buffer that every socket is read into.
const READ_BYTES: usize = 256 * 1024;
/// Most events taken in one turn.
const EVENTS_MAX: usize = 2048;
/// How long the node may take to hand over when it is stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long what was answered at the end may take to be sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// What other threads tell the loop.
pub(crate) enum Control {
    /// The process shall stop.
    Stop,
    /// The journal finds no room (`true`), or does again.
    JournalFull(bool),
    /// There is more or less room on the disk.
    DiskRoom(Passed),
    /// The data folder is not any more what it was; this is.
    FolderGone(String),
    /// As [`Input::SnapshotSaved`] or [`Input::SnapshotFailed`].
    Snapshot(PartitionId, Position, io::Result<()>),
    /// As [`Input::BlockMade`].
    BlockMade(Box<MadeBlock>),
    /// As [`Input::BlocksTaken`].
    BlocksTaken(Box<TakenBlocks>),
    /// As [`Input::ErrandDone`].
    ErrandDone(ConnectionId, u64, ErrandAnswer),
    /// As [`Input::PasswordTried`].
    PasswordTried(u64, PasswordWork, PasswordOutcome),
    /// As [`Input::FullSyncEnded`].
    FullSyncEnded(FullSync, Option<&'static str>),
    /// As [`Input::Password`].
    Password(String),
    /// A peer's address was looked up.
    Resolved(NodeId, io::Result<SocketAddr>),
    /// A link to a peer has its handshake behind it.
    Arrived(Box<Arrival>),
    /// A client has its handshake behind it, or there is none.
    Handshaken(u64, Handshaken),
}

/// Brings [`Control`] messages to the loop.
#[derive(Clone)]
pub(crate) struct Messenger {
    sender: mpsc::Sender<Control>,
    filled: Arc<AtomicBool>,
    alarm: Arc<Alarm>,
}

impl Messenger {
    pub(crate) fn tell(&self, control: Control) {
        // The loop is gone only when the process ends.
        let _ = self.sender.send(control);
        self.filled.store(true, Ordering::SeqCst);
        self.alarm.ring();
    }
}

impl JournalEvents for Messenger {
    fn persisted(&self) {
        self.alarm.ring();
    }

    fn disk_full(&self, full: bool) {
        self.tell(Control::JournalFull(full));
    }
}

/// The poll, and the ways to wake it: made before everything that needs them.
pub(crate) struct Frame {
    poll: Poll,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) messenger: Messenger,
    controls: mpsc::Receiver<Control>,
    /// Numbers client connections, for the loop and the bridge.
    pub(crate) connections: Arc<AtomicU64>,
}

impl Frame {
    pub(crate) fn new() -> io::Result<Frame> {
        let poll = Poll::new()?;
        let alarm = Arc::new(Alarm::new(poll.registry(), ALARM)?);
        let (sender, controls) = mpsc::channel();
        let messenger = Messenger { sender, filled: Arc::new(AtomicBool::new(false)), alarm: Arc::clone(&alarm) };
        Ok(Frame { poll, alarm, messenger, controls, connections: Arc::new(AtomicU64::new(1)) })
    }
}

/// What the loop is to work with.
pub(crate) struct Parts {
    pub(crate) frame: Frame,
    pub(crate) clock: Clock,
    pub(crate) node: Node,
    /// What the node wanted done at its start.
    pub(crate) outbox: Outbox,
    pub(crate) resp: std::net::TcpListener,
    /// For clients that route by themselves.
    pub(crate) cluster: Option<std::net::TcpListener>,
    pub(crate) peer: std::net::TcpListener,
    pub(crate) requests: Requests,
    pub(crate) http_address: String,
    pub(crate) journal: JournalHandle<Files>,
    pub(crate) disk: Files,
    /// Where the state is, if not in memory alone.
    pub(crate) store: Option<CachedStore<LsmStore>>,
    /// What a bucket may keep in memory of it that has no settings of its own.
    pub(crate) cache: CacheSettings,
    pub(crate) clients_max: usize,
    /// Whether clients of other machines are refused; told to HTTP.
    pub(crate) is_protected: Arc<AtomicBool>,
    pub(crate) logins: SharedLogins,
    pub(crate) audit: Audit,
    /// Threads that have the sockets of clients; 0: the loop has them.
    pub(crate) porters: usize,
    pub(crate) commit_here: bool,
    pub(crate) name: String,
    /// Where other nodes reach this one.
    pub(crate) announced: String,
    /// Where nodes are reached that have another address than before.
    pub(crate) moved: Vec<Member>,
    /// By which keys other nodes are known beside those that the cluster has heard of.
    pub(crate) peer_keys: Vec<(String, KeyHash)>,
    /// Lets nodes in.
    pub(crate) admission: Admission,
    /// How links to other nodes are secured, if they are.
    pub(crate) security: Option<PeerSecurity>,
    /// How clients are spoken to under TLS, if they are.
    pub(crate) clients_by: Option<ClientSecurity>,
    /// Most descriptors of callers whose handshakes are under way.
    pub(crate) handshakes_max: usize,
    /// Holds conversations for clients.
    pub(crate) errands: Errands,
    /// Sends all keys to clients.
    pub(crate) full_syncs: FullSyncs,
    /// Tries passwords.
    pub(crate) passwords: PasswordThread,
    pub(crate) me: NodeId,
    /// Stands for the cluster that this node is of.
    pub(crate) fingerprint: u64,
    /// The versions of messages between nodes that this one speaks.
    pub(crate) speaks: base::versions::Versions,
    pub(crate) incarnation: u64,
    pub(crate) seed: u64,
    /// Tells systemd, or the parent of a worker, how the loop is.
    pub(crate) notifier: Arc<Notifier>,
}

/// How the loop ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As asked, after the hand-over.
    Stopped,
    /// As asked, but the hand-over took too long.
    StoppedLate,
    /// The cluster has removed the node.
    Removed,
    /// The node must not go on.
    Fatal(String),
}

struct EventLoop {
    poll: Poll,
    alarm: Arc<Alarm>,
    messenger: Messenger,
    controls: mpsc::Receiver<Control>,
    connections: Arc<AtomicU64>,
    clock: Clock,
    node: Node,
    outbox: Outbox,
    resp: TcpListener,
    cluster: Option<TcpListener>,
    peer: TcpListener,
    requests: Requests,
    http_address: String,
    journal: JournalHandle<Files>,
    disk: Files,
    store: Option<CachedStore<LsmStore>>,
    cache: CacheSettings,
    transfers: Transfers,
    clients_max: usize,
    is_protected: Arc<AtomicBool>,
    audit: Audit,
    /// The node was told that the audit trail cannot be written.
    audit_fails: bool,
    /// Which mark of the trail the node was told last.
    audit_marks: u64,
    logins: SharedLogins,
    /// When a client of another machine was last named in the log.
    refused_at: Option<Time>,
    commit_here: bool,
    /// The journal was told that all nodes understand stamped sectors.
    stamps_sectors: bool,
    /// Why the node was told that its disk is full, if it was.
    refusals: Refusals,
    busy: Busy,
    work: Work,
    vital_signs: VitalSigns,
    errands: Errands,
    full_syncs: FullSyncs,
    passwords: PasswordThread,

    buffer: Vec<u8>,
    /// Those of clients, unless porters have them.
    sockets: Sockets,
    porters: Porters,
    virtual_clients: HashMap<u64, ReplyLine, BuildHasherDefault<NumberHasher>>,
    peers: Peers,
    taken_requests: Vec<Request>,
    /// The last [`Input::Persisted`].
    persisted: u64,
    /// What syncs took, on the way to the node.
    sync_durations: Vec<Duration>,
    /// Something was given to the node since its last end of turn, outside the order of a turn.
    unfinished: bool,
    /// When the node wants to be stepped next.
    wake_at: Option<Time>,
    accept_at: Option<Time>,
    stop_at: Option<Time>,
}

/// Runs until the process shall end.
///
/// # Errors
/// When the poll or a listener fails, which is not to be expected.
pub(crate) fn run(parts: Parts) -> io::Result<Ending> {
    EventLoop::new(parts)?.run()
}

impl EventLoop {
    fn new(parts: Parts) -> io::Result<EventLoop> {
        let Frame { poll, alarm, messenger, controls, connections } = parts.frame;
        let listen = |listener: std::net::TcpListener, token| {
            listener.set_nonblocking(true)?;
            let mut listener = TcpListener::from_std(listener);
            poll.registry().register(&mut listener, token, Interest::READABLE)?;
            Ok::<_, io::Error>(listener)
        };
        let (resp, peer) = (listen(parts.resp, RESP)?, listen(parts.peer, PEER)?);
        let cluster = parts.cluster.map(|listener| listen(listener, CLUSTER)).transpose()?;
        let ourselves = Ourselves {
            name: parts.name,
            address: parts.announced,
            me: parts.me,
            cluster: parts.fingerprint,
            speaks: parts.speaks,
            incarnation: parts.incarnation,
        };
        let door = parts.clients_by.map(|security| ClientDoor::start(security, messenger.clone())).transpose()?;
        let sockets = Sockets::new(FIRST_CLIENT, poll.registry(), door.clone())?;
        let persisted = parts.journal.persisted();
        let mut peers = Peers::new(ourselves, parts.moved, FIRST_LINK, parts.seed, messenger.clone());
        peers.trust(parts.peer_keys);
        peers.admit_by(parts.admission);
        if let Some(security) = parts.security {
            peers.secure_by(Handshakes::start(security, messenger.clone(), parts.handshakes_max)?);
        }
        let busy = Busy::start(parts.clock)?;
        peers.tell_when_busy(busy.links());
        Ok(EventLoop {
            peers,
            poll,
            controls,
            connections,
            clock: parts.clock,
            node: parts.node,
            outbox: parts.outbox,
            resp,
            cluster,
            peer,
            requests: parts.requests,
            http_address: parts.http_address,
            journal: parts.journal,
            disk: parts.disk,
            transfers: transfers::start(parts.store.clone(), messenger.clone())?,
            store: parts.store,
            cache: parts.cache,
            clients_max: parts.clients_max,
            is_protected: parts.is_protected,
            logins: parts.logins,
            audit: parts.audit,
            audit_fails: false,
            audit_marks: 0,
            refused_at: None,
            commit_here: parts.commit_here,
            stamps_sectors: false,
            refusals: Refusals::default(),
            busy,
            errands: parts.errands,
            full_syncs: parts.full_syncs,
            passwords: parts.passwords,
            work: Work::default(),
            vital_signs: VitalSigns::new(parts.notifier),
            buffer: vec![0; READ_BYTES],
            sockets,
            porters: Porters::start(parts.porters, parts.clock, &alarm, door.as_ref())?,
            virtual_clients: HashMap::default(),
            taken_requests: Vec::new(),
            persisted,
            sync_durations: Vec::new(),
            unfinished: true,
            wake_at: None,
            accept_at: None,
            stop_at: None,
            alarm,
            messenger,
        })
    }

    fn run(mut self) -> io::Result<Ending> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut now = self.clock.now();
        loop {
            self.sleep(&mut events, now.time)?;
            now = self.clock.now();
            self.tell_work(now);
            self.take_sockets(&events, now);
            let others = self.take_news(now);
            self.unfinished = false;
            self.end_turn(now);
            if let Some(reason) = self.outbox.fatal.take() {
                return Ok(Ending::Fatal(reason));
            }
            // With nothing else to do, the loop may as well wait for the disk itself.
            let quiet = !others && !self.has_unread() && events.iter().take(2).count() < 2;
            self.carry_out(now, quiet);
            self.give_vital_signs(now);
            if self.outbox.stopped {
                let is_removed = self.outbox.removed;
                self.vital_signs.stop(if is_removed { "stopping: removed from the cluster" } else { "stopping" });
                self.flush_all(&mut events)?;
                return Ok(if is_removed { Ending::Removed } else { Ending::Stopped });
            }
            if self.stop_at.is_some_and(|at| at <= now.time) {
                self.flush_all(&mut events)?;
                // Dropping it would wait for a disk that may be what holds everything up.
                std::mem::forget(self.journal);
                return Ok(Ending::StoppedLate);
            }
        }
    }

    /// Sleeps until something happens or is due.
    fn sleep(&mut self, events: &mut Events, now: Time) -> io::Result<()> {
        let due = [
            self.wake_at,
            self.accept_at,
            self.stop_at,
            self.peers.wake_at(),
            self.sockets.next_leaving(),
            self.vital_signs.wake_at(),
        ];
        let timeout = match due.into_iter().flatten().min() {
            _ if self.unfinished || self.has_unread() => Some(Duration::ZERO),
            Some(at) => Some(at.since(now)),
            None => None,
        };
        let timeout = if timeout == Some(Duration::ZERO) {
            timeout
        } else {
            self.alarm.going_to_sleep();
            let news = self.messenger.filled.load(Ordering::SeqCst)
                || self.requests.waiting()
                || self.porters.waiting()
                || self.journal.persisted() > self.persisted;
            if news { Some(Duration::ZERO) } else { timeout }
        };
        let polled = self.poll.poll(events, timeout);
        self.alarm.awake();
        match polled {
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            other => other,
        }
    }

    fn has_unread(&self) -> bool {
        self.sockets.has_unread() || self.peers.has_unread()
    }

    /// Step 4 of a turn.
    fn end_turn(&mut self, now: Now) {
        self.outbox.wake_at = None;
        self.busy.begin(now.time);
        self.node.step(now, Input::EndTurn, &mut self.outbox);
        self.busy.end();
        self.wake_at = self.outbox.wake_at.take();
    }

    /// Sends what still waits, as far as the others take it in time.
    fn flush_all(&mut self, events: &mut Events) -> io::Result<()> {
        let end = self.clock.now().time + FLUSH_TIMEOUT;
        if !self.virtual_clients.is_empty() {
            // The HTTP thread has its last replies in hand and is about to write them.
            thread::sleep(Duration::from_millis(20));
        }
        self.porters.finish(end);
        loop {
            let now = self.clock.now().time;
            if self.sockets.waiting_bytes() + self.peers.waiting_bytes() == 0 || now >= end {
                self.porters.join();
                self.sockets.say_goodbye();
                return Ok(());
            }
            self.poll.poll(events, Some(end.since(now)))?;
            for event in events.iter() {
                if event.token().0 >= FIRST_CLIENT {
                    self.sockets.flush(event);
                } else if let Some(place) = event.token().0.checked_sub(FIRST_LINK) {
                    let registry = self.poll.registry();
                    self.peers.on_event(place, event, &mut self.buffer, registry, now, &mut |_| ());
                }
            }
        }
    }
}
