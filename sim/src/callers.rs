//! Clients that publish and listen: what they do, and what they write down for the checkers (`checkers/messages.rs`, `checkers/notes.rs`).
//!
//! They stand beside the other clients and touch none of their keys. Some publish, and make keys that soon expire; some listen: on some channels, by some patterns, in either
//! protocol; who listens in RESP3 may publish on the same connection; and some want to be told of those keys. They begin with the first connection and go on to the end of the run.

mod audience;
mod caching;
mod moving;
mod observing;
mod pausing;
mod restoring;
mod saving;
mod spending;
mod subscribing;

use audience::{Asked, CHANNELS, Connection, EVENTS, NOTED, heard, listen};
use base::Rng;
use caching::Keeper;
use moving::Mover;
use observing::Observer;
use pausing::Pauser;
use saving::Saver;
use spending::Spender;
use subscribing::Subscriber;
use wire::{ReplyLimits, ReplyParser, encode_command};

use crate::chaos::MS;
use crate::checkers::messages::{Kind, Messages, Publication};
use crate::checkers::notes::Note;
use crate::client::Wishes;

/// How often a listener looks whether its connection still stands.
const PING_EVERY: u64 = 300 * MS;

/// What a caller is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Publishes, and makes keys.
    Publishes,
    /// Listens to channels, and now and then publishes.
    Listens,
    /// Wants to be told of the keys.
    Watches,
    /// Keeps what it reads of other keys, which those write who publish.
    Keeps,
    /// Lets the clients of its node wait.
    Pauses,
    /// Is shown what they do.
    Monitors,
    /// Asks its node what this has seen.
    Observes,
    /// Sends costly commands and asks for large answers.
    Spends,
    /// Moves keys between databases.
    Moves,
    /// Makes backups.
    BacksUp,
    /// Subscribes to changes.
    Subscribes,
}

/// One of them.
#[derive(Debug)]
pub struct Caller {
    id: u64,
    rng: Rng,
    role: Role,
    nodes: u16,
    node: u16,
    timeout: u64,
    timer: u64,
    connecting: bool,
    connections: u64,
    published: u64,
    connection: Option<Connection>,
    /// Of one that keeps what it reads: the connection.
    keeper: Option<Keeper>,
    /// Of one that lets others wait, or is shown what they do: the connection.
    pauser: Option<Pauser>,
    /// Of one that asks what its node has seen: the connection.
    observer: Option<Observer>,
    /// Of one that sends costly commands: the connection.
    spender: Option<Spender>,
    /// Of one that moves keys: what it knows of them. It stays when its connection goes.
    mover: Option<Mover>,
    /// Of one that makes backups: what has to be in them. It stays when its connection goes.
    saver: Option<Saver>,
    /// Of one that subscribes to changes: where it is. It stays when its connection goes.
    subscriber: Option<Subscriber>,
    /// Nodes give up what they have of a bucket, and others answer for them.
    copies_move: bool,
}

impl Caller {
    /// A caller that waits `timeout` nanoseconds for an answer.
    #[must_use]
    pub fn new(id: u64, mut rng: Rng, role: Role, nodes: u16, timeout: u64) -> Caller {
        let node = rng.below(u64::from(nodes)) as u16;
        let subscriber = (role == Role::Subscribes).then(|| Subscriber::new(&mut rng));
        Caller {
            subscriber,
            id,
            rng,
            role,
            nodes,
            node,
            timeout,
            timer: 0,
            connecting: false,
            connections: 0,
            published: 0,
            connection: None,
            keeper: None,
            pauser: None,
            observer: None,
            spender: None,
            mover: (role == Role::Moves).then(|| Mover::new(id)),
            saver: (role == Role::BacksUp).then(|| Saver::new(id)),
            copies_move: false,
        }
    }

    /// The same in a run in which nodes give up what they have.
    #[must_use]
    pub fn where_copies_move(self, copies_move: bool) -> Caller {
        Caller { copies_move, ..self }
    }

    /// The number of the timer that counts.
    #[must_use]
    pub fn timer(&self) -> u64 {
        self.timer
    }

    /// Whether it may read nothing for a while of what it is sent.
    #[must_use]
    pub fn may_stop_reading(&self) -> bool {
        matches!(self.role, Role::Spends | Role::Subscribes)
    }

    fn wake_in(&mut self, delay: u64, now: u64, wishes: &mut Wishes) {
        self.timer += 1;
        wishes.wake_at = Some(now + delay);
    }

    /// Its timer is due.
    pub fn on_wake(&mut self, now: u64, messages: &mut Messages, wishes: &mut Wishes) {
        if self.keeper.is_some() {
            return self.keep(now, messages, wishes);
        }
        if self.pauser.is_some() {
            return self.pause(now, messages, wishes);
        }
        if self.observer.is_some() {
            return self.observe(now, messages, wishes);
        }
        if self.spender.is_some() {
            return self.spend(now, messages, wishes);
        }
        if self.mover.as_ref().is_some_and(Mover::is_connected) {
            return self.move_keys(now, messages, wishes);
        }
        if self.saver.as_ref().is_some_and(Saver::is_connected) {
            return self.back_up(now, messages, wishes);
        }
        if self.subscriber.as_ref().is_some_and(Subscriber::is_connected) {
            return self.subscribe(now, messages, wishes);
        }
        let Some(connection) = &self.connection else {
            if self.connecting {
                self.connecting = false;
                wishes.close = true;
                return self.go_elsewhere(now, wishes);
            }
            self.connecting = true;
            wishes.connect = Some(self.node);
            return self.wake_in(500 * MS, now, wishes);
        };
        let oldest = (!connection.asked.is_empty()).then_some(connection.asked_at);
        let waits_since = [oldest, connection.pinged_at].into_iter().flatten().min();
        if waits_since.is_some_and(|since| now.saturating_sub(since) >= self.timeout) {
            wishes.overdue = waits_since.map(|since| now - since);
            return self.leave(now, messages, wishes);
        }
        let is_deaf = self.role == Role::Watches && connection.refused;
        if self.rng.chance(1, 60) || is_deaf {
            return self.leave(now, messages, wishes);
        }
        self.act(now, messages, wishes);
        let delay =
            if self.role == Role::Publishes { self.rng.between(MS, 60 * MS) } else { self.rng.between(MS, PING_EVERY) };
        self.wake_in(delay, now, wishes);
    }

    /// The same with a connection whose answers are kept.
    fn keep(&mut self, now: u64, messages: &mut Messages, wishes: &mut Wishes) {
        let Some(keeper) = &mut self.keeper else { return };
        // What has to be on all disks may take as long as that takes.
        if keeper.waits() && now.saturating_sub(keeper.asked_at) >= self.timeout {
            wishes.overdue = Some(now - keeper.asked_at);
            return self.leave(now, messages, wishes);
        }
        if self.rng.chance(1, 150) {
            return self.leave(now, messages, wishes);
        }
        keeper.act(self.id, now, &mut self.rng, &messages.copies, &mut wishes.send);
        let delay = self.rng.between(MS, 100 * MS);
        self.wake_in(delay, now, wishes);
    }

    /// The same with one that lets others wait.
    fn pause(&mut self, now: u64, messages: &mut Messages, wishes: &mut Wishes) {
        let Some(pauser) = &mut self.pauser else { return };
        if pauser.waits() && now.saturating_sub(pauser.asked_at) >= self.timeout {
            wishes.overdue = Some(now - pauser.asked_at);
            return self.leave(now, messages, wishes);
        }
        // Also while it waits itself.
        if self.rng.chance(1, 40) {
            return self.leave(now, messages, wishes);
        }
        pauser.act(now, &mut self.rng, &mut wishes.send);
        let delay = self.rng.between(MS, 300 * MS);
        self.wake_in(delay, now, wishes);
    }

    /// The same with one that asks what its node has seen.
    fn observe(&mut self, now: u64, messages: &mut Messages, wishes: &mut Wishes) {
        let Some(observer) = &mut self.observer else { return };
        if observer.waits() && now.saturating_sub(observer.asked_at) >= self.timeout {
            wishes.overdue = Some(now - observer.asked_at);
            return self.leave(now, messages, wishes);
        }
        if self.rng.chance(1, 60) {
            return self.leave(now, messages, wishes);
        }
        observer.act(self.id, now, &mut self.rng, &mut wishes.send);
        let delay = self.rng.between(MS, 500 * MS);
        self.wake_in(delay, now, wishes);
    }

    /// The same with one that sends costly commands.
    fn spend(&mut self, now: u64, messages: &mut Messages, wishes: &mut Wishes) {
        let Some(spender) = &mut self.spender else { return };
        if spender.waits() && now.saturating_sub(spender.asked_at) >= self.timeout {
            wishes.overdue = Some(now - spender.asked_at);
            return self.leave(now, messages, wishes);
        }
        // Also in the middle of an answer.
        if self.rng.chance(1, 40) {
            return self.leave(now, messages, wishes);
        }
        spender.act(now, &mut self.rng, &mut wishes.send);
        let delay = self.rng.between(10 * MS, 400 * MS);
        self.wake_in(delay, now, wishes);
    }

    /// The same with one that moves keys. Three steps of a move may each take as long as an answer.
    fn move_keys(&mut self, now: u64, messages: &mut Messages, wishes: &mut Wishes) {
        let Some(mover) = &mut self.mover else { return };
        if mover.waits() && now.saturating_sub(mover.asked_at) >= 12 * self.timeout {
            wishes.overdue = Some(now - mover.asked_at);
            return self.leave(now, messages, wishes);
        }
        if self.rng.chance(1, 80) {
            return self.leave(now, messages, wishes);
        }
        mover.act(now, &mut self.rng, &mut wishes.send);
        let delay = self.rng.between(MS, 100 * MS);
        self.wake_in(delay, now, wishes);
    }

    /// The same with one that makes backups.
    fn back_up(&mut self, now: u64, messages: &mut Messages, wishes: &mut Wishes) {
        let Some(saver) = &mut self.saver else { return };
        if saver.waits() && now.saturating_sub(saver.asked_at) >= 2 * self.timeout {
            wishes.overdue = Some(now - saver.asked_at);
            return self.leave(now, messages, wishes);
        }
        // Also in the middle of a backup.
        if self.rng.chance(1, 60) {
            return self.leave(now, messages, wishes);
        }
        saver.act(now, &mut self.rng, &mut wishes.send);
        let delay = self.rng.between(MS, 60 * MS);
        self.wake_in(delay, now, wishes);
    }

    /// The same with one that subscribes to changes.
    fn subscribe(&mut self, now: u64, messages: &mut Messages, wishes: &mut Wishes) {
        let Some(subscriber) = &mut self.subscriber else { return };
        let is_overdue = subscriber.waits() && now.saturating_sub(subscriber.asked_at) >= 2 * self.timeout;
        if is_overdue {
            wishes.overdue = Some(now - subscriber.asked_at);
        }
        if is_overdue || subscriber.is_over() || self.rng.chance(1, 40) {
            return self.leave(now, messages, wishes);
        }
        subscriber.act(now, &mut self.rng, &mut messages.changes, &mut wishes.send);
        let delay = self.rng.between(MS, 400 * MS);
        self.wake_in(delay, now, wishes);
    }

    fn act(&mut self, now: u64, messages: &mut Messages, wishes: &mut Wishes) {
        let Some(connection) = &mut self.connection else { return };
        if connection.greeting {
            return;
        }
        let publishes =
            self.role == Role::Publishes || (self.role == Role::Listens && connection.resp3 && self.rng.chance(1, 4));
        if connection.asked.is_empty() {
            connection.asked_at = now;
            // One at a time: what is published behind it waits for it.
            if self.role == Role::Publishes && self.rng.chance(1, 4) {
                let key = format!("{NOTED}{}-{}", self.id, messages.notes.notes.len());
                let lives = self.rng.between(20, 1500).to_string();
                encode_command(&mut wishes.send, ["SET", &key, "x", "PX", &lives]);
                connection.asked.push(Asked::Note(messages.notes.notes.len()));
                messages.notes.notes.push(Note { key, asked: now, answered: None });
            } else if self.role == Role::Publishes && self.rng.chance(1, 3) {
                let place = caching::write(self.id, &mut self.rng, now, &mut messages.copies, &mut wishes.send);
                connection.asked.push(Asked::Write(place));
            }
        }
        if publishes && connection.asked.len() < 8 {
            for _ in 0..self.rng.between(1, 4) {
                self.published += 1;
                let kind = if self.rng.chance(1, 5) { Kind::Shard } else { Kind::Channel };
                let channel = *self.rng.pick(&CHANNELS);
                let message = format!("{}-{}-{}", self.id, connection.number, self.published);
                let command = if kind == Kind::Shard { "SPUBLISH" } else { "PUBLISH" };
                encode_command(&mut wishes.send, [command, channel, &message]);
                connection.asked.push(Asked::Publication(messages.publications.len()));
                messages.publications.push(Publication {
                    publisher: (self.id, connection.number),
                    sequence: self.published,
                    node: self.node,
                    kind,
                    channel: channel.to_owned(),
                    message,
                    asked: now,
                    answered: None,
                });
            }
        }
        if self.role == Role::Publishes {
            return;
        }
        if connection.pinged_at.is_none() {
            connection.pinged_at = Some(now);
            encode_command(&mut wishes.send, ["PING"]);
        }
        if self.role == Role::Watches {
            return;
        }
        // One thing less to listen to, or one more.
        if self.rng.chance(1, 12)
            && let Some(place) =
                connection.listens.iter().position(|(_, _, at)| at.is_some()).filter(|_| connection.listens.len() > 1)
        {
            let (kind, name, at) = connection.listens.remove(place);
            let command = ["UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"][kind as usize];
            encode_command(&mut wishes.send, [command, &name]);
            if let Some(at) = at {
                messages.subscriptions[at].until = Some(now);
            }
        } else if self.rng.chance(1, 8) {
            listen(connection, &mut self.rng, wishes);
        }
    }

    /// The connection that it asked for stands.
    pub fn on_connected(&mut self, now: u64, messages: &mut Messages, wishes: &mut Wishes) {
        self.connecting = false;
        self.connections += 1;
        if self.role == Role::Keeps {
            let (rng, copies) = (&mut self.rng, &mut messages.copies);
            self.keeper = Some(Keeper::new(self.id, self.node, now, rng, copies, &mut wishes.send));
            return self.wake_in(MS, now, wishes);
        }
        if matches!(self.role, Role::Pauses | Role::Monitors) {
            self.pauser = Some(Pauser::new(self.role == Role::Monitors, now, &mut wishes.send));
            return self.wake_in(MS, now, wishes);
        }
        if self.role == Role::Observes {
            self.observer = Some(Observer::new(self.rng.chance(1, 2), self.copies_move, now, &mut wishes.send));
            return self.wake_in(MS, now, wishes);
        }
        if self.role == Role::Spends {
            self.spender = Some(Spender::new(self.id, self.connections, now, &mut self.rng));
            return self.wake_in(MS, now, wishes);
        }
        if let Some(mover) = &mut self.mover {
            mover.connected();
            return self.wake_in(MS, now, wishes);
        }
        if let Some(saver) = &mut self.saver {
            saver.connected();
            return self.wake_in(MS, now, wishes);
        }
        if let Some(subscriber) = &mut self.subscriber {
            subscriber.connected(now, &mut self.rng, &mut wishes.send);
            return self.wake_in(MS, now, wishes);
        }
        let resp3 = self.role != Role::Watches && self.rng.chance(1, 2);
        let mut connection = Connection {
            parser: ReplyParser::new(ReplyLimits::default()),
            number: self.connections,
            resp3,
            greeting: resp3,
            refused: false,
            asked: Vec::new(),
            asked_at: now,
            opened: now,
            watch: None,
            pinged_at: None,
            listens: Vec::new(),
        };
        if resp3 {
            encode_command(&mut wishes.send, ["HELLO", "3"]);
        }
        if self.role == Role::Watches {
            encode_command(&mut wishes.send, ["CONFIG", "SET", "notify-keyspace-events", "E$x"]);
            connection.greeting = true;
            encode_command(&mut wishes.send, [&["SUBSCRIBE"][..], &EVENTS].concat());
            connection.listens.extend(EVENTS.map(|name| (Kind::Channel, name.to_owned(), None)));
        }
        if self.role == Role::Listens {
            for _ in 0..self.rng.between(1, 4) {
                listen(&mut connection, &mut self.rng, wishes);
            }
        }
        self.connection = Some(connection);
        self.wake_in(MS, now, wishes);
    }

    /// Bytes have arrived.
    pub fn on_bytes(&mut self, bytes: &[u8], now: u64, messages: &mut Messages) {
        if let Some(keeper) = &mut self.keeper {
            if let Err(text) = keeper.on_bytes(bytes, now, &mut messages.copies) {
                messages.violations.push(format!("caller {}: {text}", self.id));
            }
            return;
        }
        if let Some(pauser) = &mut self.pauser {
            if let Err(text) = pauser.on_bytes(bytes, now) {
                messages.violations.push(format!("caller {}: {text}", self.id));
            }
            return;
        }
        if let Some(observer) = &mut self.observer {
            if let Err(text) = observer.on_bytes(bytes, now) {
                messages.violations.push(format!("caller {}: {text}", self.id));
            }
            return;
        }
        if let Some(spender) = &mut self.spender {
            if let Err(text) = spender.on_bytes(bytes, now) {
                messages.violations.push(format!("caller {}: {text}", self.id));
            }
            return;
        }
        if let Some(mover) = &mut self.mover {
            if let Err(text) = mover.on_bytes(bytes, now) {
                messages.violations.push(format!("caller {}: {text}", self.id));
            }
            return;
        }
        if let Some(saver) = &mut self.saver {
            if let Err(text) = saver.on_bytes(bytes, now) {
                messages.violations.push(format!("caller {}: {text}", self.id));
            }
            messages.restored += std::mem::take(&mut saver.restored);
            return;
        }
        if let Some(subscriber) = &mut self.subscriber {
            if let Err(text) = subscriber.on_bytes(bytes, (self.id, self.node, now), &mut messages.changes) {
                messages.violations.push(format!("caller {}: {text}", self.id));
            }
            return;
        }
        let Some(connection) = &mut self.connection else { return };
        connection.parser.push(bytes);
        loop {
            match connection.parser.next() {
                Ok(None) => return,
                Ok(Some(value)) => {
                    if let Err(text) = heard(connection, (self.id, self.node), &value, now, messages) {
                        messages.violations.push(format!("caller {}: {text}", self.id));
                    }
                }
                Err(error) => {
                    messages.violations.push(format!("caller {}: not RESP: {error}", self.id));
                    return;
                }
            }
        }
    }

    /// The connection is gone, or could not be had.
    pub fn on_closed(&mut self, now: u64, messages: &mut Messages, wishes: &mut Wishes) {
        self.forget(now, messages);
        self.connecting = false;
        self.go_elsewhere(now, wishes);
    }

    fn leave(&mut self, now: u64, messages: &mut Messages, wishes: &mut Wishes) {
        wishes.close = true;
        self.forget(now, messages);
        self.go_elsewhere(now, wishes);
    }

    fn forget(&mut self, now: u64, messages: &mut Messages) {
        if let Some(keeper) = self.keeper.take() {
            keeper.end(now, &mut messages.copies);
        }
        self.pauser = None;
        self.observer = None;
        self.spender = None;
        self.mover.iter_mut().for_each(Mover::disconnected);
        self.saver.iter_mut().for_each(Saver::disconnected);
        self.subscriber.iter_mut().for_each(|subscriber| subscriber.disconnected(now, &mut messages.changes));
        let connection = self.connection.take();
        if let Some(place) = connection.as_ref().and_then(|connection| connection.watch) {
            messages.notes.watches[place].until.get_or_insert(now);
        }
        let asked = connection.iter().flat_map(|connection| &connection.asked);
        if asked.into_iter().any(|asked| matches!(asked, Asked::Write(_))) {
            *messages.copies.generations.entry(self.id).or_default() += 1;
        }
        let listened = connection.into_iter().flat_map(|connection| connection.listens);
        for place in listened.filter_map(|(_, _, at)| at) {
            messages.subscriptions[place].until.get_or_insert(now);
        }
    }

    fn go_elsewhere(&mut self, now: u64, wishes: &mut Wishes) {
        self.node = self.rng.below(u64::from(self.nodes)) as u16;
        let delay = self.rng.between(MS, 100 * MS);
        self.wake_in(delay, now, wishes);
    }
}
