//! `DICTUM.DURABILITY`, `DICTUM.CONSISTENCY`, `DICTUM.TOKEN`, `DICTUM.AGE`: what a connection asks of its writes and reads. What each level
//! promises: docs/levels.md.

use base::{BucketId, Revision};
use data::Failure;
use data::spec::Group;

use super::{Entry, Local, spec, special};
use crate::bucket::{BucketKind, Consistency, Durability, NO_CONSISTENCY, NO_DURABILITY, NOT_PERSISTENT, Named};
use crate::council::COUNCIL;
use crate::levels::Token;
use crate::node::{Node, place_of};
use crate::router::ReadKind;
use crate::session::Session;

const GROUP: Group = Group::Dictum;
const MARKS: super::Marks = &["noscript", "loading", "stale", "fast"];

/// Gives the bucket's own level back.
const DEFAULT: &[u8] = b"default";

const NOT_ALL_UP: Failure = Failure::Text(
    "CLUSTERDOWN not every replica can be reached, as durability all wants; the command was not done, try again",
);

/// The table of this family.
pub(super) static ENTRIES: &[Entry] = &[
    special(
        spec(
            "dictum.durability",
            -1,
            GROUP,
            "0.1.0",
            "Says, or sets for the connection, how many replicas must have a write before it is answered.",
            "[majority|persist-majority|all|default]",
        ),
        MARKS,
        Local::Durability,
    ),
    special(
        spec(
            "dictum.consistency",
            -1,
            GROUP,
            "0.1.0",
            "Says, or sets for the connection, how new the state must be that reads see.",
            "[linearizable|session [token]|local|default]",
        ),
        MARKS,
        Local::Consistency,
    ),
    special(
        spec("dictum.token", 1, GROUP, "0.1.0", "Returns a token for what the connection has seen of its bucket.", ""),
        MARKS,
        Local::Token,
    ),
    special(
        spec(
            "dictum.age",
            1,
            GROUP,
            "0.1.0",
            "Returns how many milliseconds old the state was at most that the connection's last read has seen.",
            "",
        ),
        MARKS,
        Local::Age,
    ),
];

/// `DICTUM.DURABILITY`
pub(crate) fn durability(node: &mut Node, session: &mut Session, words: &[&[u8]]) {
    let kind = node.buckets.of(session.bucket).map(|bucket| bucket.settings.kind);
    let level = match words {
        [_] => {
            let name = node.durability_of(session, session.bucket).name();
            return session.reply(|writer| writer.bulk(name.as_bytes()));
        }
        [_, word] if word.eq_ignore_ascii_case(DEFAULT) => Ok(None),
        [_, word] => match Durability::from_name(word) {
            Some(Durability::PersistMajority) if kind == Some(BucketKind::Ephemeral) => Err(NOT_PERSISTENT),
            level => level.map(Some).ok_or(NO_DURABILITY),
        },
        _ => Err(Failure::Syntax),
    };
    match level {
        Ok(level) => {
            session.levels.durability = level;
            session.reply(|writer| writer.ok());
        }
        Err(failure) => node.refuse(session, &failure),
    }
}

/// `DICTUM.CONSISTENCY`
pub(crate) fn consistency(node: &mut Node, session: &mut Session, words: &[&[u8]]) {
    let level = match words {
        [_] => {
            let name = node.consistency_of(session, session.bucket).name();
            return session.reply(|writer| writer.bulk(name.as_bytes()));
        }
        [_, word] if word.eq_ignore_ascii_case(DEFAULT) => Ok(None),
        [_, word] => Consistency::from_name(word).map(Some).ok_or(NO_CONSISTENCY),
        [_, word, token] if Consistency::from_name(word) == Some(Consistency::Session) => {
            believe(node, session, token).map(|()| Some(Consistency::Session))
        }
        _ => Err(Failure::Syntax),
    };
    match level {
        Ok(level) => {
            session.levels.consistency = level;
            session.reply(|writer| writer.ok());
        }
        Err(failure) => node.refuse(session, &failure),
    }
}

/// Takes a token that was given out anywhere.
fn believe(node: &Node, session: &mut Session, word: &[u8]) -> Result<(), Failure> {
    let token = Token::parse(word)?;
    if token.bucket != session.bucket {
        let is_of_a_later_one = token.bucket > session.bucket && node.buckets.of(token.bucket).is_none();
        return Err(if is_of_a_later_one && !node.buckets.has_dropped(token.bucket) {
            Failure::Text(
                "CLUSTERDOWN this node does not know the token's bucket yet; the command was not done, try again",
            )
        } else {
            Failure::Text("ERR the token is of another bucket than the selected one")
        });
    }
    let partitions = node.partitions_selected(session);
    if partitions.len() != token.revisions.len() {
        return Err(Failure::Text("ERR the token is of a bucket with another number of partitions"));
    }
    for (partition, revision) in partitions.into_iter().zip(token.revisions) {
        session.see(partition, revision);
    }
    Ok(())
}

/// `DICTUM.TOKEN`; everything before it has been answered.
pub(crate) fn token(node: &mut Node, session: &mut Session) {
    let partitions = node.partitions_selected(session);
    if partitions.iter().any(|partition| place_of(&node.groups, *partition).is_none()) {
        return node.refuse_without_group(session);
    }
    let revisions = partitions.into_iter().map(|partition| session.seen(partition)).collect();
    let token = Token { bucket: session.bucket, revisions };
    session.reply(|writer| writer.bulk(token.to_string().as_bytes()));
}

/// `DICTUM.AGE`
pub(crate) fn age(node: &mut Node, session: &mut Session) {
    let partitions = node.partitions_selected(session);
    let groups: Option<Vec<usize>> = partitions.into_iter().map(|it| place_of(&node.groups, it)).collect();
    let Some(groups) = groups else { return node.refuse_without_group(session) };
    // The oldest of them; nobody knows it if that of one is not known.
    let fresh_at = groups.into_iter().map(|g| node.groups[g].router.fresh_at).min().flatten();
    let age = session
        .levels
        .read_at(fresh_at)
        .map(|at| i64::try_from(node.now.time.since(at).as_millis()).unwrap_or(i64::MAX));
    session.reply(|writer| match age {
        // Rounded up: so old at most.
        Some(age) => writer.integer(age.saturating_add(1)),
        None => writer.null(),
    });
}

impl Node {
    fn durability_of(&self, session: &Session, bucket: BucketId) -> Durability {
        let usual = || self.buckets.of(bucket).map_or(Durability::PersistMajority, |it| it.settings.durability);
        session.levels.durability.unwrap_or_else(usual)
    }

    fn consistency_of(&self, session: &Session, bucket: BucketId) -> Consistency {
        let usual = || self.buckets.of(bucket).map_or(Consistency::default(), |it| it.settings.consistency);
        session.levels.consistency.unwrap_or_else(usual)
    }

    /// Whether a write is to be answered only when every replica has it; an error if that cannot be, or makes no sense.
    pub(crate) fn is_for_all(&self, session: &Session, g: usize) -> Result<bool, Failure> {
        let id = self.groups[g].id();
        if id == COUNCIL {
            return Ok(false);
        }
        let kind = self.groups[g].bucket.settings.kind;
        match self.durability_of(session, id.bucket) {
            Durability::PersistMajority if kind == BucketKind::Ephemeral => Err(NOT_PERSISTENT),
            // Whatever is told of a persistent bucket is on disk: that is no slower there.
            Durability::Majority | Durability::PersistMajority => Ok(false),
            Durability::All if self.reaches_all(g) => Ok(true),
            Durability::All => Err(NOT_ALL_UP),
        }
    }

    /// The revision that a read must see at least, if it is not linearizable.
    pub(crate) fn floor(&self, session: &Session, g: usize, kind: ReadKind) -> Option<Revision> {
        let id = self.groups[g].id();
        // What a transaction or an order is built on must be true now.
        if id == COUNCIL || !matches!(kind, ReadKind::Command | ReadKind::Transaction) {
            return None;
        }
        if session.levels.consistency.is_none() && self.reads_replica(session, g) {
            return Some(session.seen(id));
        }
        match self.consistency_of(session, id.bucket) {
            Consistency::Linearizable => None,
            Consistency::Session => Some(session.seen(id)),
            Consistency::Local => Some(Revision(0)),
        }
    }
}
