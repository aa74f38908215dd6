//! From a client's bytes to requests: parsing, and which command goes where.

use std::time::Duration;

use base::PartitionId;
use base::limits::{
    ARGUMENTS_PLAIN_MAX, CONNECTION_OUTPUT_BYTES_MAX, CONNECTION_PENDING_BYTES_MAX, KEY_BYTES_MAX, ONCE_ID_BYTES_MAX,
    WATCHED_KEYS_MAX,
};
use base::versions::Feature;
use bytes::Bytes;
use data::spec::{Flags, Spec};
use data::{Failure, Reply};
use wire::{ArgumentsRef, Foreign, ProtocolError, Request, RequestParser};

use crate::access::{self, lease};
use crate::audit;
use crate::choice::NOT_CHOSEN;
use crate::commands::access::Wanted as UserWanted;
use crate::commands::{self, Local};
use crate::copies::Wanted;
use crate::council::COUNCIL;
use crate::databases::Copy;
use crate::door::ConnectionId;
use crate::entry::Kind;
use crate::full_sync;
use crate::lane::Lane;
use crate::node::{Node, Stopping, place_of};
use crate::passwords;
use crate::reply;
use crate::router::ReadKind;
use crate::routing::{Combine, Route};
use crate::session::{Block, Queue, Session};
use crate::subscriptions;
use crate::words::{self, Words};

const STOPPING: &str = "CLUSTERDOWN this node is stopping; the command was not done, use another node";

/// Begins the answer to an `EXEC` that is refused. Redis's text, to the letter.
pub(crate) const DISCARDED: &str = "EXECABORT Transaction discarded because of: ";

impl Node {
    pub(crate) fn on_received(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(place) = self.sessions.get_mut(&id) else { return };
        let Some(mut session) = place.take() else { return };
        session.bytes_in += bytes.len() as u64;
        self.stats.bytes_in += bytes.len() as u64;
        session.last_active = self.now.time;
        // A block may have ended in this turn: what it held back comes first, in `go_on`.
        if session.is_ready() && session.deferred.is_none() && session.backlog.is_empty() {
            let taken = self.parse(&mut session, bytes);
            if !session.closing {
                session.backlog.push(&bytes[taken..]);
            }
        } else if !session.closing {
            session.backlog.push(bytes);
        }
        self.put_back(session);
    }

    /// Takes commands out of `bytes`, as many as can be taken now; of how many bytes these are.
    fn parse(&mut self, session: &mut Session, bytes: &[u8]) -> usize {
        let Some(mut parser) = session.parser.take() else { return bytes.len() };
        let mut rest = bytes;
        self.take_commands(session, &mut parser, &mut rest);
        session.parser = Some(parser);
        bytes.len() - rest.len()
    }

    fn take_commands(&mut self, session: &mut Session, parser: &mut RequestParser, rest: &mut &[u8]) {
        while session.is_ready() && !rest.is_empty() {
            if parser.limits().is_for_strangers == session.authenticated {
                parser.set_limits(self.request_limits(session.authenticated));
            }
            match parser.next(rest) {
                Ok(Some(Request::Command(arguments))) => self.command(session, arguments),
                Ok(Some(Request::TooLarge { bytes, bytes_max, .. })) => {
                    self.stats.note_error(&Failure::Text("ERR"));
                    if let Some(queue) = &mut session.queue {
                        queue.broken = true;
                    }
                    let is_one_word = bytes_max <= self.config.value_bytes_max;
                    session.reply(|writer| {
                        writer.error(&if is_one_word {
                            format!("ERR a value of {bytes} bytes is over the limit of {bytes_max} (--value-bytes-max)")
                        } else {
                            format!(
                                "ERR the command is too large: more than {bytes_max} bytes with the lengths of its words; nothing was done"
                            )
                        });
                    });
                }
                Ok(None) => return,
                Err(ProtocolError::Foreign(foreign)) => return self.close_foreign(session, foreign),
                Err(error) => {
                    self.stats.note_error(&Failure::Text("ERR"));
                    let mut text = Vec::new();
                    error.encode(&mut text);
                    session.reply(|writer| writer.buffer().extend_from_slice(&text));
                    session.closing = true;
                    return;
                }
            }
        }
    }

    fn put_back(&mut self, mut session: Box<Session>) {
        let id = session.id;
        session.push_afterwards();
        let full = session.is_full() || session.has_sent_enough();
        if full != session.paused {
            session.paused = full;
            self.pauses.push((id, full));
        }
        if session.out.len() > CONNECTION_OUTPUT_BYTES_MAX {
            session.out = Vec::new();
            session.closing = true;
            self.to_close.push(id);
        }
        if (!session.out.is_empty() || session.closing || session.is_through()) && !session.dirty {
            session.dirty = true;
            self.dirty.push(id);
        }
        self.sessions.insert(id, Some(session));
    }

    /// Answers a command with an error, at once.
    pub(crate) fn refuse(&mut self, session: &mut Session, failure: &Failure) {
        self.stats.note_error(failure);
        self.audit.note_error(failure);
        self.slow.durations.note_refusal(self.carrying);
        session.reply(|writer| reply::error(writer, failure));
    }

    /// Refuses a command before it is looked at, as Redis's `rejectCommand` does: an open transaction cannot be carried out any more, and it is over if the command was
    /// to end it.
    pub(crate) fn reject(&mut self, session: &mut Session, words: &[&[u8]], failure: &Failure) {
        if let Some(queue) = &mut session.queue {
            queue.broken = true;
        }
        if !words.first().is_some_and(|name| name.eq_ignore_ascii_case(b"exec")) {
            return self.refuse(session, failure);
        }
        session.queue = None;
        session.watches.clear();
        self.show(session, words);
        let failure = failure.to_string();
        let reason = failure.strip_prefix("ERR ").unwrap_or(&failure);
        let text = format!("{DISCARDED}{reason}");
        self.refuse(session, &Failure::built(text.as_bytes()));
    }

    /// The connection may go on, in the next pass.
    pub(crate) fn resume(&mut self, id: ConnectionId) {
        if let Some(Some(session)) = self.sessions.get_mut(&id)
            && !std::mem::replace(&mut session.resumes, true)
        {
            self.resume.push(id);
        }
    }

    /// Lets connections go on whose block is gone.
    pub(crate) fn go_on(&mut self) {
        for id in std::mem::take(&mut self.resume) {
            if let Some(Some(session)) = self.sessions.get_mut(&id) {
                session.resumes = false;
            }
            self.run_all_reads(id);
            let Some(mut session) = self.sessions.get_mut(&id).and_then(Option::take) else { continue };
            if session.is_ready()
                && let Some(arguments) = session.deferred.take()
            {
                self.command(&mut session, arguments.as_ref());
            }
            if session.is_ready() && !session.backlog.is_empty() {
                // Nothing is added to it meanwhile.
                let mut backlog = std::mem::take(&mut session.backlog);
                let taken = self.parse(&mut session, backlog.rest());
                if !session.closing {
                    backlog.take(taken);
                    session.backlog = backlog;
                }
            }
            self.put_back(session);
        }
    }

    fn command(&mut self, session: &mut Session, arguments: ArgumentsRef<'_>) {
        let is_client = || arguments.iter().next().is_some_and(|name| name.eq_ignore_ascii_case(b"client"));
        let said_before = session.tracked.as_deref().is_some_and(|tracked| tracked.caching) && !is_client();
        self.carrying = "";
        let asked = audit::asked(self, session, arguments);
        self.carry_out_command(session, arguments);
        self.carrying = "";
        if let Some(asked) = asked {
            audit::took(self, session, asked);
        }
        if session.deferred.is_none() {
            session.settled = None;
            self.large_writes.forget(session.id);
        }
        // CLIENT CACHING is for one command, or one transaction.
        if said_before
            && session.queue.is_none()
            && session.deferred.is_none()
            && let Some(tracked) = session.tracked.as_deref_mut()
        {
            tracked.caching = false;
        }
    }

    fn carry_out_command(&mut self, session: &mut Session, arguments: ArgumentsRef<'_>) {
        let words = Words::new(arguments);
        let words = words.as_slice();
        session.commands += 1;
        self.stats.commands += 1;
        let Some(name) = words.first() else { return };
        if matches!(self.stopping, Some(Stopping::Draining { .. } | Stopping::Stopped)) {
            if session.is_inside {
                return self.reject(session, words, &Failure::Text(STOPPING));
            }
            // Without a word: see `Node::let_clients_go`.
            session.closing = true;
            return;
        }
        if !session.authenticated && !commands::without_password(name) {
            if wire::http::is_redis_warning(name) {
                return self.close_foreign(session, Foreign::Http);
            }
            return self.refuse(session, &Failure::Text("NOAUTH Authentication required."));
        }
        if lease::waits(self, session, arguments, words) {
            return;
        }
        if let Some(login) = commands::shown_login(words)
            && (self.waits_as_guess(session, arguments, login)
                || passwords::waits(self, session, arguments, words, login))
        {
            return;
        }
        if session.is_limited
            && let Err(failure) = access::check(self, session, words)
        {
            return self.reject(session, words, &failure);
        }
        if let Some(failure) = commands::pubsub::refusal(session, words) {
            return self.reject(session, words, &failure);
        }
        if self.waits_for_pause(session, arguments, words) || self.waits_for_its_turn(session, arguments, words) {
            return;
        }
        if words.len() > ARGUMENTS_PLAIN_MAX && !self.has(Feature::ManyWords) {
            let text = "ERR a command has 1048576 words at the most while nodes of earlier versions are in the cluster";
            return self.reject(session, words, &Failure::Text(text));
        }
        self.find_bucket_again(session);
        if session.queue.is_some() && !commands::runs_inside_multi(name) {
            return self.queue(session, arguments, words);
        }
        if let Some(entry) = data::lookup(name) {
            session.last_command = entry.spec.name_of(words);
            self.carrying = session.last_command;
            let is_copy = entry.spec.name == "copy" && session.redirected.is_none();
            match if is_copy { self.copy_elsewhere(session, arguments, words) } else { Copy::Plain } {
                Copy::Plain => {}
                Copy::Within(within) => return self.carry_out_command(session, within.as_ref()),
                Copy::Taken => return,
            }
            if let Err(failure) = data::check_words(entry, words).and_then(|()| self.check_version(entry, words)) {
                return self.refuse(session, &failure);
            }
            if !session.aim_at(session.bucket, arguments) {
                return;
            }
            session.choice.is_made = true;
            if let Err(failure) = self.check_values(session.bucket, entry.spec, words) {
                return self.refuse(session, &failure);
            }
            if let Some(failure) = self.redirection(session, entry.spec, words) {
                return self.refuse(session, &failure);
            }
            if let Some(partitions) = self.all_databases(session, entry.spec) {
                if session.pending() > 0 {
                    return session.drain(arguments);
                }
                self.show(session, words);
                let parts = partitions.into_iter().map(|it| (it, arguments.to_owned())).collect();
                // What it has on its way is for several buckets until then.
                let slot = self.submit_several(session, entry.spec, parts, Combine::First);
                session.block = slot.map(Block::Slot).or(session.block);
                return;
            }
            match self.route(session, entry.spec, words) {
                Ok(Route::One(partition)) => self.carry_out_at(session, partition, entry.spec, arguments, words),
                Ok(Route::Several { parts, .. })
                    if session.lanes.iter().any(|lane| {
                        lane.looks > 0 || (entry.spec.flags.has(Flags::WRITE) && lane.has_many_reads())
                    }) || parts
                        .iter()
                        .any(|(it, _)| self.turns_around(session, *it, entry.spec.flags.has(Flags::WRITE))) =>
                {
                    session.drain(arguments)
                }
                Ok(Route::Several { parts, how }) => {
                    self.show(session, words);
                    self.submit_several(session, entry.spec, parts, how);
                }
                Err(failure) => self.refuse(session, &failure),
            }
            return;
        }
        match commands::find(words) {
            Err(_) if wire::http::is_redis_warning(name) => self.close_foreign(session, Foreign::Http),
            Err(failure) => self.reject(session, words, &failure),
            Ok(entry) => {
                session.last_command = entry.spec.name;
                self.carrying = entry.spec.name;
                match entry.run {
                    commands::Run::Reply(_) | commands::Run::Container(_) => {
                        if self.looks_for_user(session, arguments, words) {
                            return;
                        }
                        self.show(session, words);
                        let answer = commands::run_local(self, session, words);
                        if self.slow.wants(Duration::ZERO) {
                            self.slow.note(self.clock.own(), Duration::ZERO, words, &session.address, &session.name);
                        }
                        self.slow.durations.note(entry.spec.name, Duration::ZERO);
                        if let Reply::Error(failure) = &answer {
                            self.audit.note_error(failure);
                            self.slow.durations.note_failure(entry.spec.name);
                        }
                        session.reply(|writer| reply::write(writer, &answer));
                    }
                    commands::Run::Special(special) => {
                        let aim = match special {
                            Local::Exec
                            | Local::Watch
                            | Local::Once
                            | Local::Outcome
                            | Local::Token
                            | Local::Age
                            | Local::Move
                            | Local::Migrate
                            | Local::SubscribeToChanges
                            | Local::Backup(_) => {
                                session.choice.is_made = true;
                                session.bucket
                            }
                            Local::Bucket(_) | Local::Node(_) | Local::ConfigSet | Local::User(_) => COUNCIL.bucket,
                            // What is not known here may have been created a moment ago.
                            Local::Select if session.redirected.is_some() => session.aim,
                            Local::Select if self.find_bucket(words[1]).is_err() => COUNCIL.bucket,
                            _ => session.aim,
                        };
                        // What they tell is what the commands before them have seen.
                        // What they publish, and what they hear from then on, comes after these.
                        let is_last = match special {
                            Local::Token
                            | Local::Age
                            | Local::Move
                            | Local::Migrate
                            | Local::Backup(_)
                            | Local::FullSync => true,
                            Local::Subscribe(_) | Local::Unsubscribe(_) | Local::Publish(_) => true,
                            Local::SubscribeToChanges | Local::UnsubscribeFromChanges => true,
                            Local::Exec => session.queue.as_ref().is_some_and(|queue| queue.acts),
                            _ => false,
                        };
                        if session.aim_at(aim, arguments) {
                            let has_looks = session.lanes.iter().any(|lane| lane.looks > 0 || lane.has_many_reads());
                            let is_rules = special == Local::User(UserWanted::Set);
                            if is_rules && passwords::waits_for_rules(self, session, arguments, words) {
                                return;
                            }
                            if has_looks || (is_last && session.pending() > 0) || self.turns_around_anywhere(session) {
                                session.drain(arguments);
                            } else {
                                // EXEC is shown behind what it carries out.
                                if special != Local::Exec {
                                    self.show(session, words);
                                }
                                self.special(session, special, words);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Carries out a command of `data` that is for one partition.
    fn carry_out_at(
        &mut self,
        session: &mut Session,
        partition: PartitionId,
        spec: &Spec,
        arguments: ArgumentsRef<'_>,
        words: &[&[u8]],
    ) {
        let looks = self.looks_first(session, partition, spec);
        let writes = spec.flags.has(Flags::WRITE);
        let waits_for_reads = |lane: &Lane| (lane.looks > 0 && !looks) || lane.has_many_reads();
        if (writes && session.lane(partition).is_some_and(waits_for_reads))
            || self.turns_around(session, partition, writes)
        {
            return session.drain(arguments);
        }
        self.notice(partition, spec, words);
        self.show(session, words);
        let wait = if spec.flags.has(Flags::BLOCKING) { data::waiting::wait_of(words) } else { None };
        if writes {
            let terms = self.terms(partition);
            let mut body = Vec::with_capacity(terms.encoded_bytes(spec.flags) + arguments.encoded_bytes());
            terms.encode(spec.flags, &mut body);
            if let Some(permit) = access::permit_of(self, session, spec.flags) {
                words::encode_permit(&permit, &mut body);
            }
            arguments.encode_into(&mut body);
            let body = Bytes::from(body);
            let grows = self.words_need_room(partition, spec, words);
            match wait {
                Some(wait) => self.submit_waiting(session, partition, wait, body, grows),
                None if looks => self.submit_look(session, partition, &body),
                None => self.submit_command(session, partition, (spec, grows), body),
            }
        } else {
            match wait {
                Some(wait) => self.submit_waiting_read(session, partition, wait, arguments),
                None => {
                    let permit = access::permit_of(self, session, spec.flags);
                    self.submit_read(session, partition, ReadKind::Command, |out| {
                        permit.iter().for_each(|permit| words::encode_permit(permit, out));
                        arguments.encode_into(out);
                    });
                }
            }
        }
    }

    fn special(&mut self, session: &mut Session, special: Local, words: &[&[u8]]) {
        match special {
            Local::Multi if session.queue.is_some() => {
                self.refuse(session, &Failure::Text("ERR MULTI calls can not be nested"));
            }
            Local::Multi => {
                session.queue = Some(Queue::default());
                session.reply(|writer| writer.ok());
            }
            Local::Exec => self.exec(session, words),
            Local::Discard if session.queue.is_none() => {
                self.refuse(session, &Failure::Text("ERR DISCARD without MULTI"));
            }
            Local::Discard => {
                session.queue = None;
                session.watches.clear();
                session.reply(|writer| writer.ok());
            }
            Local::Watch => self.watch(session, &words[1..]),
            Local::Unwatch => {
                session.watches.clear();
                session.reply(|writer| writer.ok());
            }
            Local::Quit => {
                session.reply(|writer| writer.ok());
                session.closing = true;
            }
            Local::ClientReply => commands::client_reply(self, session, words),
            Local::Wait => self.wait(session, words),
            Local::Shutdown => commands::shutdown(self, session, words),
            Local::Once => self.once(session, words),
            Local::Select => self.select(session, words[1]),
            Local::Move => self.move_key(session, words),
            Local::Migrate => self.migrate(session, words),
            Local::Backup(wanted) => self.back_up(session, wanted, words),
            Local::FullSync => full_sync::begin(self, session, words),
            Local::ConfigSet => commands::config::set(self, session, words),
            Local::User(wanted) => commands::access::order(self, session, wanted, words),
            Local::Bucket(wanted) => commands::bucket::run(self, session, wanted, words),
            Local::Node(wanted) => commands::nodes::run(self, session, wanted, words),
            Local::Durability => commands::levels::durability(self, session, words),
            Local::Consistency => commands::levels::consistency(self, session, words),
            Local::Token => commands::levels::token(self, session),
            Local::Age => commands::levels::age(self, session),
            Local::Subscribe(_) | Local::Unsubscribe(_) | Local::Publish(_) => {
                commands::pubsub::act(self, session, special, words);
            }
            Local::SubscribeToChanges => subscriptions::command::subscribe(self, session, words),
            Local::UnsubscribeFromChanges => subscriptions::command::unsubscribe(self, session, words),
            Local::Outcome => self.outcome(session, words[1]),
        }
    }

    fn select(&mut self, session: &mut Session, word: &[u8]) {
        if let Some(redirected) = &mut session.redirected {
            return match commands::cluster::select(word) {
                Ok(_) => {
                    // In none, it is in that of the listener from the next command on.
                    redirected.has_chosen &= session.bucket != NOT_CHOSEN;
                    session.reply(|writer| writer.ok());
                }
                Err(failure) => {
                    session.has_not_selected();
                    self.refuse(session, &failure);
                }
            };
        }
        match self.find_bucket(word).map(|bucket| bucket.id) {
            Ok(id) => match session.select(id) {
                Ok(()) => session.reply(|writer| writer.ok()),
                Err(failure) => self.refuse(session, &failure),
            },
            Err(_) if let Some(number) = self.database_to_make(word) => {
                session.has_not_selected();
                self.select_new(session, number);
            }
            Err(_) => {
                session.has_not_selected();
                let submitted = self.submit_read(session, COUNCIL, ReadKind::Select, |out| out.extend_from_slice(word));
                session.block = submitted.map(Block::Slot).or(session.block);
            }
        }
    }

    fn watch(&mut self, session: &mut Session, keys: &[&[u8]]) {
        if session.queue.is_some() {
            return self.refuse(session, &Failure::Text("ERR WATCH inside MULTI is not allowed"));
        }
        if session.watches.len() + keys.len() > WATCHED_KEYS_MAX {
            return self.refuse(session, &Failure::Text("ERR too many watched keys"));
        }
        if keys.iter().any(|key| key.len() > KEY_BYTES_MAX) {
            return self.refuse(session, &Failure::KeyTooLong);
        }
        // They go with the transaction, and may have been watched by many commands.
        if session.watches.bytes() + keys.iter().map(|key| key.len()).sum::<usize>() > CONNECTION_PENDING_BYTES_MAX {
            return self.refuse(session, &Failure::Text("ERR too many bytes of watched keys"));
        }
        if let Some(failure) = self.redirection_of(session, keys.iter().copied(), false) {
            return self.refuse(session, &failure);
        }
        let partition = match self.partition_of_keys(session, keys.iter().copied()) {
            Ok(partition) => partition,
            Err(failure) => return self.refuse(session, &failure),
        };
        // What comes next on this connection may be an EXEC: it needs the revisions.
        let submitted = self
            .submit_read(session, partition, ReadKind::Revisions, |out| words::encode_keys(keys.iter().copied(), out));
        session.block = submitted.map(Block::Slot).or(session.block);
    }

    fn once(&mut self, session: &mut Session, words: &[&[u8]]) {
        let (id, command) = (words[1], &words[2..]);
        let refused = match data::check(command).and_then(|entry| self.check_version(entry, command).map(|()| entry)) {
            Err(failure) => Some(failure),
            Ok(entry) if !entry.spec.flags.has(Flags::WRITE) => {
                Some(Failure::Text("ERR DICTUM.ONCE is for commands that write"))
            }
            Ok(entry) if self.check_values(session.bucket, entry.spec, command).is_err() => Some(Failure::ValueTooLong),
            Ok(_) if id.is_empty() || id.len() > ONCE_ID_BYTES_MAX => {
                Some(Failure::Text("ERR an identifier has 1 to 256 bytes"))
            }
            Ok(_) => None,
        };
        if let Some(failure) = refused {
            return self.refuse(session, &failure);
        }
        let Some(entry) = data::lookup(command[0]) else { return };
        if let Some(failure) = self.redirection(session, entry.spec, command) {
            return self.refuse(session, &failure);
        }
        let partition = match self.route_to_one(session, entry.spec, command) {
            Ok(partition) => partition,
            Err(failure) => return self.refuse(session, &failure),
        };
        let mut body = Vec::new();
        self.terms(partition).encode(entry.spec.flags, &mut body);
        if let Some(permit) = access::permit_of(self, session, entry.spec.flags) {
            words::encode_permit(&permit, &mut body);
        }
        words::encode_once(id, command.iter().copied(), &mut body);
        let grows = self.words_need_room(partition, entry.spec, command);
        self.submit_write(session, partition, (Kind::Once, grows), Bytes::from(body));
    }

    /// `DICTUM.OUTCOME`: the partition that knows is that of the command's keys, which are not said.
    fn outcome(&mut self, session: &mut Session, id: &[u8]) {
        let partitions = self.partitions_selected(session);
        let groups: Option<Vec<usize>> =
            partitions.iter().map(|partition| place_of(&self.groups, *partition)).collect();
        let Some(groups) = groups else { return self.refuse_without_group(session) };
        let slot = session.open_parts(0, groups.len(), Combine::Found);
        for (place, g) in groups.into_iter().enumerate() {
            let part = Session::part_of(slot, place);
            self.read_in_slot(session, g, ReadKind::Outcome, part, |out| out.extend_from_slice(id));
        }
    }

    fn wait(&mut self, session: &mut Session, words: &[&[u8]]) {
        let (wanted, timeout) = match Wanted::parse(words) {
            Ok(asked) => asked,
            Err(failure) => return self.refuse(session, &failure),
        };
        let slot = session.open_slot(0);
        session.block = Some(Block::Copies { slot, wanted, timeout, until: None });
        self.waits.push(session.id);
    }

    /// While a command is on its way through the log, or waits for its read position, its keys may come from the disk.
    fn notice(&self, partition: PartitionId, spec: &Spec, words: &[&[u8]]) {
        if let Some(g) = place_of(&self.groups, partition) {
            self.groups[g].partition.notice(spec, words);
        }
    }
}
