//! MULTI … EXEC: queueing, and putting the replies together.
//!
//! A transaction is one entry of the log, or one read if it changes nothing. Commands that concern only the connection
//! (`PING`, `CLIENT …`) may stand in it too: they are answered here, and the replies are merged.

use base::PartitionId;
use base::limits::{QUEUED_WORD_BYTES, TRANSACTION_BYTES_MAX, WORD_BYTES};
use base::slots::hash_slot;
use bytes::Bytes;
use data::{Failure, Reply, spec::Flags};
use wire::{ArgumentsRef, ReplyWriter};

use crate::access;
use crate::commands;
use crate::door::ConnectionId;
use crate::group::DEFAULT_PARTITION;
use crate::node::Node;
use crate::reply;
use crate::router::ReadKind;
use crate::routing::CROSS_SLOT;
use crate::session::{Block, Merge, Queue, Session};
use crate::words::{self, Words};

/// Writes the reply of an EXEC some of whose commands were answered by the connection itself.
pub(crate) fn write_merged(writer: &mut ReplyWriter<'_>, merge: &Merge, answer: &Reply) {
    let Reply::Array(items) = answer else { return reply::write(writer, answer) };
    let mut items = items.iter();
    let mut local = merge.local.iter().peekable();
    writer.array(merge.count);
    for place in 0..merge.count {
        match local.next_if(|(at, _)| *at == place) {
            Some((_, bytes)) => writer.buffer().extend_from_slice(bytes),
            None => match items.next() {
                Some(item) => reply::write(writer, item),
                None => writer.null(),
            },
        }
    }
}

/// Whether all keys have the slot, which the first one gives if it is not known yet.
fn is_of_one_slot(slot: &mut Option<u16>, keys: &[&[u8]]) -> bool {
    keys.iter().all(|key| {
        let its = hash_slot(key);
        *slot.get_or_insert(its) == its
    })
}

const _: () = assert!(TRANSACTION_BYTES_MAX == 268_435_456, "the text says so");

const OTHER_BUCKET: Failure =
    Failure::Text("ERR a transaction is about one bucket or database: SELECT another one before MULTI");
const FLUSHES_SEVERAL: Failure =
    Failure::Text("ERR FLUSHALL is about several databases, and a transaction about one: use FLUSHDB in it");

impl Node {
    /// `SELECT` in a MULTI: what comes behind it would be done in the wrong bucket, so it is refused before anything is.
    fn check_queued_select(&self, session: &Session, word: &[u8]) -> Result<(), Failure> {
        match self.find_bucket(word) {
            _ if session.redirected.is_some() => Ok(()),
            Ok(bucket) if bucket.id == session.bucket => Ok(()),
            Err(failure) if self.database_to_make(word).is_none() => Err(failure),
            _ => Err(OTHER_BUCKET),
        }
    }

    /// `AUTH` and `HELLO` in a MULTI: with another name they would choose another bucket.
    fn check_queued_name(&self, session: &Session, words: &[&[u8]]) -> Result<(), Failure> {
        let names_another = commands::user_said(words).is_some_and(|(name, password)| {
            // At EXEC such a name may mean another user, in another bucket.
            let is_two = name.contains(&b'@');
            let found = self.login(session, name, password).and_then(|(_, bucket)| bucket);
            let bucket = found.or_else(|| self.bucket_of_user(session, name));
            is_two || bucket.is_some_and(|bucket| bucket != session.choice.named)
        });
        if names_another { Err(OTHER_BUCKET) } else { commands::check_queued(words) }
    }

    /// Queues a command of an open MULTI, or says why not.
    pub(crate) fn queue(&mut self, session: &mut Session, arguments: ArgumentsRef<'_>, words: &[&[u8]]) {
        let name = words[0];
        let within = match name.eq_ignore_ascii_case(b"copy") && session.redirected.is_none() {
            true => self.copy_within(session, words),
            false => Ok(None),
        };
        let arguments = match &within {
            Ok(Some(within)) => within.as_ref(),
            _ => arguments,
        };
        let known = match data::lookup(name) {
            Some(_) if within.is_err() => within.clone().map(drop),
            Some(entry) if self.all_databases(session, entry.spec).is_some() => Err(FLUSHES_SEVERAL),
            Some(entry) if entry.spec.arity_fits(words.len()) => self
                .check_version(entry, words)
                .and_then(|()| data::check_keys(entry.spec, words))
                .and_then(|()| self.check_values(session.bucket, entry.spec, words))
                .and_then(|()| self.redirection(session, entry.spec, words).map_or(Ok(()), Err))
                .and_then(|()| self.route_to_one(session, entry.spec, words).map(drop)),
            Some(entry) => Err(entry.spec.wrong_arity()),
            None if name.eq_ignore_ascii_case(b"select") && words.len() == 2 => {
                self.check_queued_select(session, words[1])
            }
            None if name.eq_ignore_ascii_case(b"auth") || name.eq_ignore_ascii_case(b"hello") => {
                self.check_queued_name(session, words)
            }
            None => commands::check_queued(words),
        };
        let bytes = arguments.payload_bytes() + arguments.len() * QUEUED_WORD_BYTES + WORD_BYTES;
        let Some(queue) = &mut session.queue else { return };
        let failure = match known {
            Err(failure) => Some(failure),
            Ok(()) if queue.bytes + bytes > TRANSACTION_BYTES_MAX => Some(Failure::Text(
                "ERR a transaction's commands have 268435456 bytes at the most: send them as several",
            )),
            Ok(()) => None,
        };
        match failure {
            Some(failure) => {
                queue.broken = true;
                self.refuse(session, &failure);
            }
            None => {
                queue.bytes += bytes;
                queue.acts |= commands::pubsub::acts(words);
                queue.commands.push(arguments.to_owned());
                session.reply(|writer| writer.simple("QUEUED"));
            }
        }
    }

    pub(crate) fn exec(&mut self, session: &mut Session, words: &[&[u8]]) {
        let Some(Queue { commands, broken, .. }) = session.queue.take() else {
            self.show(session, words);
            return self.refuse(session, &Failure::Text("ERR EXEC without MULTI"));
        };
        let watches = session.watches.take();
        if broken {
            self.show(session, words);
            let text = "EXECABORT Transaction discarded because of previous errors.";
            return self.refuse(session, &Failure::Text(text));
        }
        if session.is_limited {
            for command in &commands {
                if let Err(failure) = access::check(self, session, Words::new(command.as_ref()).as_slice()) {
                    self.show(session, words);
                    return self.refuse(session, &access::changed_since(&failure));
                }
            }
        }
        for command in &commands {
            self.show(session, Words::new(command.as_ref()).as_slice());
        }
        self.show(session, words);
        let mut merge = Merge { count: commands.len(), ..Merge::default() };
        let mut stored = Vec::with_capacity(commands.len());
        let mut flags = Flags::NONE;
        // One command that needs room is enough: it is all or nothing.
        let mut grows = false;
        let mut partitions = Vec::new();
        // Of whoever routes by itself, all keys have one slot.
        let mut slot = None;
        if !watches.is_empty() {
            partitions.push(self.partition_of_keys(session, watches.iter().map(|(key, _)| key.as_slice())));
        }
        for (place, command) in commands.into_iter().enumerate() {
            let words = Words::new(command.as_ref());
            match data::lookup(words.as_slice()[0]) {
                Some(entry) => {
                    flags = flags.and(entry.spec.flags);
                    if session.redirected.is_some() && !is_of_one_slot(&mut slot, &entry.spec.keys_of(words.as_slice()))
                    {
                        return self.refuse(session, &CROSS_SLOT);
                    }
                    let partition = self.route_to_one(session, entry.spec, words.as_slice());
                    let needs =
                        |partition: &PartitionId| self.words_need_room(*partition, entry.spec, words.as_slice());
                    grows |= partition.as_ref().is_ok_and(needs);
                    partitions.push(partition);
                    drop(words);
                    stored.push(command);
                }
                None if commands::pubsub::acts(words.as_slice()) => {
                    drop(words);
                    merge.later.push((place, command));
                }
                None => {
                    let mut bytes = Vec::new();
                    let answer = commands::run_local(self, session, words.as_slice());
                    reply::write(&mut ReplyWriter::new(&mut bytes, session.protocol), &answer);
                    merge.local.push((place, bytes));
                }
            }
        }
        let first = partitions.first().cloned().unwrap_or(Ok(DEFAULT_PARTITION));
        let partition = match first {
            Ok(partition) if partitions.iter().all(|other| other.as_ref() == Ok(&partition)) => partition,
            Ok(_) => return self.refuse(session, &CROSS_SLOT),
            Err(failure) => return self.refuse(session, &failure),
        };
        if stored.is_empty() && watches.is_empty() {
            self.run_later_of(session, &mut merge);
            return session.reply(|writer| write_merged(writer, &merge, &Reply::Array(Vec::new())));
        }
        let mut body = Vec::new();
        if flags.has(Flags::WRITE) {
            self.terms(partition).encode(flags, &mut body);
        }
        if let Some(permit) = access::permit_of(self, session, flags) {
            words::encode_permit(&permit, &mut body);
        }
        words::encode_transaction(watches.iter().map(|(key, revision)| (key, *revision)), &stored, &mut body);
        let slot = if flags.has(Flags::WRITE) {
            self.submit_write(session, partition, (crate::entry::Kind::Transaction, grows), Bytes::from(body))
        } else {
            self.submit_read(session, partition, ReadKind::Transaction, |out| out.extend_from_slice(&body))
        };
        if let Some(slot) = slot
            && !(merge.local.is_empty() && merge.later.is_empty())
        {
            if !merge.later.is_empty() {
                // What comes next on this connection comes after these.
                session.block = Some(Block::Slot(slot));
            }
            session.set_merge(slot, merge);
        }
    }

    /// The transaction is done: carries out what had to wait for that.
    pub(crate) fn run_later(&mut self, connection: ConnectionId, merge: &mut Merge) {
        let Some(mut session) = self.sessions.get_mut(&connection).and_then(Option::take) else { return };
        self.run_later_of(&mut session, merge);
        self.sessions.insert(connection, Some(session));
    }

    fn run_later_of(&mut self, session: &mut Session, merge: &mut Merge) {
        for (place, command) in std::mem::take(&mut merge.later) {
            let words = Words::new(command.as_ref());
            // What it writes has its place among the replies.
            let out = std::mem::take(&mut session.out);
            // Rights may have been taken while the transaction was on its way.
            if session.is_limited
                && let Err(failure) = access::check(self, session, words.as_slice())
            {
                self.refuse(session, &failure);
            } else if let Ok(commands::Run::Special(local)) = commands::find(words.as_slice()).map(|entry| &entry.run) {
                commands::pubsub::act(self, session, *local, words.as_slice());
            }
            merge.local.push((place, std::mem::replace(&mut session.out, out)));
        }
        merge.local.sort_by_key(|(place, _)| *place);
    }
}
