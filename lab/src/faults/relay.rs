//! A network between nodes on one machine that can be cut and slowed down without root: every link between two nodes goes through here.
//!
//! ```text
//!  n1 ──dials──► relay(n1, n2) ──dials──► n2       n1's --cluster names the relay's address for n2
//! ```
//! Of two nodes the lower one dials (server/src/event_loop/peers.rs), so one relay stands for each pair; its two directions are closed and
//! delayed each by itself. One thread moves all bytes. What a closed direction means:
//! - Bytes stay where they are, as those of a lost packet do that the kernel sends again; nothing is torn out of the middle of a stream.
//! - The end of a connection is not told either: not to the other node, until the direction is open again.
//! - A connection that is opened meanwhile comes to nothing.
//! - When the direction opens, a connection goes on unless one side has given it up, or it was closed for longer than the
//!   [`UNACKNOWLEDGED_MAX`] after which Dictum's nodes let the kernel give a link up.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token, Waker};

/// How long bytes on a link may stay unacknowledged: as in server/src/event_loop/peers.rs.
pub const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);
/// Most bytes that wait in the relay in one direction of one connection; beyond, the sender's kernel holds them.
const QUEUE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes read at once.
const READ_BYTES: usize = 256 * 1024;
/// Most connections at a time. Nodes that are cut off dial again and again; the oldest that lead nowhere are closed.
const CONNECTIONS_MAX: usize = 256;
/// Events taken at once.
const EVENTS_MAX: usize = 256;
/// How long it is waited for the thread to take a change.
const CHANGE_PATIENCE: Duration = Duration::from_secs(5);
/// Longest delay of a message.
pub const DELAY_MAX: Duration = Duration::from_secs(60);

const WAKE: Token = Token(usize::MAX);

/// One direction of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Whether anything gets through.
    pub open: bool,
    /// How much later it arrives, at most [`DELAY_MAX`].
    pub delay: Duration,
}

impl Default for Way {
    /// Open, without delay.
    fn default() -> Way {
        Way { open: true, delay: Duration::ZERO }
    }
}

/// The relays of one cluster. They end when this is dropped.
#[derive(Debug)]
pub struct Relays {
    /// The lower node, the higher one, and where the lower one dials.
    pairs: Vec<(usize, usize, SocketAddr)>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The thread has taken changes.
    taken: Condvar,
    ending: AtomicBool,
    waker: Waker,
}

#[derive(Debug)]
struct State {
    /// Of each pair: from the lower node to the higher one, and back.
    ways: Vec<[Way; 2]>,
    /// How many changes were made, and how many of them hold.
    made: u64,
    holding: u64,
}

impl Relays {
    /// A relay for each pair of nodes that listen for each other at these addresses, by number.
    ///
    /// # Errors
    /// When there are no ports, files or threads.
    pub fn start(nodes: &[SocketAddr]) -> io::Result<Relays> {
        Relays::start_at(Ipv4Addr::LOCALHOST.into(), nodes)
    }

    /// The same at another address of this machine, for nodes that do not share its loopback.
    ///
    /// # Errors
    /// As [`Relays::start`].
    pub fn start_at(place: IpAddr, nodes: &[SocketAddr]) -> io::Result<Relays> {
        let poll = Poll::new()?;
        let (mut pairs, mut relays) = (Vec::new(), Vec::new());
        for low in 0..nodes.len() {
            for (high, target) in nodes.iter().enumerate().skip(low + 1) {
                let mut listener = TcpListener::bind(SocketAddr::new(place, 0))?;
                poll.registry().register(&mut listener, Token(relays.len()), Interest::READABLE)?;
                pairs.push((low, high, listener.local_addr()?));
                relays.push((listener, *target));
            }
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(State { ways: vec![[Way::default(); 2]; pairs.len()], made: 0, holding: 0 }),
            taken: Condvar::new(),
            ending: AtomicBool::new(false),
            waker: Waker::new(poll.registry(), WAKE)?,
        });
        let mover = Mover {
            poll,
            ways: vec![[Way::default(); 2]; relays.len()],
            relays,
            connections: Vec::new(),
            buffer: vec![0; READ_BYTES],
            closed_since: vec![None; pairs.len()],
        };
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("relays".to_owned()).spawn(move || mover.run(&of_thread))?;
        Ok(Relays { pairs, shared, thread: Some(thread) })
    }

    /// The address at which node `from` is to dial node `to`; `None` if it is `to` that dials.
    #[must_use]
    pub fn address(&self, from: usize, to: usize) -> Option<SocketAddr> {
        self.pairs.iter().find(|(low, high, _)| (*low, *high) == (from, to)).map(|(_, _, address)| *address)
    }

    /// Changes what node `from` sends to node `to`; returns when that holds. Nothing if they are not both nodes.
    pub fn change(&self, from: usize, to: usize, change: impl FnOnce(&mut Way)) {
        let (low, high) = (from.min(to), from.max(to));
        let Some(pair) = self.pairs.iter().position(|(a, b, _)| (*a, *b) == (low, high)) else { return };
        let mut state = self.shared.lock();
        let way = &mut state.ways[pair][usize::from(from > to)];
        change(way);
        way.delay = way.delay.min(DELAY_MAX);
        self.wait(state);
    }

    /// Changes all directions of all pairs; returns when that holds.
    pub fn change_all(&self, mut change: impl FnMut(&mut Way)) {
        let mut state = self.shared.lock();
        for way in state.ways.iter_mut().flatten() {
            change(way);
            way.delay = way.delay.min(DELAY_MAX);
        }
        self.wait(state);
    }

    /// Waits until the thread has taken what was changed. It does so at once, unless the machine keeps it from the processor.
    fn wait(&self, mut state: MutexGuard<'_, State>) {
        state.made += 1;
        let (made, end) = (state.made, Instant::now() + CHANGE_PATIENCE);
        self.wake();
        while state.holding < made {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.shared.taken.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn wake(&self) {
        // Cannot fail on an eventfd that is read; and a relay that did not hear would show in what is measured.
        let _ = self.shared.waker.wake();
    }
}

impl Drop for Relays {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's own.
struct Mover {
    poll: Poll,
    /// Where the lower node dials, and where the higher one listens.
    relays: Vec<(TcpListener, SocketAddr)>,
    ways: Vec<[Way; 2]>,
    /// Since when a direction of the pair has been closed.
    closed_since: Vec<Option<Instant>>,
    connections: Vec<Option<Connection>>,
    buffer: Vec<u8>,
}

/// A connection from a lower node to a higher one.
struct Connection {
    pair: usize,
    /// The lower node's end and the higher one's; the latter is there once it was dialled.
    ends: [Option<TcpStream>; 2],
    /// From the lower node to the higher one, and back.
    flows: [Flow; 2],
    /// One end is gone, which the other must not hear while a direction is closed.
    over: bool,
    opened: Instant,
}

#[derive(Default)]
struct Flow {
    /// The sender's socket may hold something.
    readable: bool,
    /// The receiver's socket takes something.
    writable: bool,
    /// What is on its way: when it arrives, the bytes, and how many of them are sent.
    queue: VecDeque<(Instant, Vec<u8>, usize)>,
    queued_bytes: usize,
    /// The sender has ended.
    ended: bool,
}

impl Mover {
    fn run(mut self, shared: &Shared) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !shared.ending.load(Ordering::SeqCst) {
            let timeout = self.next_arrival().map(|at| at.saturating_duration_since(Instant::now()));
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != ErrorKind::Interrupted
            {
                return;
            }
            // First: whoever has cut a direction and then does something to a node does it to one that is cut off.
            if events.iter().any(|event| event.token() == WAKE) {
                self.take_changes(shared);
            }
            for event in &events {
                match event.token() {
                    WAKE => {}
                    Token(pair) if pair < self.relays.len() => self.accept(pair),
                    Token(number) => self.note(number - self.relays.len(), event),
                }
            }
            for place in 0..self.connections.len() {
                self.pump(place);
            }
        }
    }

    /// When the next bytes are due that wait for nothing but the time.
    fn next_arrival(&self) -> Option<Instant> {
        let flows = self.connections.iter().flatten().filter(|connection| !connection.over).flat_map(|connection| {
            let ways = &self.ways[connection.pair];
            connection.flows.iter().zip(ways).filter(|(flow, way)| way.open && flow.writable).map(|(flow, _)| flow)
        });
        flows.filter_map(|flow| flow.queue.front().map(|(at, _, _)| *at)).min()
    }

    fn take_changes(&mut self, shared: &Shared) {
        let mut state = shared.lock();
        let ways = state.ways.clone();
        let now = Instant::now();
        for (pair, ways) in ways.iter().enumerate() {
            let open = ways.iter().all(|way| way.open);
            let since = &mut self.closed_since[pair];
            match (open, *since) {
                (false, None) => *since = Some(now),
                (true, Some(closed)) => {
                    *since = None;
                    let was_long = now.duration_since(closed) >= UNACKNOWLEDGED_MAX;
                    self.reopen(pair, was_long);
                }
                _ => {}
            }
        }
        self.ways = ways;
        state.holding = state.made;
        drop(state);
        shared.taken.notify_all();
    }

    /// All of a pair is open again.
    fn reopen(&mut self, pair: usize, was_long: bool) {
        for place in 0..self.connections.len() {
            let Some(connection) = &self.connections[place] else { continue };
            if connection.pair != pair {
                continue;
            }
            let given_up = connection.over || was_long && connection.ends[1].is_some();
            if given_up || connection.ends[1].is_none() && self.dial(place).is_err() {
                self.connections[place] = None;
            }
        }
    }

    fn accept(&mut self, pair: usize) {
        while let Ok((stream, _)) = self.relays[pair].0.accept() {
            let _ = stream.set_nodelay(true);
            let place = self.free_place();
            let connection = Connection {
                pair,
                ends: [Some(stream), None],
                flows: [Flow::default(), Flow::default()],
                over: false,
                opened: Instant::now(),
            };
            self.connections[place] = Some(connection);
            let registered = self.register(place, 0);
            let open = self.closed_since[pair].is_none();
            if registered.is_err() || open && self.dial(place).is_err() {
                self.connections[place] = None;
            }
        }
    }

    /// A place for another connection: the oldest one's if there are too many.
    fn free_place(&mut self) -> usize {
        if let Some(place) = self.connections.iter().position(Option::is_none) {
            return place;
        }
        if self.connections.len() < CONNECTIONS_MAX {
            self.connections.push(None);
            return self.connections.len() - 1;
        }
        let opened = |place: &usize| self.connections[*place].as_ref().map(|connection| connection.opened);
        (0..self.connections.len()).min_by_key(opened).unwrap_or(0)
    }

    fn dial(&mut self, place: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[place] else { return Ok(()) };
        let stream = TcpStream::connect(self.relays[connection.pair].1)?;
        connection.ends[1] = Some(stream);
        self.register(place, 1)
    }

    fn register(&mut self, place: usize, end: usize) -> io::Result<()> {
        let token = Token(self.relays.len() + 2 * place + end);
        let registry: &Registry = self.poll.registry();
        match self.connections[place].as_mut().and_then(|connection| connection.ends[end].as_mut()) {
            Some(stream) => registry.register(stream, token, Interest::READABLE | Interest::WRITABLE),
            None => Ok(()),
        }
    }

    /// Takes note of what a socket is ready for. An event of a connection that is gone does no harm: sockets are tried, not trusted.
    fn note(&mut self, number: usize, event: &Event) {
        let (place, end) = (number / 2, number % 2);
        let Some(connection) = self.connections.get_mut(place).and_then(Option::as_mut) else { return };
        if event.is_readable() || event.is_read_closed() {
            connection.flows[end].readable = true;
        }
        if event.is_writable()
            && let Some(stream) = &connection.ends[end]
        {
            // The dialled end is connected now, or never will be.
            let connected = matches!(stream.take_error(), Ok(None)) && stream.peer_addr().is_ok();
            let _ = stream.set_nodelay(true);
            connection.flows[1 - end].writable |= connected;
        }
        let closed = self.closed_since[connection.pair].is_some();
        // While bytes still come, their reader finds the end behind them; while they cannot, only the event tells of it.
        connection.over |= event.is_error() || closed && event.is_read_closed();
    }

    fn pump(&mut self, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        let ways = self.ways[connection.pair];
        for direction in [0, 1] {
            if ways[direction].open && !connection.over {
                connection.over = connection.move_bytes(direction, ways[direction].delay, &mut self.buffer).is_err();
            }
        }
        if connection.over && self.closed_since[connection.pair].is_none() {
            self.connections[place] = None;
        }
    }
}

impl Connection {
    /// Moves what can be moved in one direction; an error when the connection is over.
    fn move_bytes(&mut self, direction: usize, delay: Duration, buffer: &mut [u8]) -> io::Result<()> {
        let [lower, higher] = &mut self.ends;
        let (from, to) = if direction == 0 { (lower, higher) } else { (higher, lower) };
        let flow = &mut self.flows[direction];
        loop {
            if let Some(to) = to {
                flow.send(to)?;
            }
            if flow.ended && flow.queue.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let Some(from) = from else { return Ok(()) };
            if !flow.readable || flow.ended || flow.queued_bytes >= QUEUE_BYTES_MAX {
                return Ok(());
            }
            match from.read(buffer) {
                Ok(0) => flow.ended = true,
                Ok(count) => {
                    flow.queue.push_back((Instant::now() + delay, buffer[..count].to_vec(), 0));
                    flow.queued_bytes += count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => flow.readable = false,
                Err(error) if error.kind() == ErrorKind::NotConnected => flow.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Flow {
    /// Sends what is due, as far as the receiver takes it.
    fn send(&mut self, to: &mut TcpStream) -> io::Result<()> {
        while self.writable
            && let Some((at, bytes, sent)) = self.queue.front_mut()
            && *at <= Instant::now()
        {
            match to.write(&bytes[*sent..]) {
                Ok(count) => {
                    *sent += count;
                    self.queued_bytes -= count;
                    if *sent == bytes.len() {
                        self.queue.pop_front();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
