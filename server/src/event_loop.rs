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

mod clients;
mod output;
mod peers;

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use base::limits::CONNECTION_OUTPUT_BYTES_MAX;
use base::{NodeId, Now, Position, Time};
use mio::event::Event;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use node::{ConnectionId, Input, Member, Node, Outbox, SnapshotJob};
use storage::Files;

use crate::alarm::Alarm;
use crate::bridge::{ReplyLine, Request, Requests};
use crate::clock::Clock;
use crate::journal::{JournalEvents, JournalHandle};
use crate::{log, snapshots};
use clients::{Client, Clients};
use output::Output;
use peers::{Ourselves, Peers};

/// Gives the node an input.
type Step<'a> = dyn FnMut(Input<'_>) + 'a;

const ALARM: Token = Token(0);
const RESP: Token = Token(1);
const PEER: Token = Token(2);
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
/// How long to wait before accepting is tried again when the process has no file descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// A client that has ended its side gets the replies that come within this time …
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);
/// … and no later than this after the last one.
const LEAVE_AFTER_REPLY: Duration = Duration::from_millis(100);
/// A payload up to this size may be committed by the loop itself.
const COMMIT_HERE_BYTES_MAX: usize = 16 * 1024;

/// What other threads tell the loop.
pub(crate) enum Control {
    /// The process shall stop.
    Stop,
    /// As [`Input::DiskFull`].
    DiskFull(bool),
    /// As [`Input::SnapshotSaved`] or [`Input::SnapshotFailed`].
    Snapshot(Position, io::Result<()>),
    /// A peer's address was looked up.
    Resolved(NodeId, io::Result<SocketAddr>),
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
        self.tell(Control::DiskFull(full));
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
    pub(crate) peer: std::net::TcpListener,
    pub(crate) requests: Requests,
    pub(crate) http_address: String,
    pub(crate) journal: JournalHandle<Files>,
    pub(crate) disk: Files,
    pub(crate) clients_max: usize,
    pub(crate) commit_here: bool,
    pub(crate) members: Vec<Member>,
    pub(crate) me: NodeId,
    pub(crate) cluster: u64,
    pub(crate) incarnation: u64,
    pub(crate) seed: u64,
}

/// How the loop ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As asked, after the hand-over.
    Stopped,
    /// As asked, but the hand-over took too long.
    StoppedLate,
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
    peer: TcpListener,
    requests: Requests,
    http_address: String,
    journal: JournalHandle<Files>,
    disk: Files,
    clients_max: usize,
    commit_here: bool,

    buffer: Vec<u8>,
    clients: Clients,
    /// Clients in whose sockets something may lie that was not read.
    unread: Vec<usize>,
    /// Clients that have ended their side, by connection.
    leaving: Vec<u64>,
    virtual_clients: HashMap<u64, ReplyLine>,
    peers: Peers,
    taken_requests: Vec<Request>,
    /// The last [`Input::Persisted`].
    persisted: u64,
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
        let ourselves =
            Ourselves { members: parts.members, me: parts.me, cluster: parts.cluster, incarnation: parts.incarnation };
        let now = parts.clock.now();
        let persisted = parts.journal.persisted();
        Ok(EventLoop {
            peers: Peers::new(ourselves, FIRST_LINK, parts.seed, messenger.clone(), now.time),
            poll,
            alarm,
            messenger,
            controls,
            connections,
            clock: parts.clock,
            node: parts.node,
            outbox: parts.outbox,
            resp,
            peer,
            requests: parts.requests,
            http_address: parts.http_address,
            journal: parts.journal,
            disk: parts.disk,
            clients_max: parts.clients_max,
            commit_here: parts.commit_here,
            buffer: vec![0; READ_BYTES],
            clients: Clients::default(),
            unread: Vec::new(),
            leaving: Vec::new(),
            virtual_clients: HashMap::new(),
            taken_requests: Vec::new(),
            persisted,
            unfinished: true,
            wake_at: None,
            accept_at: None,
            stop_at: None,
        })
    }

    fn run(mut self) -> io::Result<Ending> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut now = self.clock.now();
        loop {
            self.sleep(&mut events, now.time)?;
            now = self.clock.now();
            self.unfinished = false;
            self.take_sockets(&events, now);
            let others = self.take_news(now);
            self.end_turn(now);
            if let Some(reason) = self.outbox.fatal.take() {
                return Ok(Ending::Fatal(reason));
            }
            // With nothing else to do, the loop may as well wait for the disk itself.
            let quiet = !others && !self.has_unread() && events.iter().take(2).count() < 2;
            self.carry_out(now, quiet);
            if self.outbox.stopped {
                self.flush_all(&mut events)?;
                return Ok(Ending::Stopped);
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
        let due = [self.wake_at, self.accept_at, self.stop_at, self.peers.wake_at(), self.next_leaving()];
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
        !self.unread.is_empty() || self.peers.has_unread()
    }

    fn next_leaving(&mut self) -> Option<Time> {
        let mut earliest = None;
        for &connection in &self.leaving {
            let place = self.clients.place_of(connection);
            let at = place.and_then(|place| self.clients.get(place)).and_then(|client| client.leave_at);
            earliest = [earliest, at].into_iter().flatten().min();
        }
        earliest
    }

    /// Step 2 of a turn.
    fn take_sockets(&mut self, events: &Events, now: Now) {
        for place in std::mem::take(&mut self.unread) {
            self.read_client(place, now);
        }
        let EventLoop { node, outbox, peers, buffer, poll, .. } = self;
        let step: &mut Step<'_> = &mut |input| node.step(now, input, outbox);
        peers.read_unread(buffer, now.time, step);
        peers.tick(poll.registry(), now.time, step);
        for event in events {
            match event.token() {
                ALARM => {}
                RESP => self.accept_clients(now),
                PEER => self.peers.accept(&self.peer, self.poll.registry(), now.time),
                Token(token) if token >= FIRST_CLIENT => self.on_client_event(token - FIRST_CLIENT, event, now),
                Token(token) => {
                    let EventLoop { node, outbox, peers, buffer, .. } = self;
                    let step: &mut Step<'_> = &mut |input| node.step(now, input, outbox);
                    peers.on_event(token - FIRST_LINK, event, buffer, now.time, step);
                }
            }
        }
        if self.accept_at.is_some_and(|at| at <= now.time) {
            self.accept_at = None;
            self.accept_clients(now);
        }
        if !self.leaving.is_empty() {
            self.close_leaving(now);
        }
    }

    fn accept_clients(&mut self, now: Now) {
        loop {
            let (mut stream, address) = match self.resp.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
                Err(error) => {
                    log::warning(&format!(
                        "a client could not be accepted: {error}; trying again soon. If it says that too many files \
                         are open, raise the limit (ulimit -n) or lower --maxclients"
                    ));
                    self.accept_at = Some(now.time + ACCEPT_RETRY);
                    return;
                }
            };
            if self.clients.count() >= self.clients_max {
                let _ = stream.write(b"-ERR max number of clients reached\r\n");
                continue;
            }
            let token = Token(FIRST_CLIENT + self.clients.next_place());
            let local = stream.local_addr();
            let prepared = stream.set_nodelay(true).and_then(|()| {
                self.poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)
            });
            let (Ok(local), Ok(())) = (local, prepared) else {
                // The client has gone in the meantime.
                continue;
            };
            let connection = self.connections.fetch_add(1, Ordering::Relaxed);
            self.clients.insert(Client {
                stream,
                connection,
                output: Output::default(),
                paused: false,
                unread: false,
                half_closed: false,
                closing: false,
                unanswered: false,
                leave_at: None,
            });
            let opened = Input::Opened {
                connection: ConnectionId(connection),
                address: address.to_string(),
                local_address: local.to_string(),
            };
            self.node.step(now, opened, &mut self.outbox);
        }
    }

    fn on_client_event(&mut self, place: usize, event: &Event, now: Now) {
        let Some(client) = self.clients.get(place) else { return };
        if event.is_writable() && client.output.waiting_bytes() > 0 {
            let flushed = client.output.flush(&mut client.stream);
            if flushed.is_err() || (client.closing && client.output.waiting_bytes() == 0) {
                self.remove_client(place, now);
                return;
            }
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            client.half_closed |= event.is_read_closed() || event.is_error();
            self.read_client(place, now);
        }
    }

    /// Reads once. What is left is read in the next turn.
    fn read_client(&mut self, place: usize, now: Now) {
        let Some(client) = self.clients.get(place) else { return };
        if client.paused {
            client.unread = true;
            return;
        }
        if client.closing || client.leave_at.is_some() {
            return;
        }
        match client.stream.read(&mut self.buffer) {
            Ok(0) => self.on_client_end(place, now),
            Ok(count) => {
                client.unanswered = true;
                if count == self.buffer.len() || client.half_closed {
                    self.unread.push(place);
                }
                let connection = ConnectionId(client.connection);
                let received = Input::Received { connection, bytes: &self.buffer[..count] };
                self.node.step(now, received, &mut self.outbox);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => client.half_closed = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => self.unread.push(place),
            Err(_) => self.remove_client(place, now),
        }
    }

    /// The client sends nothing more. It may still want to read: `printf 'GET a\r\n' | nc` does.
    fn on_client_end(&mut self, place: usize, now: Now) {
        let Some(client) = self.clients.get(place) else { return };
        if client.unanswered || client.output.waiting_bytes() > 0 {
            client.leave_at = Some(now.time + LEAVE_TIMEOUT);
            self.leaving.push(client.connection);
        } else {
            self.remove_client(place, now);
        }
    }

    fn close_leaving(&mut self, now: Now) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.retain(|&connection| {
            let Some(place) = self.clients.place_of(connection) else { return false };
            let due = self.clients.get(place).and_then(|client| client.leave_at).is_some_and(|at| at <= now.time);
            if due {
                self.remove_client(place, now);
            }
            !due
        });
        self.leaving = leaving;
    }

    fn remove_client(&mut self, place: usize, now: Now) {
        if let Some(client) = self.clients.remove(place) {
            let closed = Input::Closed { connection: ConnectionId(client.connection) };
            self.node.step(now, closed, &mut self.outbox);
            self.unfinished = true;
        }
    }

    /// Step 3 of a turn. True if there was anything but progress of the disk.
    fn take_news(&mut self, now: Now) -> bool {
        let mut others = false;
        if self.requests.waiting() {
            others = true;
            let mut requests = std::mem::take(&mut self.taken_requests);
            self.requests.take(&mut requests);
            for request in requests.drain(..) {
                self.on_request(request, now);
            }
            self.taken_requests = requests;
        }
        if self.messenger.filled.swap(false, Ordering::SeqCst) {
            others = true;
            while let Ok(control) = self.controls.try_recv() {
                self.on_control(control, now);
            }
        }
        self.tell_persisted(now);
        others
    }

    fn tell_persisted(&mut self, now: Now) {
        let persisted = self.journal.persisted();
        if persisted > self.persisted {
            self.persisted = persisted;
            self.node.step(now, Input::Persisted { number: persisted }, &mut self.outbox);
        }
    }

    fn on_request(&mut self, request: Request, now: Now) {
        match request {
            Request::Open { connection, description, line } => {
                self.virtual_clients.insert(connection, line);
                let local_address = self.http_address.clone();
                let connection = ConnectionId(connection);
                let opened = Input::Opened { connection, address: description, local_address };
                self.node.step(now, opened, &mut self.outbox);
            }
            Request::Send { connection, bytes } => {
                if let Some(line) = self.virtual_clients.get(&connection) {
                    line.consumed(bytes.len());
                    let received = Input::Received { connection: ConnectionId(connection), bytes: &bytes };
                    self.node.step(now, received, &mut self.outbox);
                }
            }
            Request::Close { connection } => self.remove_virtual(connection, now),
        }
    }

    fn remove_virtual(&mut self, connection: u64, now: Now) {
        if self.virtual_clients.remove(&connection).is_some() {
            self.node.step(now, Input::Closed { connection: ConnectionId(connection) }, &mut self.outbox);
            self.unfinished = true;
        }
    }

    fn on_control(&mut self, control: Control, now: Now) {
        match control {
            Control::Stop => {
                log::info("stopping: handing over");
                self.stop_at.get_or_insert(now.time + STOP_TIMEOUT);
                self.node.step(now, Input::Stop, &mut self.outbox);
            }
            Control::DiskFull(full) => {
                if full {
                    log::error(&format!(
                        "no room left on the disk of {}: this node takes no writes until there is room again; \
                         reads go on. Free some space or enlarge the disk",
                        self.disk.path().display()
                    ));
                }
                self.node.step(now, Input::DiskFull(full), &mut self.outbox);
            }
            Control::Snapshot(position, Ok(())) => {
                self.node.step(now, Input::SnapshotSaved { position }, &mut self.outbox);
            }
            Control::Snapshot(position, Err(error)) => {
                log::warning(&format!("the snapshot at {position} could not be written: {error}"));
                let failed = Input::SnapshotFailed { position, reason: error.to_string() };
                self.node.step(now, failed, &mut self.outbox);
            }
            Control::Resolved(peer, address) => {
                self.peers.dial_address(peer, address, self.poll.registry(), now.time);
            }
        }
    }

    /// Step 4 of a turn.
    fn end_turn(&mut self, now: Now) {
        self.outbox.wake_at = None;
        self.node.step(now, Input::EndTurn, &mut self.outbox);
        self.wake_at = self.outbox.wake_at.take();
    }

    /// Step 5 of a turn. Whatever the node says to closings on the way is for the next turn.
    fn carry_out(&mut self, now: Now, quiet: bool) {
        for (level, text) in self.outbox.events.drain(..) {
            log::line(level, &text);
        }
        let mut for_peers = std::mem::take(&mut self.outbox.peers);
        if !for_peers.is_empty() {
            let EventLoop { node, outbox, peers, .. } = self;
            let mut stepped = false;
            for (peer, bytes) in for_peers.drain(..) {
                peers.send(peer, bytes, now.time, &mut |input| {
                    stepped = true;
                    node.step(now, input, outbox);
                });
            }
            self.unfinished |= stepped;
        }
        give_back(&mut self.outbox.peers, for_peers);

        let commit_here = quiet
            && self.commit_here
            && self.journal.is_quick()
            && self.outbox.journal.len() == 1
            && self.outbox.journal[0].payload.len() <= COMMIT_HERE_BYTES_MAX
            && self.outbox.discard_journal_before.is_none();
        if !commit_here {
            self.journal.submit(&mut self.outbox.journal, self.outbox.discard_journal_before.take());
        }
        if let Some(job) = self.outbox.save_snapshot.take() {
            self.save_snapshot(job);
        }
        self.write_replies(now);
        self.pause_and_close(now);
        if commit_here {
            self.unfinished |= self.journal.commit_here(&mut self.outbox.journal);
        }
    }

    fn write_replies(&mut self, now: Now) {
        let mut replies = std::mem::take(&mut self.outbox.clients);
        for (ConnectionId(connection), bytes) in replies.drain(..) {
            let Some(place) = self.clients.place_of(connection) else {
                let unread = self.virtual_clients.get(&connection).map_or(0, |line| line.reply(bytes.into()));
                if unread > CONNECTION_OUTPUT_BYTES_MAX {
                    log::warning(&format!("HTTP connection {connection} was cut off: it does not read its replies"));
                    self.remove_virtual(connection, now);
                }
                continue;
            };
            let Some(client) = self.clients.get(place) else { continue };
            client.unanswered = false;
            if client.leave_at.is_some() {
                client.leave_at = Some(now.time + LEAVE_AFTER_REPLY);
            }
            let sent = client.output.send(&mut client.stream, bytes);
            let unread = client.output.waiting_bytes();
            if unread > CONNECTION_OUTPUT_BYTES_MAX {
                log::warning(&format!(
                    "client connection {connection} was cut off: it left {unread} bytes of replies unread"
                ));
            }
            if sent.is_err() || unread > CONNECTION_OUTPUT_BYTES_MAX {
                self.remove_client(place, now);
            }
        }
        give_back(&mut self.outbox.clients, replies);
    }

    fn pause_and_close(&mut self, now: Now) {
        let mut pauses = std::mem::take(&mut self.outbox.pause);
        for (ConnectionId(connection), paused) in pauses.drain(..) {
            let Some(place) = self.clients.place_of(connection) else {
                if let Some(line) = self.virtual_clients.get(&connection) {
                    line.pause(paused);
                }
                continue;
            };
            let Some(client) = self.clients.get(place) else { continue };
            client.paused = paused;
            if !paused && std::mem::take(&mut client.unread) {
                self.unread.push(place);
            }
        }
        give_back(&mut self.outbox.pause, pauses);

        let mut closings = std::mem::take(&mut self.outbox.close);
        for ConnectionId(connection) in closings.drain(..) {
            let Some(place) = self.clients.place_of(connection) else {
                self.remove_virtual(connection, now);
                continue;
            };
            let Some(client) = self.clients.get(place) else { continue };
            client.closing = true;
            if client.output.waiting_bytes() == 0 {
                self.remove_client(place, now);
            }
        }
        give_back(&mut self.outbox.close, closings);
    }

    fn save_snapshot(&mut self, job: SnapshotJob) {
        let position = job.position;
        let (disk, messenger) = (self.disk.clone(), self.messenger.clone());
        let started = thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
            messenger.tell(Control::Snapshot(position, snapshots::write(&disk, job)));
        });
        if let Err(error) = started {
            self.messenger.tell(Control::Snapshot(position, Err(error)));
        }
    }

    /// Sends what still waits, as far as the others take it in time.
    fn flush_all(&mut self, events: &mut Events) -> io::Result<()> {
        let end = self.clock.now().time + FLUSH_TIMEOUT;
        if !self.virtual_clients.is_empty() {
            // The HTTP thread has its last replies in hand and is about to write them.
            thread::sleep(Duration::from_millis(20));
        }
        loop {
            let now = self.clock.now().time;
            let waiting = self.clients.iter().map(|client| client.output.waiting_bytes()).sum::<usize>()
                + self.peers.waiting_bytes();
            if waiting == 0 || now >= end {
                return Ok(());
            }
            self.poll.poll(events, Some(end.since(now)))?;
            for event in events.iter() {
                if let Some(place) = event.token().0.checked_sub(FIRST_CLIENT)
                    && let Some(client) = self.clients.get(place)
                    && client.output.flush(&mut client.stream).is_err()
                {
                    self.clients.remove(place);
                } else if let Some(place) = event.token().0.checked_sub(FIRST_LINK) {
                    self.peers.on_event(place, event, &mut self.buffer, now, &mut |_| ());
                }
            }
        }
    }
}

/// Puts an emptied list back, so that its memory is used again, unless new items have come in the meantime.
fn give_back<T>(list: &mut Vec<T>, emptied: Vec<T>) {
    if list.is_empty() {
        *list = emptied;
    }
}
