//! Porters: threads that carry bytes between clients' sockets and the loop, where a machine has processors for them.
//!
//! Half of what a node does for commands that come one by one is reading and writing sockets. A porter has the sockets of its clients, reads what is ready into one
//! batch, and writes what the loop has for them; the loop keeps the node, the links to peers and the order of everything. Both sides batch by turn, and neither waits
//! for the other:
//!
//! ```text
//!  porter ── arrivals (bytes, ends) ──► loop ──► node
//!  porter ◄── deeds (replies, …) ────── loop
//! ```
//! - A connection stays with the porter that it was given at its beginning, so what comes from it comes in order, and what goes to it.
//! - What lies in each direction has a limit. A porter whose arrivals are not taken reads no more, so that clients' sockets fill up. A loop whose deeds are not
//!   taken waits: as it would if it wrote them itself.
//! - The loop may pause or close a connection when a batch with its bytes is on its way. The node knows bytes behind a pause (it keeps them) and behind a close (it
//!   drops them).
//!
//! Why so, and why nothing else is spread over threads: docs/decisions/2026-11-25-io-threads.md.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::Time;
use mio::net::TcpStream;
use mio::{Events, Poll, Token};
use node::{ConnectionId, Input};

use super::client_handshakes::ClientDoor;
use super::clients::NumberHasher;
use super::sockets::{Deed, Sockets};
use super::{EVENTS_MAX, READ_BYTES, Step};
use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::log;

const ALARM: Token = Token(0);
const FIRST_CLIENT: usize = 1;
/// A porter reads nothing while so many bytes of its clients wait for the loop, and in one turn no more than that, and a buffer.
const ARRIVED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The loop waits while so many bytes of replies wait for a porter. One turn's replies may come on top.
const DEEDS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How often a porter looks after clients that leave much unread, if nothing else happens.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The loop's end.
pub(super) struct Porters {
    list: Vec<Porter>,
    /// Who has which connection.
    by_connection: HashMap<u64, usize, BuildHasherDefault<NumberHasher>>,
    /// Emptied, to be exchanged for what has arrived.
    spare: Arrivals,
}

/// One of them, as the loop knows it.
struct Porter {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
    /// For the desk at the end of the turn.
    deeds: Vec<(u64, Task)>,
    bytes: usize,
    connections: usize,
}

/// What lies between the loop and a porter.
struct Desk {
    arrivals: Mutex<Arrivals>,
    /// Whether there are arrivals: lets the loop look without a lock.
    has_arrivals: AtomicBool,
    tasks: Mutex<Tasks>,
    /// The same for the porter.
    has_tasks: AtomicBool,
    /// Tasks were taken.
    taken: Condvar,
    of_loop: Arc<Alarm>,
    of_porter: Alarm,
}

/// What sockets have brought, in order.
#[derive(Default)]
struct Arrivals {
    list: Vec<(ConnectionId, Arrival)>,
    /// Those of all of them, one behind the other.
    bytes: Vec<u8>,
    /// The porter has stopped reading until these are taken.
    held: bool,
}

enum Arrival {
    /// So many of the bytes.
    Received(usize),
    /// As [`Input::Ended`].
    Ended {
        all_read: bool,
    },
    /// As [`Input::Unread`].
    Unread {
        bytes: usize,
        blocks: usize,
    },
    Closed,
}

#[derive(Default)]
struct Tasks {
    list: Vec<(u64, Task)>,
    bytes: usize,
    /// The process ends: write what is there until then, and end.
    finish_by: Option<Time>,
}

enum Task {
    /// A new connection.
    Serve(TcpStream),
    Do(Deed),
}

impl Porters {
    /// Starts so many, maybe none.
    pub(super) fn start(
        count: usize,
        clock: Clock,
        of_loop: &Arc<Alarm>,
        door: Option<&ClientDoor>,
    ) -> io::Result<Porters> {
        let start = |number: usize| {
            let poll = Poll::new()?;
            let of_porter = Alarm::new(poll.registry(), ALARM)?;
            let desk = Arc::new(Desk {
                arrivals: Mutex::default(),
                has_arrivals: AtomicBool::new(false),
                tasks: Mutex::default(),
                has_tasks: AtomicBool::new(false),
                taken: Condvar::new(),
                of_loop: Arc::clone(of_loop),
                of_porter,
            });
            let own = Own {
                sockets: Sockets::new(FIRST_CLIENT, poll.registry(), door.cloned())?,
                poll,
                clock,
                desk: Arc::clone(&desk),
                buffer: vec![0; READ_BYTES],
                batch: Arrivals::default(),
                tasks: Vec::new(),
                held: false,
            };
            let thread = thread::Builder::new().name(format!("porter-{}", number + 1)).spawn(move || own.run())?;
            Ok(Porter { desk, thread: Some(thread), deeds: Vec::new(), bytes: 0, connections: 0 })
        };
        let list = (0..count).map(start).collect::<io::Result<Vec<Porter>>>()?;
        Ok(Porters { list, by_connection: HashMap::default(), spare: Arrivals::default() })
    }

    pub(super) fn any(&self) -> bool {
        !self.list.is_empty()
    }

    /// How many connections they have, all together.
    pub(super) fn count(&self) -> usize {
        self.by_connection.len()
    }

    /// Gives a new connection to whoever has the fewest.
    pub(super) fn insert(&mut self, stream: TcpStream, connection: u64) {
        let places = self.list.iter_mut().enumerate();
        let Some((place, porter)) = places.min_by_key(|(_, porter)| porter.connections) else { return };
        porter.connections += 1;
        porter.deeds.push((connection, Task::Serve(stream)));
        self.by_connection.insert(connection, place);
    }

    /// For the connection's porter, at the end of the turn.
    pub(super) fn give(&mut self, connection: u64, deed: Deed) {
        let Some(porter) = self.by_connection.get(&connection).and_then(|place| self.list.get_mut(*place)) else {
            return;
        };
        if let Deed::Reply(bytes) = &deed {
            porter.bytes += bytes.len();
        }
        porter.deeds.push((connection, Task::Do(deed)));
    }

    /// Brings them what they were given in this turn. Waits for one that is far behind.
    pub(super) fn hand_over(&mut self) {
        for porter in &mut self.list {
            if porter.deeds.is_empty() {
                continue;
            }
            let desk = &porter.desk;
            let mut tasks = lock(&desk.tasks);
            while tasks.bytes > DEEDS_BYTES_MAX {
                tasks = desk.taken.wait(tasks).unwrap_or_else(PoisonError::into_inner);
            }
            tasks.list.append(&mut porter.deeds);
            tasks.bytes += std::mem::take(&mut porter.bytes);
            desk.has_tasks.store(true, Ordering::SeqCst);
            drop(tasks);
            desk.of_porter.ring();
        }
    }

    /// Whether [`Porters::take`] would yield anything.
    pub(super) fn waiting(&self) -> bool {
        self.list.iter().any(|porter| porter.desk.has_arrivals.load(Ordering::SeqCst))
    }

    /// Gives what has arrived to the node. How many arrivals that were.
    pub(super) fn take(&mut self, step: &mut Step<'_>) -> usize {
        let mut count = 0;
        for porter in &mut self.list {
            if !porter.desk.has_arrivals.load(Ordering::SeqCst) {
                continue;
            }
            let mut arrivals = lock(&porter.desk.arrivals);
            porter.desk.has_arrivals.store(false, Ordering::SeqCst);
            std::mem::swap(&mut *arrivals, &mut self.spare);
            drop(arrivals);
            let Arrivals { list, bytes, held } = &mut self.spare;
            count += list.len();
            let mut rest = &bytes[..];
            for (connection, arrival) in list.drain(..) {
                match arrival {
                    Arrival::Received(length) => {
                        let (received, others) = rest.split_at(length);
                        rest = others;
                        step(Input::Received { connection, bytes: received });
                    }
                    Arrival::Unread { bytes, blocks } => step(Input::Unread { connection, bytes, blocks }),
                    Arrival::Ended { all_read } => step(Input::Ended { connection, all_read }),
                    Arrival::Closed => {
                        if self.by_connection.remove(&connection.0).is_some() {
                            porter.connections -= 1;
                        }
                        step(Input::Closed { connection });
                    }
                }
            }
            bytes.clear();
            if std::mem::take(held) {
                porter.desk.of_porter.ring();
            }
        }
        count
    }

    /// They shall write what they have, until then at most, and end.
    pub(super) fn finish(&mut self, by: Time) {
        self.hand_over();
        for porter in &self.list {
            lock(&porter.desk.tasks).finish_by = Some(by);
            porter.desk.has_tasks.store(true, Ordering::SeqCst);
            porter.desk.of_porter.ring();
        }
    }

    /// Waits until they have ended, after [`Porters::finish`].
    pub(super) fn join(&mut self) {
        for thread in self.list.iter_mut().filter_map(|porter| porter.thread.take()) {
            if thread.join().is_err() {
                log::error("a thread that serves clients' sockets has failed");
            }
        }
    }
}

/// Nothing that runs under these locks can panic half way through a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a porter has in its thread.
struct Own {
    poll: Poll,
    clock: Clock,
    desk: Arc<Desk>,
    sockets: Sockets,
    buffer: Vec<u8>,
    /// What has arrived in this turn.
    batch: Arrivals,
    /// Emptied, to be exchanged for what there is to do.
    tasks: Vec<(u64, Task)>,
    /// The loop has not taken what there is: nothing is read.
    held: bool,
}

impl Own {
    fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            if let Err(error) = self.sleep(&mut events) {
                log::error(&format!("clients' sockets cannot be polled: {error}"));
                std::process::abort();
            }
            let now = self.clock.now().time;
            if let Some(end) = self.do_tasks(now) {
                return self.finish(&mut events, end);
            }
            self.take_sockets(&events, now);
            self.hand_over();
        }
    }

    fn sleep(&mut self, events: &mut Events) -> io::Result<()> {
        let now = self.clock.now().time;
        let look_at = self.sockets.has_slow().then_some(now + LOOK_EVERY);
        let due = [self.sockets.next_leaving(), look_at].into_iter().flatten().min();
        let mut timeout = due.map(|at| at.since(now));
        if self.sockets.has_unread() && !self.held {
            timeout = Some(Duration::ZERO);
        }
        if timeout != Some(Duration::ZERO) {
            self.desk.of_porter.going_to_sleep();
            let taken = self.held && !self.desk.has_arrivals.load(Ordering::SeqCst);
            if taken || self.desk.has_tasks.load(Ordering::SeqCst) {
                timeout = Some(Duration::ZERO);
            }
        }
        let polled = self.poll.poll(events, timeout);
        self.desk.of_porter.awake();
        match polled {
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            other => other,
        }
    }

    /// Does what the loop wants. When the process ends: until when there is time for that.
    fn do_tasks(&mut self, now: Time) -> Option<Time> {
        if !self.desk.has_tasks.load(Ordering::SeqCst) {
            return None;
        }
        let mut tasks = lock(&self.desk.tasks);
        self.desk.has_tasks.store(false, Ordering::SeqCst);
        std::mem::swap(&mut tasks.list, &mut self.tasks);
        if tasks.bytes > DEEDS_BYTES_MAX {
            self.desk.taken.notify_one();
        }
        tasks.bytes = 0;
        let finish_by = tasks.finish_by;
        drop(tasks);
        let Own { sockets, batch, tasks, .. } = self;
        for (connection, task) in tasks.drain(..) {
            match task {
                Task::Serve(stream) => {
                    if sockets.insert(stream, connection).is_err() {
                        batch.list.push((ConnectionId(connection), Arrival::Closed));
                    }
                }
                Task::Do(deed) => sockets.carry_out(connection, deed, now, &mut |input| batch.note(&input)),
            }
        }
        finish_by
    }

    fn take_sockets(&mut self, events: &Events, now: Time) {
        self.held &= self.desk.has_arrivals.load(Ordering::SeqCst);
        let Own { sockets, batch, buffer, held, .. } = self;
        let step: &mut Step<'_> = &mut |input| batch.note(&input);
        let most = if *held { 0 } else { ARRIVED_BYTES_MAX };
        let mut bytes = sockets.read_unread(buffer, most, now, step);
        for event in events.iter().filter(|event| event.token() != ALARM) {
            let buffer = (bytes < most).then_some(&mut buffer[..]);
            bytes += sockets.on_event(event, buffer, now, step);
        }
        sockets.close_leaving(now, step);
        sockets.cut_off_slow(now, step);
    }

    /// Brings the loop what has arrived.
    fn hand_over(&mut self) {
        if self.batch.list.is_empty() {
            return;
        }
        let mut arrivals = lock(&self.desk.arrivals);
        if arrivals.list.is_empty() {
            std::mem::swap(&mut *arrivals, &mut self.batch);
        } else {
            arrivals.list.append(&mut self.batch.list);
            arrivals.bytes.append(&mut self.batch.bytes);
        }
        arrivals.held = arrivals.bytes.len() > ARRIVED_BYTES_MAX;
        self.held = arrivals.held;
        self.desk.has_arrivals.store(true, Ordering::SeqCst);
        drop(arrivals);
        self.desk.of_loop.ring();
    }

    /// Goes on writing until all is written or the time is up.
    fn finish(mut self, events: &mut Events, end: Time) {
        loop {
            let now = self.clock.now().time;
            if self.sockets.waiting_bytes() == 0 || now >= end {
                self.sockets.say_goodbye();
                return;
            }
            if let Err(error) = self.poll.poll(events, Some(end.since(now)))
                && error.kind() != ErrorKind::Interrupted
            {
                return log::error(&format!("clients' sockets cannot be polled: {error}"));
            }
            events.iter().filter(|event| event.token() != ALARM).for_each(|event| self.sockets.flush(event));
        }
    }
}

impl Arrivals {
    fn note(&mut self, input: &Input<'_>) {
        match input {
            Input::Received { connection, bytes } => {
                self.bytes.extend_from_slice(bytes);
                self.list.push((*connection, Arrival::Received(bytes.len())));
            }
            Input::Ended { connection, all_read } => {
                self.list.push((*connection, Arrival::Ended { all_read: *all_read }));
            }
            Input::Unread { connection, bytes, blocks } => {
                self.list.push((*connection, Arrival::Unread { bytes: *bytes, blocks: *blocks }));
            }
            Input::Closed { connection } => self.list.push((*connection, Arrival::Closed)),
            // Sockets tell nothing else.
            other => debug_assert!(false, "{other:?} of a socket"),
        }
    }
}
