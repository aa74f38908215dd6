//! `dictum user`: users as people give and see them, by the commands of Redis's ACL.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde::Serialize;
use wire::Value;

use crate::cli::asked::{self, Asked, end, line_of_json};
use crate::cli::connection::{Connection, Endpoint};
use crate::secrets;
use crate::status::{Output, aligned, columns};

/// Random bytes of a password that is made here.
const PASSWORD_BYTES: usize = 32;

/// A shorter password may be one that somebody can guess, once they have its digest.
const PASSWORD_CHARACTERS_MIN: usize = 20;

/// A selector of a user: a command has to be allowed by one of them wholly.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
struct Rights {
    /// Rules such as `+@read`, each behind those that it changes.
    commands: String,
    /// Such as `~cart:*` or `%R~stock:*`.
    keys: Vec<String>,
    /// Such as `&news`.
    channels: Vec<String>,
    /// Such as `bucket=shop`; none: all buckets.
    buckets: Option<Vec<String>>,
}

/// A user: what `ACL GETUSER` answers, and what `dictum user show --json` prints. Digests of passwords are left out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
struct UserInfo {
    name: String,
    /// Nobody logs in as a user that is off.
    on: bool,
    /// Every password is right.
    no_password: bool,
    /// How many passwords are right.
    passwords: usize,
    /// The role whose commands it has.
    role: Option<&'static str>,
    /// Rules that change those of the role; all of them where there is no role.
    rules: String,
    #[serde(flatten)]
    rights: Rights,
    /// Other rights beside these.
    selectors: Vec<Rights>,
}

fn text(value: &Value) -> String {
    value.as_bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

fn words_of(value: &Value) -> Vec<String> {
    text(value).split_ascii_whitespace().map(str::to_owned).collect()
}

/// Names and values, of RESP3 (a map) or RESP2 (in turn).
fn pairs(reply: &Value) -> Option<Vec<(&Value, &Value)>> {
    match reply {
        Value::Map(pairs) => Some(pairs.iter().map(|(name, value)| (name, value)).collect()),
        Value::Array(flat) => Some(flat.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect()),
        _ => None,
    }
}

impl Rights {
    fn read(reply: &Value) -> Option<Rights> {
        let mut rights = Rights::default();
        for (name, value) in pairs(reply)? {
            match name.as_bytes()? {
                b"commands" => rights.commands = text(value),
                b"keys" => rights.keys = words_of(value),
                b"channels" => rights.channels = words_of(value),
                b"buckets" => rights.buckets = Some(words_of(value)),
                _ => {}
            }
        }
        Some(rights)
    }

    /// The role with these commands, and the rules behind it; otherwise all rules.
    fn role(&self) -> (Option<&'static str>, &str) {
        match node::role_of(&self.commands) {
            Some((role, rules)) => (Some(role), rules),
            None => (None, &self.commands),
        }
    }

    fn shown_buckets(&self) -> String {
        match &self.buckets {
            None => "all".to_owned(),
            // `resetbuckets` says that there are none.
            Some(rules) => listed(rules.iter().filter_map(|rule| rule.strip_prefix("bucket="))),
        }
    }

    fn shown_commands(&self) -> String {
        match self.role() {
            (Some(role), "") => role.to_owned(),
            (Some(role), rules) => format!("{role} {rules}"),
            (None, rules) => rules.to_owned(),
        }
    }
}

impl UserInfo {
    /// Reads what `ACL GETUSER` answers.
    fn read(user: &str, reply: &Value) -> Option<UserInfo> {
        let rights = Rights::read(reply)?;
        let (role, rules) = rights.role();
        let mut info = UserInfo { name: user.to_owned(), role, rules: rules.to_owned(), rights, ..UserInfo::default() };
        for (name, value) in pairs(reply)? {
            let items = match value {
                Value::Array(items) | Value::Set(items) => items.as_slice(),
                _ => &[],
            };
            match name.as_bytes()? {
                b"flags" => {
                    let has = |flag: &[u8]| items.iter().any(|item| item.as_bytes() == Some(flag));
                    (info.on, info.no_password) = (has(b"on"), has(b"nopass"));
                }
                b"passwords" => info.passwords = items.len(),
                b"selectors" => info.selectors = items.iter().map(Rights::read).collect::<Option<_>>()?,
                _ => {}
            }
        }
        Some(info)
    }

    fn login(&self) -> String {
        match (self.on, self.no_password, self.passwords) {
            (false, ..) => "off".to_owned(),
            (true, true, _) => "no password".to_owned(),
            (true, false, 0) => "of the node".to_owned(),
            (true, false, 1) => "password".to_owned(),
            (true, false, count) => format!("{count} passwords"),
        }
    }
}

fn listed<T: AsRef<str>>(all: impl Iterator<Item = T>) -> String {
    let text = all.map(|one| one.as_ref().to_owned()).collect::<Vec<_>>().join(" ");
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Arguments of `dictum user`.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Roles: viewer looks at the cluster, without keys; reader reads keys; writer reads and writes them; operator also drains nodes and \
    pauses clients, without keys; admin does everything. docs/security.md has the table.\n\n\
    Examples:\n  \
    dictum user add ann --role writer --bucket shop --keys 'cart:*'       shows a new password, once\n  \
    dictum user add app --role writer --keys '*' --new-password-file FILE\n  \
    dictum user add root --role admin\n  \
    dictum user list --user root --password-file root.password\n  \
    dictum user passwd ann --keep         a second password, until all have the new one\n  \
    dictum user remove ann                closes its connections at all nodes\n\n\
    The same by RESP: ACL SETUSER, ACL GETUSER, ACL DELUSER. Who asks says so with --user and --password-file, which are not those of the new user.\n\n\
    Exit code: 0 if it was done, 1 if not, or if no node answers."
)]
pub struct UserArguments {
    #[command(subcommand)]
    action: Action,
    /// How wide tables are.
    #[arg(short = 'o', long, global = true, value_enum, value_name = "WIDTH", default_value_t)]
    output: Output,
    #[command(flatten)]
    asked: Asked,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Adds a user. Without --new-password-file its password is made here and shown once, at a terminal.
    Add {
        /// Up to 256 bytes without spaces.
        name: String,
        /// Which commands it may run.
        #[arg(long, value_parser = PossibleValuesParser::new(node::ROLES), required_unless_present = "rules")]
        role: Option<String>,
        /// A bucket that it may use; may be said several times. All of them, if none is said.
        #[arg(long = "bucket", value_name = "BUCKET")]
        buckets: Vec<String>,
        /// Keys that it may read and write, as a pattern: 'cart:*'; may be said several times.
        #[arg(long = "keys", value_name = "PATTERN")]
        keys: Vec<String>,
        /// Keys that it may only read; may be said several times.
        #[arg(long = "read-keys", value_name = "PATTERN")]
        read_keys: Vec<String>,
        /// Channels that it may publish to and listen to, as a pattern; may be said several times.
        #[arg(long = "channels", value_name = "PATTERN")]
        channels: Vec<String>,
        /// A rule of ACL SETUSER, behind all others: -del, +keys, '(role=reader ~stock:*)'; may be said several times.
        #[arg(long = "rule", value_name = "RULE", allow_hyphen_values = true)]
        rules: Vec<String>,
        #[command(flatten)]
        password: NewPassword,
    },
    /// Lists all users: their roles, keys and buckets.
    List,
    /// Shows what a user may do.
    Show {
        /// Its name.
        name: String,
    },
    /// Removes a user, and closes its connections at all nodes.
    Remove {
        /// Its name.
        name: String,
    },
    /// Gives a user another password. Connections that it has stay.
    Passwd {
        /// Its name.
        name: String,
        /// The passwords that it has go on being right, too.
        #[arg(long)]
        keep: bool,
        #[command(flatten)]
        password: NewPassword,
    },
}

#[derive(Args, Debug)]
pub(crate) struct NewPassword {
    /// File whose first line is the user's password. It is sent and kept under argon2id.
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
}

/// Carries out `dictum user …`.
#[must_use]
pub fn run(arguments: UserArguments) -> ExitCode {
    end("dictum user", carry_out(arguments))
}

/// The text to print, or the reason why nothing was done.
fn carry_out(arguments: UserArguments) -> Result<String, String> {
    let UserArguments { action, output, asked } = arguments;
    let json = asked.json;
    let shown = |user: &UserInfo| if json { line_of_json(user) } else { details(user) };
    match action {
        Action::List => {
            let mut node = Conversation::open(&asked)?;
            let users = node.users()?;
            Ok(if json { line_of_json(&users) } else { table(&users, output) })
        }
        Action::Show { name } => Conversation::open(&asked)?.show(&name).map(|user| shown(&user)),
        Action::Remove { name } => {
            let mut node = Conversation::open(&asked)?;
            if node.ask(&["ACL", "DELUSER", &name])?.as_integer() == Some(0) {
                return Err(nobody(&name));
            }
            let removed = serde_json::json!({ "removed": name });
            Ok(if json { line_of_json(&removed) } else { format!("{name} is removed\n") })
        }
        Action::Add { name, role, buckets, keys, read_keys, channels, rules, password } => {
            let wanted = wanted(role.as_deref(), &buckets, &keys, &read_keys, &channels, &rules)?;
            let secret = Secret::choose(&password)?;
            let mut node = Conversation::open(&asked)?;
            if node.find(&name)?.is_some() {
                return Err(format!(
                    "there is a user {name} already: `dictum user show {name}` tells what it may do, ACL SETUSER changes it"
                ));
            }
            // `reset` removes rules that somebody else has given in between.
            let first = ["ACL", "SETUSER", &name, "reset", "on"].map(str::to_owned);
            node.ask(&[&first[..], &[secret.rule()], &wanted].concat())?;
            secret.show(&name).map_err(|error| unshown(&name, &error))?;
            node.show(&name).map(|user| shown(&user))
        }
        Action::Passwd { name, keep, password } => {
            let secret = Secret::choose(&password)?;
            let mut node = Conversation::open(&asked)?;
            node.show(&name)?;
            let mut words = ["ACL", "SETUSER", &name].map(str::to_owned).to_vec();
            words.extend((!keep).then(|| "resetpass".to_owned()));
            words.push(secret.rule());
            node.ask(&words)?;
            secret.show(&name).map_err(|error| unshown(&name, &error))?;
            node.show(&name).map(|user| shown(&user))
        }
    }
}

/// The rules of a new user, behind its password.
fn wanted(
    role: Option<&str>,
    buckets: &[String],
    keys: &[String],
    read_keys: &[String],
    channels: &[String],
    rules: &[String],
) -> Result<Vec<String>, String> {
    let has_keys = !(keys.is_empty() && read_keys.is_empty());
    match role {
        Some("admin") if has_keys || !channels.is_empty() => {
            return Err("an admin has all keys and channels: leave --keys, --read-keys and --channels away".to_owned());
        }
        Some(role @ ("reader" | "writer")) if !has_keys && rules.is_empty() => {
            return Err(format!("a {role} needs keys: --keys 'cart:*', or --keys '*' for all"));
        }
        _ => {}
    }
    if rules.iter().any(|rule| rule.starts_with(['>', '<', '#', '!', '$'])) {
        return Err(
            "a password is no --rule: every user of this machine can see it there. Use --new-password-file FILE"
                .to_owned(),
        );
    }
    let mut words: Vec<String> = role.iter().map(|role| format!("role={role}")).collect();
    words.extend(keys.iter().map(|pattern| format!("~{pattern}")));
    words.extend(read_keys.iter().map(|pattern| format!("%R~{pattern}")));
    words.extend(channels.iter().map(|pattern| format!("&{pattern}")));
    words.extend(buckets.iter().map(|bucket| format!("bucket={bucket}")));
    words.extend(rules.iter().cloned());
    Ok(words)
}

/// The rule of `ACL SETUSER` that adds a password which is kept so.
pub(crate) fn rule_of(kept: &str) -> String {
    if kept.starts_with('$') { kept.to_owned() } else { format!("#{kept}") }
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let failed = |error: io::Error| format!("there is no randomness for a password: /dev/urandom: {error}");
    File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes)).map_err(failed)?;
    Ok(bytes)
}

/// The password of a user: of a file, or made here.
pub(crate) struct Secret {
    text: String,
    is_new: bool,
    /// As it is kept: its SHA-256 if it was made here, as nobody guesses that; under argon2id if somebody may have chosen it.
    kept: String,
}

impl Secret {
    pub(crate) fn choose(given: &NewPassword) -> Result<Secret, String> {
        if let Some(path) = &given.new_password_file {
            let text = secrets::read_file(path)?;
            if text.chars().count() < PASSWORD_CHARACTERS_MIN {
                eprintln!(
                    "dictum: warning: the password has less than {PASSWORD_CHARACTERS_MIN} characters. It is kept under argon2id: who gets hold of that, from a disk or \
                     a backup, can guess a short one all the same, slowly. `openssl rand -hex 32` makes one that nobody guesses"
                );
            }
            let salt = random()?;
            let kept = node::password_hash(text.as_bytes(), &salt)
                .ok_or("there is no memory for argon2id, which takes 19 MiB")?;
            return Ok(Secret { text, is_new: false, kept });
        }
        if !io::stderr().is_terminal() {
            return Err("there is no terminal to show a new password at: give one by --new-password-file FILE \
                        (to make one: `openssl rand -hex 32`). Nothing was done."
                .to_owned());
        }
        let bytes: [u8; PASSWORD_BYTES] = random()?;
        let mut text = String::new();
        for byte in bytes {
            write!(text, "{byte:02x}").expect("a string takes all text");
        }
        let kept = node::password_digest(text.as_bytes());
        Ok(Secret { text, is_new: true, kept })
    }

    /// The rule that adds it. The password itself stays here.
    fn rule(&self) -> String {
        rule_of(&self.kept)
    }

    /// As it is kept: its SHA-256, or its hash under argon2id.
    pub(crate) fn kept(&self) -> &str {
        &self.kept
    }

    /// Shows it, if nobody knows it yet: at the terminal, not where the output goes, which may be kept.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn show(&self, name: &str) -> io::Result<()> {
        if !self.is_new {
            return Ok(());
        }
        writeln!(io::stderr().lock(), "The password of {name}, shown this once: {}", self.text)
    }
}

/// A connection to a node, and where it is.
struct Conversation {
    endpoint: Endpoint,
    connection: Connection,
}

impl Conversation {
    fn open(asked: &Asked) -> Result<Conversation, String> {
        asked.open().map(|(endpoint, connection)| Conversation { endpoint, connection })
    }

    fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Value, String> {
        let endpoint = &self.endpoint;
        let reply = self.connection.call(words).map_err(|error| {
            format!(
                "the node at {endpoint} does not answer: {error}\n  If something was to be changed, `dictum user list` tells whether it is. \
                 If you have removed or limited the user that you are here, that ends its connections."
            )
        })?;
        match reply.as_error() {
            Some(error) => Err(advised(error, endpoint)),
            None => Ok(reply),
        }
    }

    /// A user, if there is one of this name.
    fn find(&mut self, name: &str) -> Result<Option<UserInfo>, String> {
        let reply = self.ask(&["ACL", "GETUSER", name])?;
        if reply == Value::Null {
            return Ok(None);
        }
        let user = UserInfo::read(name, &reply);
        user.map(Some).ok_or_else(|| self.strange())
    }

    fn show(&mut self, name: &str) -> Result<UserInfo, String> {
        self.find(name)?.ok_or_else(|| nobody(name))
    }

    /// All of them, but for those that are removed in between.
    fn users(&mut self) -> Result<Vec<UserInfo>, String> {
        let reply = self.ask(&["ACL", "USERS"])?;
        let names: Vec<String> = reply.as_array().ok_or_else(|| self.strange())?.iter().map(text).collect();
        let mut users = Vec::new();
        for name in names {
            users.extend(self.find(&name)?);
        }
        Ok(users)
    }

    fn strange(&self) -> String {
        format!("the server at {} answered something that this version cannot read", self.endpoint)
    }
}

fn unshown(name: &str, error: &io::Error) -> String {
    format!(
        "the user {name} has a password that cannot be shown: {error}\n  `dictum user passwd {name}` makes another one"
    )
}

fn nobody(name: &str) -> String {
    format!("there is no user {name}: `dictum user list` shows those that there are")
}

/// A node's error, and advice to a person.
fn advised(error: &str, endpoint: &Endpoint) -> String {
    let advice = "Users are for an admin: log in as one with --user NAME and --password-file FILE.";
    asked::advised(error, endpoint, "dictum user list", |code, _| (code == "NOPERM").then_some(advice))
}

/// All users for people.
fn table(users: &[UserInfo], output: Output) -> String {
    let head = ["name", "login", "role", "keys", "buckets", "channels", "rules"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(users.iter().map(|it| {
        let others = if it.selectors.is_empty() { "" } else { " (…)" };
        vec![
            it.name.clone(),
            it.login(),
            it.role.unwrap_or("-").to_owned() + others,
            listed(it.rights.keys.iter()),
            it.rights.shown_buckets(),
            listed(it.rights.channels.iter()),
            listed(it.rules.split_ascii_whitespace()),
        ]
    }));
    columns(&rows, &[], &[5, 6], output)
}

/// One user for people.
fn details(it: &UserInfo) -> String {
    let mut rows = vec![vec!["name".to_owned(), it.name.clone()], vec!["login".to_owned(), it.login()]];
    let mut add = |rights: &Rights| {
        rows.push(vec!["commands".to_owned(), rights.shown_commands()]);
        rows.push(vec!["keys".to_owned(), listed(rights.keys.iter())]);
        rows.push(vec!["channels".to_owned(), listed(rights.channels.iter())]);
        rows.push(vec!["buckets".to_owned(), rights.shown_buckets()]);
    };
    add(&it.rights);
    it.selectors.iter().for_each(&mut add);
    aligned(&rows, &[])
}

#[cfg(test)]
mod tests;
