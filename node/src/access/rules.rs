//! The rules of a user, as texts: the grammar of Redis's `ACL SETUSER`, what each rule changes, and how they are told.
//!
//! Nothing here knows which commands there are, so each node of a cluster applies the same order with the same outcome, whatever its version knows:
//! which names of commands are right is looked at before a rule is proposed ([`super::compiled::check`]).

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};
use wire::{Malformed, Reader, Writer};

use crate::passwords::stored::StoredHash;

/// A password's SHA-256 in hexadecimal digits.
const DIGEST_DIGITS: usize = 64;
/// Most patterns, commands, passwords and selectors of one user, each and together: they are looked through for each of its commands, and for each rule that comes.
pub(crate) const RULES_MAX: usize = 1000;
/// Most passwords of one user under argon2id: a login may have to try them all. A part of the format, as what stands in [`crate::passwords::stored`].
const HASHES_MAX: usize = 4;
/// The bucket of database 0.
const DATABASE_0: &str = crate::bucket::DEFAULT_NAME;

/// Why a rule is refused. The texts are Redis's, but for the last four.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    Syntax,
    UnknownCommand,
    FirstArgumentOfSubcommand,
    KeysAreAll,
    ChannelsAreAll,
    NoSuchPassword,
    NoDigest,
    NoHash,
    TooManyHashes,
    UnknownRole,
    TooMuch,
}

impl Refusal {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Refusal::Syntax => "Syntax error",
            Refusal::UnknownCommand => "Unknown command or category name in ACL",
            Refusal::FirstArgumentOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Refusal::KeysAreAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Refusal::ChannelsAreAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Refusal::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Refusal::NoDigest => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Refusal::NoHash => {
                "The password must be $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<hash> in unpadded Base64, with a hash of 32 bytes and a salt of 8 to 48; m is 8*p to 65536, p 1 to 4, and m*t up to 196608"
            }
            Refusal::TooManyHashes => {
                "A user has 4 passwords under argon2id at the most, as a wrong one is tried against all of them: take one away by !$argon2id... or <password, or begin with resetpass"
            }
            Refusal::UnknownRole => "Unknown role: there are viewer, reader, writer, operator and admin",
            Refusal::TooMuch => {
                "The rules of a user are 1000 with 65536 bytes at the most, and those of all users have 1048576 bytes"
            }
        }
    }
}

/// Permissions for the keys of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Access {
    pub reads: bool,
    pub writes: bool,
}

impl Access {
    pub(crate) const ALL: Access = Access { reads: true, writes: true };
}

/// One set of permissions: a command has to be allowed by one of a user's selectors wholly.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Selector {
    /// `commands` begin from everything; otherwise from nothing.
    pub all_commands: bool,
    /// Such as `+get`, `-@dangerous`, `+config|get`: in lower case, in the order in which they count.
    pub commands: Vec<String>,
    pub all_keys: bool,
    pub keys: Vec<(Vec<u8>, Access)>,
    pub all_channels: bool,
    pub channels: Vec<Vec<u8>>,
    /// Names of buckets; none: all of them.
    pub buckets: Option<BTreeSet<String>>,
}

/// The rules of one user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rules {
    pub is_on: bool,
    /// Each password is right.
    pub no_password: bool,
    /// `RESTORE` is not to look closely at what it is given: kept and told, and here it always does.
    pub skips_sanitizing: bool,
    /// Each password: its SHA-256 in hexadecimal digits, or as [`StoredHash`] is spelled.
    pub passwords: Vec<String>,
    pub root: Selector,
    pub selectors: Vec<Selector>,
}

/// True for a name or a pattern with white space or a zero byte, which would make a list of rules ambiguous.
pub(crate) fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| *byte == 0 || byte.is_ascii_whitespace() || *byte == 0x0b)
}

/// The digest under which a password is kept: what follows `#` in a rule.
#[must_use]
pub fn digest_of(password: &[u8]) -> String {
    Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A rule without the password that it may show: what goes into the log.
pub(crate) fn without_password(rule: &[u8]) -> Vec<u8> {
    match rule {
        [b'>', password @ ..] => format!("#{}", digest_of(password)).into_bytes(),
        [b'<', password @ ..] => format!("!{}", digest_of(password)).into_bytes(),
        other => other.to_vec(),
    }
}

/// The rules among the words of a client: those of a selector, `(`…`)`, may be several words.
///
/// # Errors
/// The word at which a selector begins that does not end.
pub(crate) fn joined<'a>(words: &[&'a [u8]]) -> Result<Vec<Vec<u8>>, &'a [u8]> {
    let mut rules: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for word in words {
        match &mut open {
            Some((_, rule)) => {
                rule.push(b' ');
                rule.extend_from_slice(word);
                if word.ends_with(b")") {
                    rules.extend(open.take().map(|(_, rule)| rule));
                }
            }
            None if word.starts_with(b"(") && !word.ends_with(b")") => open = Some((word, word.to_vec())),
            None => rules.push(word.to_vec()),
        }
    }
    match open {
        Some((begin, _)) => Err(begin),
        None => Ok(rules),
    }
}

fn is(rule: &[u8], word: &str) -> bool {
    rule.eq_ignore_ascii_case(word.as_bytes())
}

impl Selector {
    /// Everything.
    pub(crate) fn all() -> Selector {
        Selector { all_commands: true, all_keys: true, all_channels: true, ..Selector::default() }
    }

    /// Changes it by one rule.
    ///
    /// # Errors
    /// See [`Refusal`]; it is as it was then.
    pub(crate) fn change(&mut self, rule: &[u8]) -> Result<(), Refusal> {
        if self.count() > RULES_MAX {
            return Err(Refusal::TooMuch);
        }
        match rule {
            _ if is(rule, "allkeys") || rule == b"~*" => (self.all_keys, self.keys) = (true, Vec::new()),
            _ if is(rule, "resetkeys") => (self.all_keys, self.keys) = (false, Vec::new()),
            _ if is(rule, "allchannels") || rule == b"&*" => (self.all_channels, self.channels) = (true, Vec::new()),
            _ if is(rule, "resetchannels") => (self.all_channels, self.channels) = (false, Vec::new()),
            _ if is(rule, "allbuckets") || is(rule, "alldbs") => self.buckets = None,
            _ if is(rule, "resetbuckets") || is(rule, "resetdbs") => self.buckets = Some(BTreeSet::new()),
            _ if is(rule, "allcommands") || is(rule, "+@all") => {
                (self.all_commands, self.commands) = (true, Vec::new());
            }
            _ if is(rule, "nocommands") || is(rule, "-@all") => {
                (self.all_commands, self.commands) = (false, Vec::new());
            }
            [b'~' | b'%', ..] => self.add_keys(rule)?,
            [b'&', channel @ ..] => {
                if self.all_channels {
                    return Err(Refusal::ChannelsAreAll);
                }
                if has_spaces(channel) {
                    return Err(Refusal::Syntax);
                }
                if !self.channels.iter().any(|known| known == channel) {
                    self.channels.push(channel.to_vec());
                }
            }
            [b'+' | b'-', name @ ..] => {
                let name = std::str::from_utf8(name).map_err(|_| Refusal::UnknownCommand)?.to_ascii_lowercase();
                if has_spaces(name.as_bytes()) {
                    return Err(Refusal::UnknownCommand);
                }
                if name.is_empty() || name.ends_with('|') {
                    return Err(if name.is_empty() { Refusal::UnknownCommand } else { Refusal::Syntax });
                }
                // Earlier rules for the same command, or for one of its subcommands, count no more.
                self.commands.retain(|known| {
                    let rest = known[1..].strip_prefix(name.as_str());
                    rest.is_none_or(|rest| !rest.is_empty() && !rest.starts_with('|'))
                });
                self.commands.push(format!("{}{name}", char::from(rule[0])));
            }
            _ => self.add_buckets(rule)?,
        }
        Ok(())
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), Refusal> {
        if self.all_keys {
            return Err(Refusal::KeysAreAll);
        }
        let (access, pattern) = match rule {
            [b'~', pattern @ ..] => (Access::ALL, pattern),
            [_, rest @ ..] => {
                let end = rest.iter().position(|byte| *byte == b'~').ok_or(Refusal::Syntax)?;
                let mut access = Access::default();
                for letter in &rest[..end] {
                    let place = match letter.to_ascii_uppercase() {
                        b'R' => &mut access.reads,
                        b'W' => &mut access.writes,
                        _ => return Err(Refusal::Syntax),
                    };
                    if std::mem::replace(place, true) {
                        return Err(Refusal::Syntax);
                    }
                }
                if access == Access::default() {
                    return Err(Refusal::Syntax);
                }
                (access, &rest[end + 1..])
            }
            [] => return Err(Refusal::Syntax),
        };
        if has_spaces(pattern) {
            return Err(Refusal::Syntax);
        }
        match self.keys.iter_mut().find(|(known, _)| known == pattern) {
            Some((_, known)) => {
                known.reads |= access.reads;
                known.writes |= access.writes;
            }
            None => self.keys.push((pattern.to_vec(), access)),
        }
        Ok(())
    }

    /// `bucket=name`, `db=0,3`.
    fn add_buckets(&mut self, rule: &[u8]) -> Result<(), Refusal> {
        let rule = std::str::from_utf8(rule).map_err(|_| Refusal::Syntax)?;
        let (kind, names) = rule.split_once('=').ok_or(Refusal::Syntax)?;
        let is_number = match kind.to_ascii_lowercase().as_str() {
            "bucket" => false,
            "db" => true,
            _ => return Err(Refusal::Syntax),
        };
        let mut buckets = BTreeSet::new();
        for name in names.split(',') {
            let name = match crate::bucket::database_number(name.as_bytes()) {
                _ if name == "0" => DATABASE_0,
                Some(_) => name,
                None if is_number => return Err(Refusal::Syntax),
                None => crate::bucket::check_name(name.as_bytes()).map_err(|_| Refusal::Syntax)?,
            };
            buckets.insert(name.to_owned());
        }
        // A user that has said nothing of buckets has all; the first that are named are those that it has.
        self.buckets.get_or_insert_default().extend(buckets);
        Ok(())
    }

    /// `+@all -get`, as `ACL GETUSER` tells it.
    pub(crate) fn commands_text(&self) -> String {
        let first = if self.all_commands { "+@all" } else { "-@all" };
        std::iter::once(first).chain(self.commands.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
    }

    fn count(&self) -> usize {
        1 + self.keys.len() + self.channels.len() + self.commands.len() + self.buckets.as_ref().map_or(0, BTreeSet::len)
    }

    /// Rules that give these keys.
    pub(crate) fn key_rules(&self) -> Vec<Vec<u8>> {
        if self.all_keys {
            return vec![b"~*".to_vec()];
        }
        let text = |(pattern, access): &(Vec<u8>, Access)| match (access.reads, access.writes) {
            // Of %R~* and %W~*: ~* would be all keys, behind which there is no other pattern.
            (true, true) if pattern == b"*" => b"%RW~*".to_vec(),
            (true, true) => [b"~", pattern.as_slice()].concat(),
            (true, false) => [b"%R~", pattern.as_slice()].concat(),
            (false, _) => [b"%W~", pattern.as_slice()].concat(),
        };
        self.keys.iter().map(text).collect()
    }

    /// Rules that give these channels.
    pub(crate) fn channel_rules(&self) -> Vec<Vec<u8>> {
        if self.all_channels {
            return vec![b"&*".to_vec()];
        }
        self.channels.iter().map(|channel| [b"&", channel.as_slice()].concat()).collect()
    }

    /// Rules that give these buckets, if these are not all.
    pub(crate) fn bucket_rules(&self) -> Vec<Vec<u8>> {
        let Some(buckets) = &self.buckets else { return Vec::new() };
        let names = buckets.iter().map(|name| format!("bucket={name}").into_bytes());
        std::iter::once(b"resetbuckets".to_vec()).filter(|_| buckets.is_empty()).chain(names).collect()
    }

    /// Rules that make it of an empty one.
    fn describe(&self) -> Vec<Vec<u8>> {
        let mut rules = self.key_rules();
        if !self.all_channels {
            rules.push(b"resetchannels".to_vec());
        }
        rules.extend(self.channel_rules());
        rules.extend(self.bucket_rules());
        rules.push(self.commands_text().into_bytes());
        rules
    }
}

impl Rules {
    /// Those of a user that nothing is known of yet: it may do everything.
    pub(crate) fn of_default() -> Rules {
        Rules { is_on: true, no_password: true, root: Selector::all(), ..Rules::default() }
    }

    /// Changes them by one rule, as one word.
    ///
    /// # Errors
    /// See [`Refusal`]; what they are then is to be thrown away.
    pub(crate) fn change(&mut self, rule: &[u8]) -> Result<(), Refusal> {
        match rule {
            [] => {}
            _ if is(rule, "on") => self.is_on = true,
            _ if is(rule, "off") => self.is_on = false,
            _ if is(rule, "nopass") => (self.no_password, self.passwords) = (true, Vec::new()),
            _ if is(rule, "resetpass") => (self.no_password, self.passwords) = (false, Vec::new()),
            _ if is(rule, "skip-sanitize-payload") => self.skips_sanitizing = true,
            _ if is(rule, "sanitize-payload") => self.skips_sanitizing = false,
            _ if is(rule, "clearselectors") => self.selectors.clear(),
            _ if is(rule, "reset") => *self = Rules::default(),
            [b'>' | b'<', ..] => self.change(&without_password(rule))?,
            [b'$', ..] | [b'!', b'$', ..] => self.change_hash(rule)?,
            [first @ (b'#' | b'!'), digest @ ..] => {
                let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
                if digest.len() != DIGEST_DIGITS || !digest.iter().all(is_digit) {
                    return Err(Refusal::NoDigest);
                }
                let digest = String::from_utf8_lossy(digest).into_owned();
                let place = self.passwords.iter().position(|known| *known == digest);
                match (first, place) {
                    (b'#', None) if self.passwords.len() >= RULES_MAX => return Err(Refusal::TooMuch),
                    (b'#', None) => self.passwords.push(digest),
                    (b'#', Some(_)) => {}
                    (_, Some(place)) => drop(self.passwords.remove(place)),
                    (_, None) => return Err(Refusal::NoSuchPassword),
                }
                if *first == b'#' {
                    self.no_password = false;
                }
            }
            [b'(', within @ .., b')'] => {
                if self.selectors.len() >= RULES_MAX {
                    return Err(Refusal::TooMuch);
                }
                let mut selector = Selector::default();
                for rule in within.split(|byte| *byte == b' ').filter(|rule| !rule.is_empty()) {
                    selector.change(rule)?;
                }
                self.selectors.push(selector);
            }
            _ => self.root.change(rule)?,
        }
        Ok(())
    }

    /// Adds a password under argon2id, or takes it away.
    fn change_hash(&mut self, rule: &[u8]) -> Result<(), Refusal> {
        let (removes, text) = rule.strip_prefix(b"!").map_or((false, rule), |text| (true, text));
        let text =
            std::str::from_utf8(text).ok().filter(|text| StoredHash::read(text).is_some()).ok_or(Refusal::NoHash)?;
        let place = self.passwords.iter().position(|known| known == text);
        let hashes = self.passwords.iter().filter(|known| known.starts_with('$')).count();
        match (removes, place) {
            (true, Some(place)) => drop(self.passwords.remove(place)),
            (true, None) => return Err(Refusal::NoSuchPassword),
            (false, None) if hashes >= HASHES_MAX => return Err(Refusal::TooManyHashes),
            (false, None) if self.passwords.len() >= RULES_MAX => return Err(Refusal::TooMuch),
            (false, None) => self.passwords.push(text.to_owned()),
            (false, Some(_)) => {}
        }
        self.no_password &= removes;
        Ok(())
    }

    /// Rules that add its passwords.
    fn password_rules(&self) -> impl Iterator<Item = Vec<u8>> {
        let rule = |text: &String| if text.starts_with('$') { text.clone() } else { format!("#{text}") };
        self.passwords.iter().map(move |text| rule(text).into_bytes())
    }

    /// The flags of `ACL GETUSER`.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.no_password {
            flags.push("nopass");
        }
        flags.push(if self.skips_sanitizing { "skip-sanitize-payload" } else { "sanitize-payload" });
        flags
    }

    /// The rules that make this user of an empty one, each one word or, of commands, several: what `ACL LIST` tells.
    fn describe(&self) -> Vec<Vec<u8>> {
        let mut rules: Vec<Vec<u8>> = self.flags().into_iter().map(|flag| flag.as_bytes().to_vec()).collect();
        rules.extend(self.password_rules());
        rules.extend(self.root.describe());
        for selector in &self.selectors {
            rules.push([b"(", selector.describe().join(&b' ').as_slice(), b")"].concat());
        }
        rules
    }

    /// Writes them, word by word: a line cannot be read back where a pattern has a parenthesis.
    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        let mut own: Vec<Vec<u8>> = self.flags().into_iter().map(|flag| flag.as_bytes().to_vec()).collect();
        own.extend(self.password_rules());
        write_words(w, &own);
        w.count(1 + self.selectors.len());
        for selector in std::iter::once(&self.root).chain(&self.selectors) {
            let mut words = selector.describe();
            // The last of them are the commands, which are several.
            let commands = words.pop().unwrap_or_default();
            words.extend(commands.split(|byte| *byte == b' ').map(<[u8]>::to_vec));
            write_words(w, &words);
        }
    }

    /// Reads what [`Rules::encode`] has written.
    ///
    /// # Errors
    /// It is nothing of the kind.
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Rules, Malformed> {
        let mut rules = Rules::default();
        for word in read_words(r)? {
            rules.change(&word).map_err(|_| Malformed)?;
        }
        let mut selectors = Vec::new();
        for _ in 0..r.count(1)? {
            let mut selector = Selector::default();
            for word in read_words(r)? {
                selector.change(&word).map_err(|_| Malformed)?;
            }
            selectors.push(selector);
        }
        let mut selectors = selectors.into_iter();
        rules.root = selectors.next().ok_or(Malformed)?;
        rules.selectors = selectors.collect();
        Ok(rules)
    }

    /// Those of one user, as bytes.
    pub(crate) fn write_one(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode(&mut Writer::new(&mut bytes));
        bytes
    }

    /// Reads what [`Rules::write_one`] has written.
    ///
    /// # Errors
    /// It is nothing of the kind.
    pub(crate) fn read_one(bytes: &[u8]) -> Result<Rules, Malformed> {
        let mut r = Reader::from_slice(bytes);
        let rules = Rules::decode(&mut r)?;
        r.finish()?;
        Ok(rules)
    }

    /// The number of rules, as [`RULES_MAX`] counts them.
    pub(crate) fn count(&self) -> usize {
        self.passwords.len() + self.root.count() + self.selectors.iter().map(Selector::count).sum::<usize>()
    }

    /// The same as one line, without the user's name.
    pub(crate) fn line(&self) -> Vec<u8> {
        self.describe().join(&b' ')
    }
}

pub(super) fn write_words(w: &mut Writer<'_>, words: &[Vec<u8>]) {
    w.count(words.len());
    words.iter().for_each(|word| w.bytes(word));
}

pub(super) fn read_words(r: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, Malformed> {
    (0..r.count(1)?).map(|_| Ok(r.slice()?.to_vec())).collect()
}

#[cfg(test)]
mod tests;
