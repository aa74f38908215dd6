//! Users, and what each of them may do: Redis's ACL, of which all nodes know the same, because the council keeps it.
//!
//! ```text
//!   ACL SETUSER ──► order of the council ──► rules (texts, the same at all nodes)
//!                                              │ each node, when it has applied the order
//!                                              ▼
//!                      session ── user ── rights (numbers of commands, patterns): looked at before each command
//! ```
//! A command is judged at the node that its client is connected to, once. What that node passes on to others is not judged again: they know it as a member.
//!
//! A connection is the user `default` until it says another name. Until somebody changes it, it is what the node was started with: everything, with the password
//! of the node if it has one.

mod acting;
pub(crate) mod compiled;
pub(crate) mod lease;
pub(crate) mod log;
pub mod logins;
pub(crate) mod permit;
pub(crate) mod roles;
pub(crate) mod rules;
pub(crate) mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::versions::Feature;
use bytes::Bytes;
use data::permit::RefusedCall;
use data::spec::Flags;
use data::{Failure, Tree};
use wire::Malformed;

use crate::audit;
use crate::commands::split_user_name;
use crate::door::{ConnectionId, Planted};
use crate::node::Node;
use crate::passwords::work::PasswordWork;
use crate::passwords::{self, KnownHash};
use crate::pubsub::audience::Kind;
use crate::session::Session;
use crate::subscriptions::filter::Filter;
use compiled::{Denied, Rights};
use lease::Lease;
use log::{CLIENT_NAME_BYTES_MAX, RefusalLog, Refused};
use logins::Logins;
use rules::{Rules, digest_of};
use stored::Users;

/// The user that a connection is until it says another name.
pub(crate) const DEFAULT: &[u8] = b"default";
/// How many lines `ACL LOG` keeps, unless `acllog-max-len` says otherwise.
pub(crate) const LOG_LINES: usize = 128;
/// Beyond that nobody reads it.
const LOG_LINES_MAX: usize = 10_000;

/// A user.
#[derive(Debug)]
pub(crate) struct User {
    pub name: Vec<u8>,
    pub rules: Rules,
    pub rights: Rights,
    /// Those of its passwords that are under argon2id.
    pub hashes: Vec<KnownHash>,
}

/// Whether a password is right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Judged {
    Right,
    Wrong,
    /// Nobody knows before this is done.
    Untried(PasswordWork),
}

impl User {
    fn new(name: &[u8], rules: Rules) -> Arc<User> {
        let hashes = rules.passwords.iter().filter_map(|text| KnownHash::new(text)).collect();
        Arc::new(User { name: name.to_vec(), rights: Rights::new(&rules), hashes, rules })
    }

    /// Whether this password makes a connection this user now. A wrong one takes as long, unless it has to be tried.
    pub(crate) fn judge(&self, password: &[u8]) -> Judged {
        let given = digest_of(password);
        // All are compared, each wholly.
        let fits =
            self.rules.passwords.iter().fold(false, |fits, digest| fits | same(digest.as_bytes(), given.as_bytes()));
        let fits = self.hashes.iter().fold(fits, |fits, hash| fits | (hash.fits(password) == Some(true)));
        match self.rules.is_on {
            true if self.rules.no_password || fits => Judged::Right,
            true => passwords::trial(self.hashes.iter(), password).map_or(Judged::Wrong, Judged::Untried),
            false => Judged::Wrong,
        }
    }

    /// True if a client needs the same password for this user as for the other one.
    fn lets_in_as(&self, other: &User) -> bool {
        let of = |user: &User| (user.rules.is_on, user.rules.no_password, user.rules.passwords.clone());
        of(self) == of(other)
    }

    /// True if a connection is this user without a password.
    fn is_open(&self) -> bool {
        self.rules.is_on && self.rules.no_password
    }
}

/// See [`AccessControl::meant`]. None if `default` is not there.
fn meant<'a, 'b>(users: &'a BTreeMap<Vec<u8>, Arc<User>>, name: &'b [u8]) -> Option<(&'a Arc<User>, Option<&'b [u8]>)> {
    if let Some(user) = users.get(name) {
        return Some((user, None));
    }
    let parts = split_user_name(name).and_then(|(user, bucket)| Some((users.get(user)?, Some(bucket))));
    parts.or_else(|| Some((users.get(DEFAULT)?, Some(name))))
}

/// Compares in a time that does not tell how much was right.
pub(crate) fn same(expected: &[u8], given: &[u8]) -> bool {
    let differences = expected.iter().zip(given).fold(0, |bits, (a, b)| bits | (a ^ b));
    // The compiler must not see that a first difference decides. The length may show.
    expected.len() == given.len() && std::hint::black_box(differences) == 0
}

/// The users of this node.
#[derive(Debug)]
pub(crate) struct AccessControl {
    /// As the council has them, for all that this node has applied.
    stored: Users,
    /// The bytes that these were read from.
    followed: Bytes,
    users: BTreeMap<Vec<u8>, Arc<User>>,
    /// Also among the users.
    default: Arc<User>,
    /// The user of connections that are parts of this process: these judge their own clients.
    inside: Arc<User>,
    pub(crate) log: RefusalLog,
    pub(crate) lease: Lease,
    /// The owner knows the users that there are.
    is_told: bool,
}

impl AccessControl {
    /// Of a node with this password, that knows of no users yet.
    pub(crate) fn new(password: Option<&str>) -> AccessControl {
        let default = User::new(DEFAULT, default_rules(password));
        AccessControl {
            stored: Users::default(),
            followed: Bytes::new(),
            users: BTreeMap::from([(DEFAULT.to_vec(), Arc::clone(&default))]),
            default,
            inside: User::new(DEFAULT, Rules::of_default()),
            log: RefusalLog::default(),
            lease: Lease::default(),
            // Until somebody changes users the password of the node is all that it needs.
            is_told: true,
        }
    }

    /// The users in the council's state, if they are others than those that were followed last. Up to a mebibyte, which most orders do not touch.
    ///
    /// # Errors
    /// They are not those of this version.
    pub(crate) fn news(&self, tree: &Tree) -> Result<Option<News>, Malformed> {
        let bytes = Users::bytes(tree)?;
        if bytes == self.followed {
            return Ok(None);
        }
        Ok(Some(News { users: Users::decode(&bytes)?, bytes }))
    }

    /// The users, if the owner has not been told of these yet.
    pub(crate) fn tell(&mut self) -> Option<Logins> {
        let is_told = std::mem::replace(&mut self.is_told, true);
        (!is_told).then(|| Logins::new(&self.users))
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// The user that a name means which is shown with a password, and the name of the bucket that is said with it: of `user@bucket`, or the name itself, for which
    /// `default` comes.
    pub(crate) fn meant<'a>(&self, name: &'a [u8]) -> (&Arc<User>, Option<&'a [u8]>) {
        meant(&self.users, name).unwrap_or((&self.default, Some(name)))
    }

    /// All of them, by their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }

    pub(crate) fn default(&self) -> &Arc<User> {
        &self.default
    }

    pub(crate) fn inside(&self) -> &Arc<User> {
        &self.inside
    }

    /// True if a new connection is `default` at once.
    pub(crate) fn is_open(&self) -> bool {
        self.default.is_open()
    }

    /// True once somebody has changed the user `default`. Until then each node has its own password for it.
    pub(crate) fn has_stored_default(&self) -> bool {
        self.stored.get(DEFAULT).is_some()
    }

    /// Takes the users of the council, and the password of the node, which counts until somebody has changed `default`. Users that have not changed stay the same.
    fn take(&mut self, stored: Users, password: Option<&str>) {
        let mut users = BTreeMap::new();
        let own = stored.get(DEFAULT).is_none().then(|| (DEFAULT, default_rules(password)));
        let of_council = stored.iter().map(|(name, rules)| (name, rules.clone()));
        for (name, rules) in own.into_iter().chain(of_council) {
            let user = match self.users.get(name) {
                Some(user) if user.rules == rules => Arc::clone(user),
                before => {
                    let user = User::new(name, rules);
                    for known in before.iter().flat_map(|user| &user.hashes) {
                        user.hashes.iter().for_each(|hash| hash.learn_from(known));
                    }
                    user
                }
            };
            users.insert(name.to_vec(), user);
        }
        if let Some(default) = users.get(DEFAULT) {
            self.default = Arc::clone(default);
        }
        (self.stored, self.users) = (stored, users);
        self.is_told = false;
    }
}

fn default_rules(password: Option<&str>) -> Rules {
    let mut rules = Rules::of_default();
    if let Some(password) = password {
        rules.no_password = false;
        rules.passwords = vec![digest_of(password.as_bytes())];
    }
    rules
}

/// Users of the council that a node does not go by yet, and the bytes that they were read from.
pub(crate) struct News {
    users: Users,
    bytes: Bytes,
}

/// Goes by the users of the council, if they are others than before.
pub(crate) fn follow(node: &mut Node, news: Option<News>) {
    if let Some(news) = news {
        node.access.followed = news.bytes;
        let before = std::mem::take(&mut node.access.stored);
        audit::followed_users(node, &before, &news.users);
        renew(node, news.users);
        // Somebody may wait for the word of this node that it goes by them.
        node.next_ping = node.now.time;
    }
    let (has_users, removed, now) = (!node.access.stored.is_empty(), lease::removed(node), node.now.time);
    node.access.lease.follow(has_users, removed, now);
}

/// The node's password is another one now.
pub(crate) fn on_password(node: &mut Node, password: String) {
    node.config.password = Some(password);
    let stored = node.access.stored.clone();
    renew(node, stored);
}

/// Takes other users: connections get the rights that theirs have now, and those are closed whose user is gone or that listen to what they may not hear any more.
fn renew(node: &mut Node, stored: Users) {
    node.access.take(stored, node.config.password.as_deref());
    // Protected mode depends on whether `default` needs a password.
    node.protected_told = false;
    if node.config.planted == Some(Planted::RightsKept) {
        return;
    }
    let mut gone: Vec<ConnectionId> = Vec::new();
    let is_open = node.access.is_open();
    for session in node.sessions.values_mut().flatten().filter(|session| !session.is_own()) {
        // It came in without a password, and now `default` needs one.
        let was_let_in = session.authenticated;
        session.authenticated &= session.has_logged_in || is_open;
        let is_put_out = was_let_in && !session.authenticated;
        match node.access.users.get(&session.user.name) {
            Some(user) if Arc::ptr_eq(user, &session.user) => {}
            Some(user) => {
                // HTTP has let its client in by what the user was before.
                let is_let_in_anew = session.acts_for_user && !user.lets_in_as(&session.user);
                session.become_user(Arc::clone(user));
                // Subscriptions, MONITOR, waits and tracking go on without a further command, so they are judged now.
                let may = |words: &[&[u8]]| user.rights.check(words, String::new).is_ok();
                let hears = Kind::ALL
                    .into_iter()
                    .all(|kind| session.names_of(kind).all(|name| user.rights.may_listen(name, kind)));
                let sees = !node.monitors.contains(&session.id) || may(&[b"monitor"]);
                let goes_on = session.is_waiting() || session.tracked.is_some() || session.subscribed_to_changes > 0;
                let gets_anything = goes_on || node.monitors.contains(&session.id) || session.listens();
                if is_let_in_anew
                    || (is_put_out && gets_anything)
                    || !hears
                    || !sees
                    || (goes_on && !user.rights.has_all())
                {
                    gone.push(session.id);
                }
            }
            None => gone.push(session.id),
        }
    }
    if !gone.is_empty() {
        node.probe("access: connections closed whose rights were taken");
    }
    for id in gone {
        node.throw_out(id);
    }
}

impl Node {
    /// The users that this node knows, as `ACL LIST` tells them: for checkers.
    #[must_use]
    pub fn users(&self) -> Vec<String> {
        let line = |user: &Arc<User>| {
            let name = String::from_utf8_lossy(&user.name).into_owned();
            format!("{name} {}", String::from_utf8_lossy(&user.rules.line()))
        };
        self.access.iter().map(line).collect()
    }

    /// A connection that has other rights than this node knows for its user, if there is one: for checkers.
    #[must_use]
    pub fn stale_rights(&self) -> Option<String> {
        let is_stale = |session: &Session| {
            let known = self.access.get(&session.user.name);
            !session.is_own() && !session.closing && known.is_none_or(|user| !Arc::ptr_eq(user, &session.user))
        };
        let stale = self.sessions.values().flatten().map(AsRef::as_ref).find(|session| is_stale(session))?;
        Some(format!("{:?} of {} has rights of another time", stale.id, String::from_utf8_lossy(&stale.user.name)))
    }
}

/// Judges a command of a connection by the rights of its user. A refusal gets a line in the log.
///
/// # Errors
/// The answer for the client.
pub(crate) fn check(node: &mut Node, session: &Session, words: &[&[u8]]) -> Result<(), Failure> {
    let judged = match acting::bucket_of(node, session, words) {
        Some(bucket) => session.user.rights.check_bucket(bucket),
        None if !node.has(Feature::ScriptPermits) && session.user.rights.runs_limited(words) => {
            Err(Denied::scripts("not all nodes of the cluster judge what scripts call"))
        }
        None => session.user.rights.check(words, || bucket_name(node, session)),
    };
    let Err(denied) = judged else { return Ok(()) };
    Err(refuse(node, session, &denied))
}

/// Judges a subscription to changes by the rights of its user. A refusal gets a line in the log.
///
/// # Errors
/// The answer for the client.
pub(crate) fn check_filter(node: &mut Node, session: &Session, filter: &Filter) -> Result<(), Failure> {
    let judged = session.user.rights.check_filter(filter, || bucket_name(node, session));
    judged.map_err(|denied| refuse(node, session, &denied))
}

/// Notes that a command is refused, and says so in an answer for its client.
fn refuse(node: &mut Node, session: &Session, denied: &Denied) -> Failure {
    let (reason, object) = match denied {
        Denied::Command(name) | Denied::Whole(name, ..) => ("command", name.as_bytes().to_vec()),
        Denied::Key(key) => ("key", key.clone()),
        Denied::Channel(channel) => ("channel", channel.clone()),
        Denied::Bucket(bucket) => ("database", bucket.clone().into_bytes()),
    };
    let context = if session.queue.is_some() { "multi" } else { "toplevel" };
    let failure = Failure::built(&[b"NOPERM ".as_slice(), &text(denied, &session.user.name, false)].concat());
    node.probe("access: a command was refused");
    note_refusal(node, (session, &session.user), context, reason, object);
    failure
}

/// Notes calls that a script of a connection was refused where it ran, here; `slot`: that of its answer.
pub(crate) fn note_calls(node: &mut Node, (connection, slot): (ConnectionId, u64), calls: Vec<RefusedCall>) {
    let Some(session) = node.sessions.get_mut(&connection).and_then(Option::take) else { return };
    let user = session.script_user(slot);
    node.probe("access: a script's call was refused");
    for refused in calls {
        let (reason, object) = match refused {
            RefusedCall::Command(name) => ("command", name),
            RefusedCall::Key(key) => ("key", key),
            RefusedCall::Channel(channel) => ("channel", channel),
            RefusedCall::Pattern(_) => continue,
        };
        note_refusal(node, (&session, &user), "lua", reason, object);
    }
    node.sessions.insert(connection, Some(session));
}

/// Tells `ACL LOG` and the audit trail of a refusal.
fn note_refusal(
    node: &mut Node,
    (session, user): (&Session, &User),
    context: &'static str,
    reason: &'static str,
    object: Vec<u8>,
) {
    audit::refused(node, session, &user.name, reason, &object);
    let user = user.name.clone();
    note(node, session, Refused { reason, context, object, user });
}

/// What the scripts of a command with these flags may call, if it runs any and their user may not do everything: a part of the body of its entry or read.
pub(crate) fn permit_of(node: &Node, session: &mut Session, flags: Flags) -> Option<Vec<u8>> {
    let is_judged = flags.has(Flags::RUNS) && !session.user.rights.has_all();
    is_judged.then(|| {
        session.note_script();
        session.user.rights.permit(&bucket_name(node, session))
    })
}

/// The answer to `EXEC` when a command of its transaction is not allowed any more.
pub(crate) fn changed_since(failure: &Failure) -> Failure {
    let text = failure.to_string();
    let why = text.strip_prefix("NOPERM ").unwrap_or(&text);
    let said = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason:";
    Failure::built(format!("{said} {why}").as_bytes())
}

/// Puts a line into `ACL LOG`.
pub(crate) fn note(node: &mut Node, session: &Session, refused: Refused) {
    let most = node.settings.get("acllog-max-len").and_then(|text| text.parse().ok());
    let client = crate::commands::line_of(node, session, CLIENT_NAME_BYTES_MAX);
    let now = node.clock.own();
    node.access.log.note(refused, client, now, most.unwrap_or(LOG_LINES).min(LOG_LINES_MAX));
}

/// The name of the bucket that a connection has selected.
pub(crate) fn bucket_name(node: &Node, session: &Session) -> String {
    node.buckets.of(session.bucket).map(|bucket| bucket.name.clone()).unwrap_or_default()
}

/// The text of a refusal, in Redis's words; `ACL DRYRUN` names keys and channels.
pub(crate) fn text(denied: &Denied, user: &[u8], names: bool) -> Vec<u8> {
    match denied {
        Denied::Command(name) => {
            [b"User ", user, b" has no permissions to run the '", name.as_bytes(), b"' command"].concat()
        }
        Denied::Whole(name, rules, why) => {
            format!("this form of '{name}' is for users with the rules {rules}: {why}").into_bytes()
        }
        Denied::Key(key) if names => {
            [b"User ", user, b" has no permissions to access the '", key.as_slice(), b"' key"].concat()
        }
        Denied::Key(_) => b"No permissions to access a key".to_vec(),
        Denied::Channel(channel) if names => {
            [b"User ", user, b" has no permissions to access the '", channel.as_slice(), b"' channel"].concat()
        }
        Denied::Channel(_) => b"No permissions to access a channel".to_vec(),
        Denied::Bucket(bucket) => format!("No permissions to access the bucket '{bucket}'").into_bytes(),
    }
}
