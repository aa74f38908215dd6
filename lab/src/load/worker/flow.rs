//! An operation from its drawing to its end.

use std::sync::atomic::Ordering;

use super::client::{Awaited, Extra, Flight};
use super::{BATCH, Worker};
use crate::drive::cluster::{Redirection, SlotMap};
use crate::drive::{Answer, Kind};
use crate::load::tally::note;
use crate::load::{Observed, Outcome, Pacing};
use crate::workload::{Draft, Follow, Words};

/// Times that one command follows the cluster's redirections.
const REDIRECTIONS_MAX: u32 = 16;
/// A silence that is worth keeping.
const SILENCE_MIN: u64 = 10_000_000;

impl Worker<'_> {
    /// A client's first connection is open, or open again: it can take operations.
    pub(super) fn client_ready(&mut self, place: usize, now: u64) {
        if !self.started {
            return;
        }
        if self.load.pacing == Pacing::Closed {
            self.fill(place);
        } else {
            for _ in 0..std::mem::take(&mut self.clients[place].parked) {
                self.free.push_back((place as u32, now));
            }
        }
    }

    /// Closed loop: begins operations until as many are under way as may be.
    pub(super) fn fill(&mut self, place: usize) {
        let now = self.now();
        while self.clients[place].under_way < self.load.pipeline
            && !self.exhausted
            && !self.draining
            && self.failure.is_none()
            && self.home_is_open(place)
        {
            self.start(place, now, now, 0);
        }
    }

    /// Open loop: gives operations that are due to clients that are free.
    pub(super) fn give_due(&mut self) {
        if self.due.is_empty() {
            return;
        }
        let now = self.now();
        while let Some(intended) = self.due.front().copied() {
            let Some((place, since)) = self.free.pop_front() else { break };
            let place = place as usize;
            if !self.home_is_open(place) {
                self.clients[place].parked += 1;
                continue;
            }
            self.due.pop_front();
            let late = now.saturating_sub(intended.max(since));
            note(&mut self.slice.late, late.max(1));
            self.start(place, intended, now, late);
            if self.exhausted {
                self.due.clear();
                self.due_next = u64::MAX;
            }
        }
    }

    /// Draws the client's next operation and writes its first step.
    fn start(&mut self, place: usize, intended: u64, now: u64, late: u64) {
        if self.load.operations.is_some() && self.shared.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            self.exhausted = true;
            return;
        }
        let mut draft = std::mem::take(&mut self.draft);
        draft.clear();
        if self.draw.next(self.clients[place].number, &mut draft) {
            let flight = Flight {
                client: place as u32,
                kind: draft.kind as u32,
                intended,
                sent: now,
                late,
                token: draft.token,
                awaited: draft.len() as u32,
                follow: draft.follow,
                failed: false,
            };
            let id = match self.flights_free.pop() {
                Some(id) => {
                    self.flights[id as usize] = flight;
                    id
                }
                None => {
                    self.flights.push(flight);
                    self.flights.len() as u32 - 1
                }
            };
            self.clients[place].under_way += 1;
            self.under_way += 1;
            self.slice.sent += 1;
            self.send_step(id, place, &draft, now);
        } else {
            self.exhausted = true;
        }
        self.draft = draft;
    }

    /// Writes the commands of a step into their connections' buffers.
    fn send_step(&mut self, flight: u32, place: usize, draft: &Draft, now: u64) {
        for words in draft.commands() {
            let connection = match &self.map {
                None => self.clients[place].links[0],
                Some(map) => {
                    let node = map.node_of(words.key());
                    self.link(place, node)
                }
            };
            let keeps = self.observer.is_some() || self.map.is_some();
            let extra =
                keeps.then(|| Box::new(Extra { words: words.clone().map(<[u8]>::to_vec).collect(), redirected: 0 }));
            self.write_command(connection, words, Awaited { flight, from: now, extra });
        }
    }

    fn write_command(&mut self, connection: usize, words: Words<'_>, awaited: Awaited) {
        let connection_of = &mut self.connections[connection];
        if let Err(error) = connection_of.driver.encode(&mut connection_of.out, words) {
            self.failure = Some(error);
            return;
        }
        connection_of.awaited.push_back(awaited);
        if !connection_of.dirty {
            connection_of.dirty = true;
            self.dirty.push(connection);
        }
    }

    /// Writes a command of one's own, or one that is sent again.
    pub(super) fn write_words(&mut self, connection: usize, words: &[Vec<u8>], awaited: Awaited) {
        let mut draft = Draft::default();
        for (index, word) in words.iter().enumerate() {
            if index == 0 {
                draft.command(word);
            } else {
                draft.word(word);
            }
        }
        self.write_command(connection, draft.at(0), awaited);
    }

    /// Takes the answers at the beginning of `bytes`, and returns how many bytes they have.
    ///
    /// # Errors
    /// A sentence, if they cannot be understood or the server closes: the connection is lost.
    pub(super) fn take_answers(&mut self, connection: usize, bytes: &[u8], now: u64) -> Result<usize, String> {
        let (mut at, mut good) = (0, false);
        while at < bytes.len() {
            let Some((reply, closes)) = self.connections[connection].driver.skim(&bytes[at..])? else { break };
            let end = at + reply.length;
            good |= self.answered(connection, &bytes[at..end], reply.kind, now)?;
            at = end;
            if closes {
                return Err("closed by the server after its answer".to_owned());
            }
        }
        if good && !self.draining {
            let before = self.shared.last_answer.fetch_max(now, Ordering::Relaxed);
            if now.saturating_sub(before) >= SILENCE_MIN {
                self.slice.gaps.push((before, now));
            }
        }
        Ok(at)
    }

    /// Takes note of a silence that lasts until the end of the load; one thread does for all.
    pub(super) fn silence_at_the_end(&mut self, until: u64) {
        let before = self.shared.last_answer.load(Ordering::Relaxed);
        if self.thread == 0 && until.saturating_sub(before) >= SILENCE_MIN {
            self.slice.gaps.push((before, until));
        }
    }

    /// Takes one answer. True: it was one to an operation, and no error.
    fn answered(&mut self, connection: usize, bytes: &[u8], kind: Kind, now: u64) -> Result<bool, String> {
        let connection_of = &mut self.connections[connection];
        let answer = connection_of.driver.answer(bytes, kind);
        if self.greeted(connection, &answer, now) {
            return Ok(false);
        }
        let connection_of = &mut self.connections[connection];
        let Some(awaited) = connection_of.awaited.pop_front() else {
            return Err("the server sent an answer that nobody asked for".to_owned());
        };
        match awaited.flight {
            Awaited::NOBODY => return Ok(false),
            Awaited::MAP => {
                self.learn_map(connection, &answer);
                return Ok(false);
            }
            _ => {}
        }
        let mut failed = false;
        if kind == Kind::Error {
            let text = answer.error_text();
            let Some(awaited_here) = self.not_redirected(connection, awaited, &text) else { return Ok(false) };
            self.slice.error(&text);
            failed = true;
            self.command_done(awaited_here, &answer, now, true);
        } else {
            self.command_done(awaited, &answer, now, false);
        }
        Ok(!failed)
    }

    fn command_done(&mut self, awaited: Awaited, answer: &Answer<'_>, now: u64, failed: bool) {
        let id = awaited.flight;
        if self.observer.is_some() {
            let outcome = if failed { Outcome::Error } else { Outcome::Ok };
            self.observe(awaited, Some((answer, now)), outcome);
        }
        let flight = &mut self.flights[id as usize];
        flight.failed |= failed;
        flight.awaited -= 1;
        if flight.awaited > 0 {
            return;
        }
        if flight.follow && !flight.failed {
            let (place, number) = (flight.client as usize, self.clients[flight.client as usize].number);
            let mut draft = std::mem::take(&mut self.draft);
            draft.clear();
            draft.kind = flight.kind as usize;
            draft.token = flight.token;
            let follow = self.draw.follow(number, answer, &mut draft);
            flight.kind = draft.kind as u32;
            flight.token = draft.token;
            flight.follow = draft.follow;
            flight.awaited = draft.len() as u32;
            if follow == Follow::Again && !draft.is_empty() {
                self.send_step(id, place, &draft, now);
                self.draft = draft;
                return;
            }
            self.draft = draft;
        }
        self.end_flight(id, now);
    }

    /// A command of `awaited` will have no answer.
    pub(super) fn command_lost(&mut self, awaited: Awaited, why: &str, now: u64) {
        let id = awaited.flight;
        if matches!(id, Awaited::NOBODY | Awaited::MAP) {
            return;
        }
        self.slice.error(why);
        if self.observer.is_some() {
            self.observe(awaited, None, Outcome::Unknown);
        }
        let flight = &mut self.flights[id as usize];
        flight.failed = true;
        flight.awaited -= 1;
        if flight.awaited == 0 {
            self.end_flight(id, now);
        }
    }

    /// Counts an operation and frees its client's place.
    fn end_flight(&mut self, id: u32, now: u64) {
        let flight = self.flights[id as usize];
        if let Some(kind) = self.slice.kinds.get_mut(flight.kind as usize) {
            if flight.failed {
                kind.errors += 1;
            } else {
                note(&mut kind.latency, now.saturating_sub(flight.intended).max(1));
                if let Some(service) = &mut kind.service {
                    note(service, now.saturating_sub(flight.sent).max(1));
                    note(&mut self.slice.prompt, now.saturating_sub(flight.intended + flight.late).max(1));
                }
            }
        }
        self.flights_free.push(id);
        self.under_way -= 1;
        let place = flight.client as usize;
        self.clients[place].under_way -= 1;
        if self.load.pacing != Pacing::Closed {
            if self.home_is_open(place) {
                self.free.push_back((flight.client, now));
            } else {
                self.clients[place].parked += 1;
            }
        }
    }

    fn observe(&mut self, awaited: Awaited, answer: Option<(&Answer<'_>, u64)>, outcome: Outcome) {
        let flight = self.flights[awaited.flight as usize];
        self.observed.push(Observed {
            client: self.clients[flight.client as usize].number,
            kind: flight.kind as usize,
            words: awaited.extra.map(|extra| extra.words).unwrap_or_default(),
            from: awaited.from + self.epoch_offset,
            until: answer.map(|(_, now)| now + self.epoch_offset),
            outcome,
            answer: answer.and_then(|(answer, _)| answer.value()),
        });
        if self.observed.len() >= BATCH {
            self.send_observed();
        }
    }

    /// Sends a command on to the node that its error names; gives it back if the error names none.
    fn not_redirected(&mut self, connection: usize, mut awaited: Awaited, text: &str) -> Option<Awaited> {
        let asked = self.connections[connection].address;
        let Some(redirection) = self.map.as_mut().and_then(|map| map.redirected(text.as_bytes(), asked)) else {
            return Some(awaited);
        };
        let Some(extra) = awaited.extra.as_mut().filter(|extra| extra.redirected < REDIRECTIONS_MAX) else {
            return Some(awaited);
        };
        extra.redirected += 1;
        let words = extra.words.clone();
        let place = self.connections[connection].client;
        let (Redirection::Moved(node) | Redirection::Ask(node)) = redirection;
        let link = self.link(place, node);
        if matches!(redirection, Redirection::Ask(_)) {
            let nobody = Awaited { flight: Awaited::NOBODY, from: awaited.from, extra: None };
            self.write_words(link, &[b"ASKING".to_vec()], nobody);
        }
        self.write_words(link, &words, awaited);
        None
    }

    fn learn_map(&mut self, connection: usize, answer: &Answer<'_>) {
        let asked = self.connections[connection].address;
        let (Some(value), Some(map)) = (answer.value(), self.map.as_mut()) else { return };
        // A map with holes is what a cluster tells while it chooses: the old one is better.
        if let Ok(told) = SlotMap::read(&value, asked) {
            map.adopt(&told);
        }
    }

    /// What has no answer at the end of the load.
    pub(super) fn give_up_the_rest(&mut self) {
        let now = self.now();
        for connection in 0..self.connections.len() {
            for awaited in std::mem::take(&mut self.connections[connection].awaited) {
                self.command_lost(awaited, "no answer before the end of the load", now);
            }
        }
        let unsent = self.due.len() as u64;
        self.due.clear();
        if unsent > 0 {
            self.slice.unsent = unsent;
            for _ in 0..unsent {
                self.slice.error("never sent: the load ended before a client was free");
            }
        }
    }
}
