//! Passwords under argon2id: a guess costs 20 ms of a processor and 19 MiB, so they are tried away from the loop, each at most once.
//!
//! ```text
//!   AUTH ann secret ──► known already? ──yes──► right or wrong, within the turn
//!                          │ no
//!                          ▼
//!        the connection waits ([`Block::Password`]); Outbox::password_work ──► Input::PasswordTried
//!                          │                                                        │
//!                          └── the command is carried out from its start ◄── what fits is noted at its hash
//! ```
//! What is right is kept in memory under a key of its own ([`Shown`]), as long as the user has the password. After that a right one takes a microsecond again, and a wrong one,
//! too: it is not the one that is known.
//!
//! Strangers cannot make much of it: of all hosts [`UNDER_WAY_MAX`] passwords are tried at once, of one host [`UNDER_WAY_OF_HOST_MAX`]; whoever shows the same as somebody before
//! waits for the same outcome; [`crate::guesses`] slows down who is wrong. Everybody else waits in order, and what waits is no more than the connections.

pub(crate) mod stored;
pub(crate) mod work;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::OnceLock;

use data::Failure;
use sha2::{Digest as _, Sha256};
use wire::ArgumentsRef;

use crate::access::{Judged, User};
use crate::commands;
use crate::door::ConnectionId;
use crate::guesses::host_of;
use crate::node::Node;
use crate::session::{Block, Session};
use stored::{SALT_BYTES, StoredHash};
use work::{PasswordOutcome, PasswordWork, Task};

/// Most passwords that are tried at once.
const UNDER_WAY_MAX: usize = 4;
/// Most of one host.
const UNDER_WAY_OF_HOST_MAX: usize = 2;
/// Longest password that is put under argon2id. A longer one fits none.
pub(crate) const PASSWORD_BYTES_MAX: usize = 4096;
/// Most passwords in one `ACL SETUSER` that have to be tried or hashed.
const ORDER_PASSWORDS_MAX: usize = 8;

const NOT_TRIED: Failure =
    Failure::Text("ERR the password could not be tried, as there is no memory for it: try again later");

type Digest = [u8; 32];

/// A password that was found right, so that it is known again.
#[derive(Debug)]
struct Shown {
    key: Digest,
    digest: Digest,
}

impl Shown {
    fn new(key: Digest, password: &[u8]) -> Shown {
        Shown { key, digest: Shown::digest(&key, password) }
    }

    fn digest(key: &Digest, password: &[u8]) -> Digest {
        Sha256::new().chain_update(key).chain_update(password).finalize().into()
    }

    fn is(&self, password: &[u8]) -> bool {
        crate::access::same(&self.digest, &Shown::digest(&self.key, password))
    }
}

/// A user's password under argon2id, and which one it is once somebody has shown it.
#[derive(Debug)]
pub(crate) struct KnownHash {
    /// As the user's rule says it.
    pub text: String,
    stored: StoredHash,
    shown: OnceLock<Shown>,
}

impl KnownHash {
    /// None if this is no such password.
    pub(crate) fn new(text: &str) -> Option<KnownHash> {
        Some(KnownHash { stored: StoredHash::read(text)?, text: text.to_owned(), shown: OnceLock::new() })
    }

    /// None if nobody knows yet.
    pub(crate) fn fits(&self, password: &[u8]) -> Option<bool> {
        self.shown.get().map(|shown| shown.is(password))
    }

    /// It was found to be this password. `key`: drawn for this.
    pub(crate) fn note(&self, key: Digest, password: &[u8]) {
        self.shown.get_or_init(|| Shown::new(key, password));
    }

    /// Knows what another one of the same text knows.
    pub(crate) fn learn_from(&self, other: &KnownHash) {
        if self.text == other.text
            && let Some(shown) = other.shown.get()
        {
            self.shown.get_or_init(|| Shown { key: shown.key, digest: shown.digest });
        }
    }
}

/// Work that finds out which of these a password fits; none if it is known of all of them that it does not.
pub(crate) fn trial<'a>(hashes: impl Iterator<Item = &'a KnownHash>, password: &[u8]) -> Option<PasswordWork> {
    let unknown: Vec<StoredHash> =
        hashes.filter(|hash| hash.fits(password).is_none()).map(|hash| hash.stored.clone()).collect();
    let can_fit = password.len() <= PASSWORD_BYTES_MAX && !unknown.is_empty();
    can_fit.then(|| PasswordWork { password: password.to_vec(), task: Task::Try(unknown) })
}

/// What has come of the work for a connection's command, until that command is carried out.
#[derive(Debug, Default)]
pub(crate) struct Settled(Vec<(Digest, PasswordOutcome)>);

impl Settled {
    fn get(&self, work: &PasswordWork, of: ConnectionId) -> Option<&PasswordOutcome> {
        let digest = name_of(work, of);
        self.0.iter().find(|(known, _)| *known == digest).map(|(_, outcome)| outcome)
    }
}

/// Names work. What two connections have tried is the same work; what they have hashed has salts of its own.
fn name_of(work: &PasswordWork, of: ConnectionId) -> Digest {
    let sha = match &work.task {
        Task::Try(hashes) => hashes.iter().fold(Sha256::new(), |sha, hash| sha.chain_update(hash.to_string())),
        Task::Hash(..) => Sha256::new().chain_update(of.0.to_le_bytes()),
    };
    // No hash has a zero byte, so where the password begins is certain.
    sha.chain_update([0]).chain_update(&work.password).finalize().into()
}

/// Work that somebody waits for.
#[derive(Debug)]
struct Pending {
    name: Digest,
    host: IpAddr,
    /// None once it is under way.
    work: Option<PasswordWork>,
    connections: Vec<ConnectionId>,
}

#[derive(Debug, Default)]
struct Host {
    under_way: usize,
    waiting: VecDeque<u64>,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Passwords {
    pending: BTreeMap<u64, Pending>,
    numbers: BTreeMap<Digest, u64>,
    /// Hosts of what is pending.
    hosts: BTreeMap<IpAddr, Host>,
    under_way: usize,
    next: u64,
    /// For [`crate::Outbox::password_work`].
    new: Vec<(u64, PasswordWork)>,
}

impl Passwords {
    /// Work to be given to the owner.
    pub(crate) fn take_new(&mut self) -> std::vec::Drain<'_, (u64, PasswordWork)> {
        self.new.drain(..)
    }

    /// A connection waits for this; the number of the work.
    fn ask(&mut self, connection: ConnectionId, host: IpAddr, work: PasswordWork) -> u64 {
        let name = name_of(&work, connection);
        if let Some(number) = self.numbers.get(&name)
            && let Some(pending) = self.pending.get_mut(number)
        {
            pending.connections.push(connection);
            return *number;
        }
        let number = self.next;
        self.next += 1;
        self.numbers.insert(name, number);
        self.pending.insert(number, Pending { name, host, work: Some(work), connections: vec![connection] });
        self.hosts.entry(host).or_default().waiting.push_back(number);
        self.begin(host);
        number
    }

    /// Begins what is next of a host, if there is a place. True if it did.
    fn begin(&mut self, host: IpAddr) -> bool {
        let Some(of_host) = self.hosts.get_mut(&host) else { return false };
        if self.under_way >= UNDER_WAY_MAX || of_host.under_way >= UNDER_WAY_OF_HOST_MAX {
            return false;
        }
        let Some(number) = of_host.waiting.pop_front() else { return false };
        of_host.under_way += 1;
        self.under_way += 1;
        let work = self.pending.get_mut(&number).and_then(|pending| pending.work.take());
        self.new.extend(work.map(|work| (number, work)));
        true
    }

    /// A connection waits no more. What is under way goes on.
    pub(crate) fn leave(&mut self, connection: ConnectionId, number: u64) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        pending.connections.retain(|waiting| *waiting != connection);
        if pending.connections.is_empty() && pending.work.is_some() {
            let (name, host) = (pending.name, pending.host);
            self.pending.remove(&number);
            self.numbers.remove(&name);
            if let Some(of_host) = self.hosts.get_mut(&host) {
                of_host.waiting.retain(|waiting| *waiting != number);
            }
            self.forget(host);
        }
    }

    /// Work is done: who has waited for it. Other work begins in its place.
    fn finish(&mut self, number: u64) -> Option<Pending> {
        let done = self.pending.remove(&number)?;
        self.numbers.remove(&done.name);
        self.under_way -= 1;
        if let Some(of_host) = self.hosts.get_mut(&done.host) {
            of_host.under_way -= 1;
        }
        self.forget(done.host);
        let first = |(host, of_host): (&IpAddr, &Host)| {
            let number = of_host.waiting.front().filter(|_| of_host.under_way < UNDER_WAY_OF_HOST_MAX)?;
            Some((*number, *host))
        };
        while let Some((_, host)) = self.hosts.iter().filter_map(first).min() {
            if !self.begin(host) {
                break;
            }
        }
        Some(done)
    }

    /// Takes back what is not under way of a host: who has waited for it, with the number of the work.
    fn recall(&mut self, host: IpAddr) -> Vec<(ConnectionId, u64)> {
        let Some(of_host) = self.hosts.get_mut(&host) else { return Vec::new() };
        let mut recalled = Vec::new();
        for number in std::mem::take(&mut of_host.waiting) {
            let Some(pending) = self.pending.remove(&number) else { continue };
            self.numbers.remove(&pending.name);
            recalled.extend(pending.connections.into_iter().map(|connection| (connection, number)));
        }
        self.forget(host);
        recalled
    }

    fn forget(&mut self, host: IpAddr) {
        if self.hosts.get(&host).is_some_and(|of_host| of_host.under_way == 0 && of_host.waiting.is_empty()) {
            self.hosts.remove(&host);
        }
    }
}

/// Keeps a command that shows a password until that has been tried, if nobody knows yet whether it is right. True if it did.
pub(crate) fn waits(node: &mut Node, session: &mut Session, arguments: ArgumentsRef<'_>, words: &[&[u8]]) -> bool {
    if !commands::logs_in(words) {
        return false;
    }
    let Some((name, password)) = commands::shown_login(words) else { return false };
    let Judged::Untried(work) = node.judge_login(name, password) else {
        session.settled = None;
        return false;
    };
    match session.settled.as_ref().and_then(|settled| settled.get(&work, session.id)) {
        Some(PasswordOutcome::Failed) => {
            session.settled = None;
            node.refuse(session, &NOT_TRIED);
            true
        }
        // It is wrong: what was right is known by now.
        Some(_) => {
            session.settled = None;
            false
        }
        None => {
            wait(node, session, arguments, work);
            true
        }
    }
}

fn wait(node: &mut Node, session: &mut Session, arguments: ArgumentsRef<'_>, work: PasswordWork) {
    node.probe("passwords: a command waits until its password has been tried");
    let number = node.passwords.ask(session.id, host_of(&session.address), work);
    session.deferred = Some(arguments.to_owned());
    session.block = Some(Block::Password { number });
}

/// Keeps an `ACL SETUSER` until each password that it adds in the clear has been hashed, and each that it takes away has been tried. True if it did, or has refused the command.
pub(crate) fn waits_for_rules(
    node: &mut Node,
    session: &mut Session,
    arguments: ArgumentsRef<'_>,
    words: &[&[u8]],
) -> bool {
    let mut count = 0;
    for rule in words.get(3..).unwrap_or_default() {
        let Some(work) = work_for(node, words[2], rule) else { continue };
        count += 1;
        if count > ORDER_PASSWORDS_MAX {
            session.settled = None;
            node.refuse(
                session,
                &Failure::Text("ERR one ACL SETUSER has 8 passwords at the most while they are kept under argon2id"),
            );
            return true;
        }
        match session.settled.as_ref().and_then(|settled| settled.get(&work, session.id)) {
            Some(PasswordOutcome::Failed) => {
                session.settled = None;
                node.refuse(session, &NOT_TRIED);
                return true;
            }
            Some(_) => {}
            None => {
                wait(node, session, arguments, work);
                return true;
            }
        }
    }
    false
}

/// What has to be computed before a rule can be ordered.
fn work_for(node: &mut Node, user: &[u8], rule: &[u8]) -> Option<PasswordWork> {
    match rule {
        [b'>', password @ ..] if node.config.hashes_passwords && password.len() <= PASSWORD_BYTES_MAX => {
            let salt = node.secret_bytes()[..SALT_BYTES].try_into().ok()?;
            let task = Task::Hash(node.config.password_cost, salt);
            Some(PasswordWork { password: password.to_vec(), task })
        }
        [b'<', password @ ..] => trial(node.access.get(user)?.hashes.iter(), password),
        _ => None,
    }
}

/// The rules by which the council changes a user, of one that a client has said: none of them has a password in it.
///
/// # Errors
/// The password is longer than one under argon2id may be.
pub(crate) fn rules_of(node: &mut Node, session: &Session, user: &[u8], rule: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
    match rule {
        [b'>', password @ ..] if node.config.hashes_passwords => {
            if password.len() > PASSWORD_BYTES_MAX {
                return Err(Failure::Text("ERR a password under argon2id has 4096 bytes at the most"));
            }
            let settled = work_for(node, user, rule)
                .and_then(|work| session.settled.as_ref().and_then(|settled| settled.get(&work, session.id)));
            let Some(PasswordOutcome::Hashed(text)) = settled else {
                // Settings have changed while the command waited.
                return Err(Failure::Text("ERR passwords are kept under argon2id since a moment ago: try again"));
            };
            Ok(vec![text.clone().into_bytes()])
        }
        [b'<', password @ ..] => {
            let plain = crate::access::rules::without_password(rule);
            let Some(user) = node.access.get(user) else { return Ok(vec![plain]) };
            let mut rules = user.rules_that_remove(password);
            if rules.is_empty() {
                // The council refuses it in Redis's words.
                rules.push(plain);
            }
            Ok(rules)
        }
        _ => Ok(vec![crate::access::rules::without_password(rule)]),
    }
}

/// Work is done.
pub(crate) fn tried(node: &mut Node, number: u64, work: &PasswordWork, outcome: &PasswordOutcome) {
    let Some(done) = node.passwords.finish(number) else { return };
    if let PasswordOutcome::Fits(text) = outcome {
        node.probe("passwords: one was found right");
        let key = node.secret_bytes();
        for user in node.access.iter() {
            user.hashes.iter().filter(|hash| hash.text == *text).for_each(|hash| hash.note(key, &work.password));
        }
    }
    for id in done.connections {
        release(node, id, number, Some((done.name, outcome.clone())));
    }
}

/// A host has been wrong so often that its passwords have to wait: what it has shown and nobody has begun to try waits with them.
pub(crate) fn slow_down(node: &mut Node, host: IpAddr) {
    for (id, number) in node.passwords.recall(host) {
        release(node, id, number, None);
    }
}

/// A connection goes on that has waited for this work.
fn release(node: &mut Node, id: ConnectionId, number: u64, settled: Option<(Digest, PasswordOutcome)>) {
    if let Some(Some(session)) = node.sessions.get_mut(&id)
        && session.block == Some(Block::Password { number })
    {
        session.block = None;
        if let Some(settled) = settled {
            session.settled.get_or_insert_default().0.push(settled);
        }
        node.resume(id);
    }
}

impl User {
    /// Somebody has shown a password of this user that is under argon2id.
    pub(crate) fn has_shown_hash(&self) -> bool {
        self.hashes.iter().any(|hash| hash.shown.get().is_some())
    }

    /// Rules that take a password away, if it is one of the user's.
    fn rules_that_remove(&self, password: &[u8]) -> Vec<Vec<u8>> {
        let digest = crate::access::rules::digest_of(password);
        let plain = self.rules.passwords.iter().filter(|known| **known == digest);
        let hashed = self.hashes.iter().filter(|hash| hash.fits(password) == Some(true)).map(|hash| &hash.text);
        plain.chain(hashed).map(|text| format!("!{text}").into_bytes()).collect()
    }
}
