//! One thread of the load: its clients, its connections, its clock and its second.
//!
//! - this file: the loop, and when things are due;
//! - `flow`: an operation from its drawing to its end;
//! - `links`: connections, opened, read, written, lost;
//! - `client`: the small structs of both;
//! - `alarm`: waking up more exactly than `epoll` does; `share`: how busy the thread was.

mod alarm;
mod client;
mod flow;
mod links;
mod share;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use super::tally::Slice;
use super::{Load, Observed, Observer, Pacing};
use crate::draw::Arrivals;
use crate::drive::cluster::SlotMap;
use crate::workload::{Draft, Draw, Workload};
use alarm::Alarm;
use client::{Client, Connection, Flight};
use share::Share;

/// How often timeouts and reconnections are looked at.
const TICK: u64 = 20_000_000;
/// A schedule that is due within this is waited for awake: a timer would be no earlier.
const AWAKE: u64 = 25_000;
/// At most so much longer than the load are answers awaited at its end.
const DRAIN_MAX: u64 = 3_000_000_000;
/// Observed commands of one batch.
const BATCH: usize = 1_024;
/// The alarm's token; connections count from 0.
const ALARM: Token = Token(usize::MAX);
/// Bytes read at once.
const READ_BYTES: usize = 256 * 1024;

/// What the threads of one load share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Something went wrong that ends the load.
    pub abort: AtomicBool,
    /// When the last answer came, in nanoseconds since the origin.
    last_answer: AtomicU64,
    /// Operations that may still be started.
    left: AtomicI64,
}

impl Shared {
    pub(super) fn new(operations: Option<u64>) -> Shared {
        let left = operations.map_or(i64::MAX, |operations| i64::try_from(operations).unwrap_or(i64::MAX));
        Shared { abort: AtomicBool::new(false), last_answer: AtomicU64::new(0), left: AtomicI64::new(left) }
    }
}

pub(super) struct Worker<'a> {
    load: &'a Load,
    shared: &'a Shared,
    stop: &'a AtomicBool,
    observer: Option<Arc<dyn Observer>>,
    observed: Vec<Observed>,
    draw: Box<dyn Draw>,
    draft: Draft,
    map: Option<SlotMap>,

    thread: u32,
    /// When the cluster's map was last asked for.
    map_asked: u64,

    poll: Poll,
    alarm: Alarm,
    /// Numbered from 0; a client's first connection has the client's place.
    connections: Vec<Connection>,
    clients: Vec<Client>,
    /// Operations under way, and free places among them.
    flights: Vec<Flight>,
    flights_free: Vec<u32>,
    under_way: usize,
    /// Connections with something to write.
    dirty: Vec<usize>,
    /// Clients that lost operations with a connection, and may begin others at the next tick.
    refill: Vec<usize>,
    input: Vec<u8>,
    /// How often clients had been called back at the last look.
    recalled: u64,

    arrivals: Option<Arrivals>,
    /// When the next operation is due.
    due_next: u64,
    /// What the alarm is set for.
    alarm_for: u64,
    /// Intended starts of operations that wait for a free client.
    due: VecDeque<u64>,
    due_max: usize,
    /// Free places of clients, and since when: an open loop takes the one that has been free for longest.
    free: VecDeque<(u32, u64)>,
    /// Whether the load has begun: until then connections are only opened.
    started: bool,
    /// No operation is begun any longer: the workload has no more, or so many as were asked for have begun.
    exhausted: bool,
    draining: bool,

    origin: Instant,
    /// From the epoch of observed commands to the origin.
    epoch_offset: u64,
    slice: Slice,
    slice_from: u64,
    share: Share,
    failure: Option<String>,
}

impl<'a> Worker<'a> {
    #[allow(clippy::too_many_arguments, reason = "one call, in load::run")]
    pub(super) fn new(
        load: &'a Load,
        workload: &dyn Workload,
        map: Option<SlotMap>,
        observer: Option<Arc<dyn Observer>>,
        thread: u32,
        threads: u32,
        shared: &'a Shared,
        stop: &'a AtomicBool,
    ) -> Result<Worker<'a>, String> {
        let seed = load.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(thread));
        let arrivals = match load.pacing {
            Pacing::Closed => None,
            Pacing::Open { rate, arrivals } => Some(Arrivals::of_client(arrivals, rate, thread, threads, load.seed)?),
        };
        let poll = Poll::new().map_err(|error| format!("the system gives no epoll: {error}"))?;
        let alarm = Alarm::new(poll.registry(), ALARM)?;
        // Client numbers are those of the whole load: thread t of n has t, t + n, t + 2n …
        let clients: Vec<Client> = (thread..load.clients).step_by(threads as usize).map(Client::new).collect();
        Ok(Worker {
            load,
            shared,
            stop,
            observer,
            observed: Vec::new(),
            draw: workload.draw(seed)?,
            draft: Draft::default(),
            map,
            thread,
            map_asked: 0,
            poll,
            alarm,
            connections: Vec::new(),
            clients,
            flights: Vec::new(),
            flights_free: Vec::new(),
            under_way: 0,
            dirty: Vec::new(),
            refill: Vec::new(),
            input: vec![0; READ_BYTES],
            recalled: load.recall.count(),
            arrivals,
            due_next: u64::MAX,
            alarm_for: u64::MAX,
            due: VecDeque::new(),
            due_max: load.queue_max / threads as usize + 1,
            free: VecDeque::new(),
            started: false,
            exhausted: false,
            draining: false,
            origin: Instant::now(),
            epoch_offset: 0,
            slice: Slice::new(0, workload.kinds().len(), load.pacing != Pacing::Closed),
            slice_from: 0,
            share: Share::new(),
            failure: None,
        })
    }

    /// Nanoseconds since the origin.
    #[inline]
    fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Opens every client's first connection, and waits until all are open or the timeout has passed.
    ///
    /// # Errors
    /// A sentence, if not one could be opened.
    pub(super) fn connect(&mut self) -> Result<(), String> {
        for place in 0..self.clients.len() {
            let node = self.first_node(self.clients[place].number);
            self.add_connection(place, node);
        }
        let deadline = self.now() + self.load.timeout.as_nanos() as u64;
        let mut events = Events::with_capacity(1_024);
        while self.failure.is_none() && self.now() < deadline && !self.connections.iter().all(Connection::is_open) {
            self.poll_once(&mut events, Some(Duration::from_millis(5)))?;
            let now = self.now();
            for event in &events {
                self.ready(event, now);
            }
            self.tick(now);
            if self.shared.abort.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        // Another thread that could not go on says why.
        let given_up = self.stop.load(Ordering::Relaxed) || self.shared.abort.load(Ordering::Relaxed);
        if !self.connections.iter().any(Connection::is_open) && !given_up {
            let said: Vec<&str> = self.slice.errors.keys().map(String::as_str).collect();
            return Err(format!("{} cannot be reached: {}. Is the server running?", self.load.target, said.join(", ")));
        }
        Ok(())
    }

    /// Sends the load from `origin` on, and a slice for each second. Returns when it is over.
    ///
    /// # Errors
    /// A sentence, if the load cannot go on.
    pub(super) fn work(mut self, origin: Instant, slices: &Sender<(Slice, f64)>) -> Result<(), String> {
        // What happened while connecting is no part of the load; connections' times are moved to the new origin.
        let before = self.origin;
        self.origin = origin;
        self.epoch_offset = origin.saturating_duration_since(self.load.epoch).as_nanos() as u64;
        self.moved_origin(origin.saturating_duration_since(before).as_nanos() as u64);
        self.slice = Slice::new(0, self.slice.kinds.len(), self.arrivals.is_some());
        self.share.restart();

        let total = f64::from(self.load.warm_up) + self.load.seconds;
        let end = if total.is_finite() { (total * 1e9) as u64 } else { u64::MAX };
        let mut drain_until = u64::MAX;
        self.begin();
        let mut events = Events::with_capacity(1_024);
        let mut next_tick = TICK;
        loop {
            let now = self.now();
            self.turn_seconds(now, end, slices);
            let done = self.exhausted && self.under_way == 0;
            let over = now >= end || done || self.stop.load(Ordering::Relaxed);
            if !self.draining && (over || self.shared.abort.load(Ordering::Relaxed)) {
                self.silence_at_the_end(now.min(end));
                self.finish_slice(now.min(end), slices);
                self.draining = true;
                self.due_next = u64::MAX;
                let patience = (self.load.timeout.as_nanos() as u64).min(DRAIN_MAX);
                drain_until = now + patience;
                self.slice.draining = true;
            }
            if self.failure.is_some() {
                break;
            }
            if self.draining {
                let waiting = self.under_way > 0 || !self.due.is_empty();
                if !waiting || now >= drain_until {
                    break;
                }
            }
            self.arrive(now);
            self.flush_dirty();
            if now >= next_tick {
                self.tick(now);
                self.flush_dirty();
                next_tick = now + TICK;
            }
            let timeout = self.patience(next_tick, end.min(drain_until))?;
            self.poll_once(&mut events, timeout)?;
            for event in &events {
                if event.token() == ALARM {
                    self.alarm.heard();
                } else {
                    let now = self.now();
                    self.ready(event, now);
                    self.flush_dirty();
                }
            }
        }
        self.give_up_the_rest();
        let now = self.now();
        self.finish_slice(now, slices);
        self.send_observed();
        match self.failure.take() {
            Some(failure) => {
                self.shared.abort.store(true, Ordering::Relaxed);
                Err(failure)
            }
            None => Ok(()),
        }
    }

    /// Starts what can be started at the origin.
    fn begin(&mut self) {
        if let Some(arrivals) = &mut self.arrivals {
            self.due_next = arrivals.next();
        }
        self.started = true;
        for place in 0..self.clients.len() {
            self.clients[place].parked = self.load.pipeline;
            if self.home_is_open(place) {
                self.client_ready(place, 0);
            }
        }
        self.flush_dirty();
    }

    /// Takes what has become due, and gives it to free clients.
    fn arrive(&mut self, now: u64) {
        if let Some(arrivals) = self.arrivals.as_mut().filter(|_| !self.draining) {
            while self.due_next <= now {
                if self.due.len() < self.due_max {
                    self.due.push_back(self.due_next);
                } else {
                    self.slice.dropped += 1;
                    self.slice.error("never sent: too many operations waited for a free client");
                }
                self.due_next = arrivals.next();
            }
        }
        self.give_due();
    }

    /// How long the next poll may take.
    fn patience(&mut self, next_tick: u64, end: u64) -> Result<Option<Duration>, String> {
        let now = self.now();
        let tick_in = next_tick.min(end).saturating_sub(now);
        let due_in = self.due_next.saturating_sub(now);
        if due_in <= AWAKE {
            return Ok(Some(Duration::ZERO));
        }
        if due_in < tick_in.max(1_000_000) && self.alarm_for != self.due_next {
            self.alarm.set(Duration::from_nanos(due_in))?;
            self.alarm_for = self.due_next;
        }
        // Rounded up, as epoll does: a poll that ends a little too early would be spent awake.
        Ok(Some(Duration::from_nanos(tick_in.min(TICK)).max(Duration::from_millis(1))))
    }

    fn poll_once(&mut self, events: &mut Events, timeout: Option<Duration>) -> Result<(), String> {
        let before = Instant::now();
        match self.poll.poll(events, timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("waiting for sockets failed: {error}")),
        }
        self.share.idle(before.elapsed(), timeout == Some(Duration::ZERO));
        Ok(())
    }

    /// Sends the slices of seconds that are over.
    fn turn_seconds(&mut self, now: u64, end: u64, slices: &Sender<(Slice, f64)>) {
        while !self.draining {
            let boundary = (u64::from(self.slice.second) + 1) * 1_000_000_000;
            if now < boundary || boundary > end {
                return;
            }
            self.finish_slice(boundary, slices);
        }
    }

    /// Sends the slice, which ends at `until`, and begins the next.
    fn finish_slice(&mut self, until: u64, slices: &Sender<(Slice, f64)>) {
        if until <= self.slice_from && !self.draining && self.slice.answered() == 0 {
            return;
        }
        let (busy, kept_waiting) = self.share.take();
        self.slice.busy = busy;
        self.slice.kept_waiting = kept_waiting;
        self.slice.queued = self.due.len();
        self.slice.connected = self.connections.iter().filter(|connection| connection.is_open()).count() as u32;
        let next = Slice::new(self.slice.second + 1, self.slice.kinds.len(), self.arrivals.is_some());
        let slice = std::mem::replace(&mut self.slice, next);
        self.slice.draining = self.draining;
        self.slice_from = until;
        // Nobody receives any longer only if the main thread is gone.
        let _ = slices.send((slice, until as f64 / 1e9));
        self.send_observed();
    }

    fn send_observed(&mut self) {
        if let Some(observer) = self.observer.as_ref().filter(|_| !self.observed.is_empty()) {
            observer.observe(std::mem::take(&mut self.observed));
        }
    }
}
