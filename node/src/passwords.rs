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
//! A password that was right is kept in memory under a key of its own ([`Shown`]), as long as the user has the password. After that a right one takes a microsecond again; a wrong one, too, once
//! each password of the user was shown.
//!
//! Strangers cannot make much of it: of all hosts [`UNDER_WAY_MAX`] passwords are tried at once, of one host [`UNDER_WAY_OF_HOST_MAX`]; a connection that shows the same as one before
//! waits for the same outcome; [`crate::guesses`] counts each that is wrong and slows down its host. Everybody else waits in order, hosts that were not wrong lately before others, and
//! no longer than a request may take. What waits is no more than the connections.

pub(crate) mod stored;
pub(crate) mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use base::Time;
use data::Failure;
use sha2::{Digest as _, Sha256};
use wire::ArgumentsRef;

use crate::access::{Judged, User, rules};
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
    Failure::Text("TRYAGAIN the password could not be tried: too many are, or there is no memory");

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

/// The outcomes of the work for a connection's command, until that command is carried out.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    outcomes: Vec<(Digest, PasswordOutcome)>,
    /// The password of its login is wrong, and was counted as a guess when it was tried.
    is_counted: bool,
}

/// True if the wrong password of the command that is carried out was counted already.
pub(crate) fn is_counted(session: &Session) -> bool {
    session.settled.as_ref().is_some_and(|settled| settled.is_counted)
}

/// True if the password of the command that is carried out was tried for it.
pub(crate) fn was_tried(session: &Session) -> bool {
    session.settled.as_ref().is_some_and(|settled| !settled.outcomes.is_empty())
}

/// The outcome of this work for the command of a connection, if it was done.
fn outcome_of<'s>(session: &'s Session, work: &PasswordWork) -> Option<&'s PasswordOutcome> {
    let name = name_of(work, session.id);
    let outcomes = &session.settled.as_ref()?.outcomes;
    outcomes.iter().find(|(known, _)| *known == name).map(|(_, outcome)| outcome)
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
    since: Time,
    /// None once it is under way.
    work: Option<PasswordWork>,
    connections: BTreeSet<ConnectionId>,
}

#[derive(Debug, Default)]
struct Host {
    under_way: usize,
    waiting: BTreeSet<u64>,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Passwords {
    /// By number, so that the oldest is the first.
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

    /// A connection of a host waits for this; the number of the work.
    fn ask(&mut self, connection: ConnectionId, host: IpAddr, work: PasswordWork, now: Time) -> u64 {
        let name = name_of(&work, connection);
        if let Some(number) = self.numbers.get(&name)
            && let Some(pending) = self.pending.get_mut(number)
        {
            pending.connections.insert(connection);
            return *number;
        }
        let number = self.next;
        self.next += 1;
        self.numbers.insert(name, number);
        let connections = BTreeSet::from([connection]);
        self.pending.insert(number, Pending { name, host, since: now, work: Some(work), connections });
        self.hosts.entry(host).or_default().waiting.insert(number);
        self.begin(host);
        number
    }

    /// Begins what is next of a host, if there is a place. True if it did.
    fn begin(&mut self, host: IpAddr) -> bool {
        let Some(of_host) = self.hosts.get_mut(&host) else { return false };
        if self.under_way >= UNDER_WAY_MAX || of_host.under_way >= UNDER_WAY_OF_HOST_MAX {
            return false;
        }
        let Some(number) = of_host.waiting.pop_first() else { return false };
        of_host.under_way += 1;
        self.under_way += 1;
        let work = self.pending.get_mut(&number).and_then(|pending| pending.work.take());
        self.new.extend(work.map(|work| (number, work)));
        true
    }

    /// A connection waits no more. What is under way goes on.
    pub(crate) fn leave(&mut self, connection: ConnectionId, number: u64) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        pending.connections.remove(&connection);
        if pending.connections.is_empty() && pending.work.is_some() {
            self.take_back(number);
        }
    }

    /// Takes back what is not under way.
    fn take_back(&mut self, number: u64) -> Option<Pending> {
        let pending = self.pending.remove(&number)?;
        self.numbers.remove(&pending.name);
        if let Some(of_host) = self.hosts.get_mut(&pending.host) {
            of_host.waiting.remove(&number);
        }
        self.forget(pending.host);
        Some(pending)
    }

    /// Takes back all of a host that is not under way.
    fn recall(&mut self, host: IpAddr) -> Vec<(u64, Pending)> {
        let waiting = self.hosts.get(&host).map(|of_host| of_host.waiting.clone());
        let numbers = waiting.into_iter().flatten();
        numbers.filter_map(|number| Some((number, self.take_back(number)?))).collect()
    }

    /// The oldest that is not under way, if it has waited for longer than this.
    fn overdue(&self, now: Time, most: Duration) -> Option<u64> {
        let mut old = self.pending.iter().take_while(|(_, pending)| pending.since + most <= now);
        old.find(|(_, pending)| pending.work.is_some()).map(|(number, _)| *number)
    }

    /// Work is done: who has waited for it.
    fn finish(&mut self, number: u64) -> Option<Pending> {
        let done = self.pending.remove(&number)?;
        self.numbers.remove(&done.name);
        self.under_way -= 1;
        if let Some(of_host) = self.hosts.get_mut(&done.host) {
            of_host.under_way -= 1;
        }
        self.forget(done.host);
        Some(done)
    }

    /// Begins what is next, for as long as there are places: first of hosts that have not been wrong lately.
    fn go_on(&mut self, was_wrong: impl Fn(IpAddr) -> bool) {
        let next = |(host, of_host): (&IpAddr, &Host)| {
            let number = of_host.waiting.first().filter(|_| of_host.under_way < UNDER_WAY_OF_HOST_MAX)?;
            Some((was_wrong(*host), *number, *host))
        };
        while self.under_way < UNDER_WAY_MAX
            && let Some((_, _, host)) = self.hosts.iter().filter_map(next).min()
        {
            self.begin(host);
        }
    }

    fn forget(&mut self, host: IpAddr) {
        if self.hosts.get(&host).is_some_and(|of_host| of_host.under_way == 0 && of_host.waiting.is_empty()) {
            self.hosts.remove(&host);
        }
    }
}

/// Keeps a command that shows a password until that has been tried, if nobody knows yet whether it is right. True if the command is not to be carried out now.
pub(crate) fn waits(
    node: &mut Node,
    session: &mut Session,
    arguments: ArgumentsRef<'_>,
    words: &[&[u8]],
    (name, password): (&[u8], &[u8]),
) -> bool {
    let work = match node.judge_login(name, password) {
        Judged::Untried(work) => work,
        judged => {
            // A wrong login that a transaction queues is a guess when it is queued: with thousands of them in one `EXEC` nobody would be slowed down.
            if judged == Judged::Wrong && session.queue.is_some() && !session.is_inside {
                node.note_guess(host_of(&session.address));
            }
            return false;
        }
    };
    match outcome_of(session, &work) {
        Some(PasswordOutcome::Failed) => {
            node.reject(session, words, &NOT_TRIED);
            true
        }
        // It is wrong: what was right is known by now.
        Some(_) => {
            if let Some(settled) = &mut session.settled {
                settled.is_counted = true;
            }
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
    let number = node.passwords.ask(session.id, host_of(&session.address), work, node.now.time);
    session.deferred = Some(arguments.to_owned());
    session.block = Some(Block::Password { number });
}

/// Keeps an `ACL SETUSER` until all is known of the passwords that it adds in the clear or takes away. True if the command is not to be carried out now.
pub(crate) fn waits_for_rules(
    node: &mut Node,
    session: &mut Session,
    arguments: ArgumentsRef<'_>,
    words: &[&[u8]],
) -> bool {
    let rules = words.get(3..).unwrap_or_default();
    let user = words[2];
    if rules.iter().filter(|rule| is_costly(node, user, rule)).count() > ORDER_PASSWORDS_MAX {
        node.refuse(
            session,
            &Failure::Text(
                "ERR one ACL SETUSER has 8 passwords in the clear at the most where some are under argon2id",
            ),
        );
        return true;
    }
    for rule in rules {
        let Some(work) = next_work(node, session, user, rule) else { continue };
        if outcome_of(session, &work) == Some(&PasswordOutcome::Failed) {
            node.refuse(session, &NOT_TRIED);
        } else {
            wait(node, session, arguments, work);
        }
        return true;
    }
    false
}

/// True for a rule with a password that may have to be tried or hashed.
fn is_costly(node: &Node, user: &[u8], rule: &[u8]) -> bool {
    let has_hashes = || node.access.get(user).is_some_and(|user| !user.hashes.is_empty());
    match rule {
        [b'>', ..] => node.config.hashes_passwords,
        [b'<', ..] => has_hashes(),
        _ => false,
    }
}

/// The work to be done next before a rule can be ordered; work that has failed, too.
fn next_work(node: &mut Node, session: &Session, user: &[u8], rule: &[u8]) -> Option<PasswordWork> {
    let password = match rule {
        _ if !is_costly(node, user, rule) => return None,
        [_, password @ ..] if password.len() <= PASSWORD_BYTES_MAX => password,
        _ => return None,
    };
    let is_open = |work: &PasswordWork| matches!(outcome_of(session, work), None | Some(PasswordOutcome::Failed));
    if let Some(user) = node.access.get(user)
        && let Some(work) = trial(user.hashes.iter(), password).filter(is_open)
    {
        return Some(work);
    }
    // A password that the user has already keeps its hash.
    if rule[0] == b'<' || node.access.get(user).is_some_and(|user| user.hash_of(password).is_some()) {
        return None;
    }
    let salt = node.secret_bytes()[..SALT_BYTES].try_into().ok()?;
    let task = Task::Hash(node.config.password_cost, salt);
    Some(PasswordWork { password: password.to_vec(), task }).filter(is_open)
}

/// The rules by which the council changes a user, of one that a client has said and that [`waits_for_rules`] has let pass: none of them has a password in it.
///
/// # Errors
/// The password is longer than one under argon2id may be.
pub(crate) fn rules_of(node: &Node, session: &Session, user: &[u8], rule: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
    let plain = || rules::without_password(rule);
    let known = node.access.get(user);
    match rule {
        [b'>', password @ ..] if node.config.hashes_passwords => {
            if password.len() > PASSWORD_BYTES_MAX {
                return Err(Failure::Text("ERR a password under argon2id has 4096 bytes at the most"));
            }
            let made = || {
                let task = Task::Hash(node.config.password_cost, [0; SALT_BYTES]);
                match outcome_of(session, &PasswordWork { password: password.to_vec(), task })? {
                    PasswordOutcome::Hashed(text) => Some(text.as_str()),
                    _ => None,
                }
            };
            let text = known.and_then(|user| user.hash_of(password)).or_else(made).ok_or(NOT_TRIED)?;
            // Its SHA-256 beside it would make the hash useless.
            let digest = rules::digest_of(password);
            let has_digest = known.is_some_and(|user| user.rules.passwords.contains(&digest));
            let add = text.as_bytes().to_vec();
            Ok(has_digest.then(|| format!("!{digest}").into_bytes()).into_iter().chain([add]).collect())
        }
        [b'<', password @ ..] => {
            let mut rules = known.map_or(Vec::new(), |user| user.rules_that_remove(password));
            if rules.is_empty() {
                // The council refuses it in Redis's words.
                rules.push(plain());
            }
            Ok(rules)
        }
        _ => Ok(vec![plain()]),
    }
}

/// Work is done.
pub(crate) fn tried(node: &mut Node, number: u64, work: &PasswordWork, outcome: &PasswordOutcome) {
    let Some(done) = node.passwords.finish(number) else { return };
    match outcome {
        PasswordOutcome::Fits(text) => {
            node.probe("passwords: one was found right");
            let key = node.secret_bytes();
            for user in node.access.iter() {
                user.hashes.iter().filter(|hash| hash.text == *text).for_each(|hash| hash.note(key, &work.password));
            }
        }
        // Also if nobody waits for it any more: a client that hangs up guesses as well.
        PasswordOutcome::FitsNone => node.note_guess(done.host),
        PasswordOutcome::Hashed(_) | PasswordOutcome::Failed => {}
    }
    release(node, number, done, Some(outcome));
    let (now, Node { passwords, guesses, .. }) = (node.now.time, node);
    passwords.go_on(|host| guesses.failures.has(host, now));
}

/// A host has been wrong so often that its passwords have to wait: what it has shown and nobody has begun to try waits with them.
pub(crate) fn slow_down(node: &mut Node, host: IpAddr) {
    for (number, pending) in node.passwords.recall(host) {
        release(node, number, pending, None);
    }
}

/// At every tick: what has waited for too long will not be tried.
pub(crate) fn tick(node: &mut Node) {
    let (now, most) = (node.now.time, node.config.request_timeout);
    while let Some(number) = node.passwords.overdue(now, most) {
        let Some(pending) = node.passwords.take_back(number) else { return };
        release(node, number, pending, Some(&PasswordOutcome::Failed));
    }
}

/// The connections go on that have waited for this work.
fn release(node: &mut Node, number: u64, pending: Pending, outcome: Option<&PasswordOutcome>) {
    for id in pending.connections {
        if let Some(Some(session)) = node.sessions.get_mut(&id)
            && session.block == Some(Block::Password { number })
        {
            session.block = None;
            let settled = outcome.map(|outcome| (pending.name, outcome.clone()));
            session.settled.get_or_insert_default().outcomes.extend(settled);
            node.resume(id);
        }
    }
}

impl User {
    /// Somebody has shown a password of this user that is under argon2id.
    pub(crate) fn has_shown_hash(&self) -> bool {
        self.hashes.iter().any(|hash| hash.shown.get().is_some())
    }

    /// The hash that this password is known to fit.
    fn hash_of(&self, password: &[u8]) -> Option<&str> {
        let fits = |hash: &&KnownHash| hash.fits(password) == Some(true);
        self.hashes.iter().find(fits).map(|hash| hash.text.as_str())
    }

    /// Rules that take a password away, if it is one of the user's.
    fn rules_that_remove(&self, password: &[u8]) -> Vec<Vec<u8>> {
        let digest = rules::digest_of(password);
        let plain = self.rules.passwords.iter().filter(|known| **known == digest);
        let hashed = self.hashes.iter().filter(|hash| hash.fits(password) == Some(true)).map(|hash| &hash.text);
        plain.chain(hashed).map(|text| format!("!{text}").into_bytes()).collect()
    }
}
