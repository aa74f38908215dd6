//! `DICTUM.SUBSCRIBE`, `DICTUM.UNSUBSCRIBE`, `DICTUM.SUBSCRIPTIONS`.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::limits::{
    KEY_BYTES_MAX, SUBSCRIBED_PATTERNS_MAX, SUBSCRIPTION_FILTERS_BYTES_MAX,
    SUBSCRIPTION_FILTERS_BYTES_OF_CONNECTION_MAX, SUBSCRIPTION_PATTERN_BYTES_MAX, SUBSCRIPTION_WEIGHT_MAX,
    SUBSCRIPTION_WEIGHT_OF_CONNECTION_MAX, SUBSCRIPTION_WORDS_MAX, SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_OF_CONNECTION_MAX,
};
use base::slots::hash_slot;
use base::versions::Feature;
use base::{PartitionId, Revision};
use data::spec::Group;
use data::{Blob, Failure, Reply};

use super::filter::{Filter, Kinds, Pattern};
use super::opening::Asked;
use super::size::Size;
use super::token::{Token, history};
use super::{SubscriptionId, attaching, feeding, glue};
use crate::access;
use crate::bucket::Bucket;
use crate::commands::{Context, Entry, Local, answers, spec, special};
use crate::entry::Kind;
use crate::node::{Node, place_of};
use crate::reply;
use crate::routing::Combine;
use crate::session::Session;

const GROUP: Group = Group::Dictum;
const MARKS: crate::commands::Marks = &["readonly", "pubsub", "noscript", "no_multi", "@read"];

/// The table of this family.
pub(crate) static ENTRIES: &[Entry] = &[
    special(
        spec(
            "dictum.subscribe",
            -2,
            GROUP,
            "0.1.0",
            "Tells the connection every change of keys, in order: from now on, from a token on, or behind the stored keys.",
            "[NAME name] [FROM token|NOW|WITH STATE] <KEY key|KEYS count key [key ...]|PREFIX prefix|MATCH pattern|ALL> [...] [KIND kind ...] [VALUES after|none] [ON GAP restate|end]",
        ),
        MARKS,
        Local::SubscribeToChanges,
    ),
    special(
        spec("dictum.unsubscribe", 2, GROUP, "0.1.0", "Ends a subscription to changes.", "sid"),
        MARKS,
        Local::UnsubscribeFromChanges,
    ),
    answers(
        spec(
            "dictum.subscriptions",
            1,
            GROUP,
            "0.1.0",
            "Returns the connection's subscriptions to changes: their numbers, what they are for, and how far they are.",
            "",
        ),
        &["readonly", "pubsub", "noscript", "loading", "stale"],
        list,
    ),
];

const TOO_MANY_WORDS: Failure = Failure::Text("ERR a subscription has 1024 keys, prefixes and patterns at the most");
const _: () = assert!(SUBSCRIPTION_WORDS_MAX == 1024, "the text says so");
const TOO_MANY: Failure =
    Failure::Text("ERR this connection has 1024 subscriptions to changes, the most that one may have");
const _: () = assert!(SUBSCRIPTIONS_OF_CONNECTION_MAX == 1024, "the text says so");
const NODE_HAS_TOO_MANY: Failure = Failure::Text(
    "ERR this node has as many subscriptions to changes as it takes; use another node, or try again later",
);
const CONNECTION_HAS_TOO_MANY: Failure = Failure::Text(
    "ERR the connection's subscriptions have too many or too long keys, prefixes and patterns: 62500, each counted for each partition of its bucket, and 16 MiB",
);
const _: () = assert!(
    SUBSCRIPTION_WEIGHT_OF_CONNECTION_MAX == 62_500 && SUBSCRIPTION_FILTERS_BYTES_OF_CONNECTION_MAX == 16 << 20,
    "the text says so"
);
const PATTERN_TOO_LONG: Failure = Failure::Text("ERR a pattern of a subscription has 1024 bytes at the most");
const _: () = assert!(SUBSCRIPTION_PATTERN_BYTES_MAX == 1024, "the text says so");
const NO_KEYS: Failure = Failure::Text("ERR a subscription says of which keys: KEY, KEYS, PREFIX, MATCH or ALL");
const NO_SUCH: Failure = Failure::Text("ERR this connection has no such subscription");
const OTHER_BUCKET: Failure = Failure::Text("ERR the token is for another bucket than the selected one");
const OTHER_KEYS: Failure =
    Failure::Text("ERR the token says nothing of some of these keys: it is of a subscription to others");
const STATE_OR_FROM: Failure = Failure::Text(
    "ERR WITH STATE and FROM exclude each other: a subscription begins with the stored keys, or at a place",
);
const STATE_OF_SOME_KINDS: Failure =
    Failure::Text("ERR WITH STATE and ON GAP RESTATE need changes of all kinds: leave KIND out");
const NO_KIND: Failure = Failure::Text("ERR a kind of changes is one of set, deadline, del, expire, evict, flush");
const NOT_YET: Failure =
    Failure::Text("ERR subscriptions to changes are there once all nodes of the cluster speak version 8");

const NOT_READ: Failure = Failure::Text(
    "CLUSTERDOWN this node was started a moment ago and has not heard how its cluster is called now; try again, or use another node",
);

/// What the words of `DICTUM.SUBSCRIBE` say.
#[derive(Debug)]
pub(super) struct Said {
    pub filter: Filter,
    from: Option<Token>,
    pub with_values: bool,
    pub with_state: bool,
    pub restates: bool,
}

/// Reads the words behind the name.
///
/// # Errors
/// They make no sense.
pub(super) fn parse(words: &[&[u8]]) -> Result<Said, Failure> {
    let mut said =
        Said { filter: Filter::default(), from: None, with_values: true, with_state: false, restates: false };
    let (mut kinds, mut restates, mut is_from) = (None, None, false);
    let mut words = words.iter().copied();
    let mut patterns = BTreeSet::new();
    while let Some(word) = words.next() {
        let is = |other: &str| word.eq_ignore_ascii_case(other.as_bytes());
        if is("all") {
            said.filter.all = true;
            continue;
        }
        let value = words.next().ok_or(Failure::Syntax)?;
        let value_is = |other: &str| value.eq_ignore_ascii_case(other.as_bytes());
        if is("from") {
            is_from = true;
            said.from = if value_is("now") { None } else { Some(Token::parse(value)?) };
        } else if is("key") {
            said.filter.keys.insert(Blob::new(value));
        } else if is("keys") {
            let count = std::str::from_utf8(value).ok().and_then(|text| text.parse::<usize>().ok());
            let count = count.filter(|count| *count > 0).ok_or(Failure::NotAnInteger)?;
            if count > SUBSCRIPTION_WORDS_MAX {
                return Err(TOO_MANY_WORDS);
            }
            for _ in 0..count {
                said.filter.keys.insert(Blob::new(words.next().ok_or(Failure::Syntax)?));
            }
        } else if is("prefix") {
            said.filter.add_prefix(Blob::new(value));
        } else if is("match") {
            // Before it is made ready, which takes twenty times its length.
            if value.len() > SUBSCRIPTION_PATTERN_BYTES_MAX {
                return Err(PATTERN_TOO_LONG);
            }
            if patterns.insert(value) {
                said.filter.patterns.push(Arc::new(Pattern::new(value)));
            }
        } else if is("kind") {
            kinds = Some(kinds.unwrap_or(Kinds::NONE).with(value).ok_or(NO_KIND)?);
        } else if is("values") {
            said.with_values = match () {
                () if value_is("after") => true,
                () if value_is("none") => false,
                () => return Err(Failure::Syntax),
            };
        } else if is("on") && value_is("gap") {
            let what = words.next().ok_or(Failure::Syntax)?;
            restates = match () {
                () if what.eq_ignore_ascii_case(b"restate") => Some(true),
                () if what.eq_ignore_ascii_case(b"end") => Some(false),
                () => return Err(Failure::Syntax),
            };
        } else if is("with") && value_is("state") {
            said.with_state = true;
        } else {
            return Err(Failure::Syntax);
        }
        if said.filter.words_count() > SUBSCRIPTION_WORDS_MAX {
            return Err(TOO_MANY_WORDS);
        }
    }
    let is_long = |word: &Blob| word.len() > KEY_BYTES_MAX;
    if said.filter.keys.iter().chain(&said.filter.prefixes).any(is_long) {
        return Err(Failure::KeyTooLong);
    }
    if said.filter.is_empty() {
        return Err(NO_KEYS);
    }
    said.filter.kinds = kinds.unwrap_or(Kinds::ALL);
    said.restates = restates.unwrap_or(said.with_state);
    if said.with_state && is_from {
        return Err(STATE_OR_FROM);
    }
    if said.restates && said.filter.kinds != Kinds::ALL {
        return Err(STATE_OF_SOME_KINDS);
    }
    if said.with_state || said.restates {
        said.filter.sort_keys();
    }
    Ok(said)
}

/// The partitions in which there may be keys that a filter wants.
fn partitions_of(bucket: &Bucket, filter: &Filter) -> Vec<PartitionId> {
    // A flush of the bucket is one of each partition: a subscription to one key hears of it once.
    if !filter.names_all_keys() {
        return bucket.partitions().collect();
    }
    let partitions: BTreeSet<PartitionId> = filter.keys.iter().map(|key| bucket.partition_of(hash_slot(key))).collect();
    partitions.into_iter().collect()
}

/// Where a subscription begins in each partition.
///
/// # Errors
/// The token is for another bucket, or for other keys.
fn beginning(
    bucket: &Bucket,
    partitions: Vec<PartitionId>,
    from: Option<&Token>,
) -> Result<Vec<(PartitionId, Option<Revision>)>, Failure> {
    let Some(token) = from else { return Ok(partitions.into_iter().map(|partition| (partition, None)).collect()) };
    if token.bucket != bucket.born || token.revisions.len() != usize::from(bucket.settings.partitions) {
        return Err(OTHER_BUCKET);
    }
    let place = |partition: PartitionId| {
        let revision = token.revisions[usize::from(partition.index)].ok_or(OTHER_KEYS)?;
        Ok((partition, Some(revision)))
    };
    partitions.into_iter().map(place).collect()
}

/// Carries `DICTUM.SUBSCRIBE` out.
pub(crate) fn subscribe(node: &mut Node, session: &mut Session, words: &[&[u8]]) {
    if let [_, word, rest @ ..] = words
        && word.eq_ignore_ascii_case(b"name")
        && node.has(Feature::Recording)
        && glue::knows_history(node)
    {
        return attaching::attach(node, session, rest);
    }
    let asked = match () {
        () if !node.has(Feature::Recording) => Err(NOT_YET),
        () if !glue::knows_history(node) => Err(NOT_READ),
        () => ask(node, session, words),
    };
    match asked {
        Ok(asked) => begin(node, session, asked),
        Err(failure) => node.refuse(session, &failure),
    }
}

fn ask(node: &mut Node, session: &Session, words: &[&[u8]]) -> Result<Asked, Failure> {
    let Said { filter, from, with_values, with_state, restates } = parse(&words[1..])?;
    if session.is_limited {
        access::check_filter(node, session, &filter)?;
    }
    let Some(bucket) = node.buckets.of(session.bucket) else {
        return Err(node.name_of_bucket(session).err().unwrap_or(Failure::Syntax));
    };
    let history = history(node.registry.cluster, bucket.id);
    let is_of_another = from.as_ref().is_some_and(|token| token.history != history);
    let from = beginning(bucket, partitions_of(bucket, &filter), from.as_ref())?;
    let (bucket, partitions) = (bucket.born, bucket.settings.partitions);
    check_limits(node, session, &filter, from.len())?;
    Ok(Asked { bucket, history, partitions, filter, with_values, with_state, restates, from, is_of_another })
}

/// Looks whether the node, and the connection, may have one more subscription.
///
/// # Errors
/// It may not.
pub(super) fn check_limits(node: &Node, session: &Session, filter: &Filter, partitions: usize) -> Result<(), Failure> {
    let subscriptions = &node.subscriptions;
    let new = Size::of(filter, partitions);
    if !session.is_own() {
        if subscriptions.count_of(session.id) >= SUBSCRIPTIONS_OF_CONNECTION_MAX {
            return Err(TOO_MANY);
        }
        let own = subscriptions.size_of(session.id).plus(new);
        if own.weight > SUBSCRIPTION_WEIGHT_OF_CONNECTION_MAX
            || own.bytes > SUBSCRIPTION_FILTERS_BYTES_OF_CONNECTION_MAX
        {
            return Err(CONNECTION_HAS_TOO_MANY);
        }
    }
    let all = subscriptions.size.plus(new);
    // Places of those that were ended a moment ago may be among them.
    let waiting = subscriptions.waiting.behind.len() + subscriptions.waiting.later.len();
    let is_full = subscriptions.count() + subscriptions.opening.len() >= SUBSCRIPTIONS_MAX
        || waiting > 2 * SUBSCRIPTION_WEIGHT_MAX
        || all.weight > SUBSCRIPTION_WEIGHT_MAX
        || all.patterns > SUBSCRIBED_PATTERNS_MAX
        || all.bytes > SUBSCRIPTION_FILTERS_BYTES_MAX;
    if is_full { Err(NODE_HAS_TOO_MANY) } else { Ok(()) }
}

/// Begins a subscription: at once, if changes are recorded already and it goes on from where this node has been; otherwise once an entry in the log of each partition has them
/// recorded, whose position is that of "now".
fn begin(node: &mut Node, session: &mut Session, asked: Asked) {
    let mut groups = Vec::new();
    for (partition, _) in &asked.from {
        let Some(g) = place_of(&node.groups, *partition) else { return node.refuse_without_group(session) };
        // One that is told a gap at once is told what is there next.
        let needs_state = asked.with_state || (asked.is_of_another && asked.restates);
        if node.groups[g].elsewhere.is_some() && !feeding::may_begin(node, Some(&asked.filter).filter(|_| needs_state))
        {
            let failure = node.who_has(g);
            return node.refuse(session, &failure);
        }
        if let Some(failure) = node.refusal(g, false) {
            return node.refuse(session, &failure);
        }
        groups.push(g);
    }
    let goes_on = |(g, (partition, from)): (&usize, &(PartitionId, Option<Revision>))| {
        if node.groups[*g].elsewhere.is_some() {
            return from.is_some_and(|from| node.subscriptions.is_fed(*partition, from));
        }
        let is_behind = from.is_some_and(|from| from <= node.groups[*g].partition.tree.revision());
        is_behind && glue::is_recorded_for_long(node, *g)
    };
    let is_ready = groups.iter().zip(&asked.from).all(goes_on);
    session.subscribed_to_changes += 1;
    // Of a token of another history nothing is left but to say so, or what is there by now.
    if is_ready || (asked.is_of_another && !asked.restates) {
        let count = asked.from.len();
        // No slot has such a number.
        let waiting = (session.id, u64::MAX);
        node.subscriptions.wait(waiting, asked);
        let answer = glue::open(node, waiting, &vec![None; count]);
        return session.reply(|writer| reply::write(writer, &answer));
    }
    let slot = session.open_parts(0, groups.len(), Combine::All);
    node.subscriptions.wait((session.id, slot), asked);
    for (place, g) in groups.into_iter().enumerate() {
        let part = Session::part_of(slot, place);
        node.write_in_slot(session, g, Kind::Record, glue::lease(), part, false);
    }
}

/// Carries `DICTUM.UNSUBSCRIBE` out.
pub(crate) fn unsubscribe(node: &mut Node, session: &mut Session, words: &[&[u8]]) {
    let id = std::str::from_utf8(words[1]).ok().and_then(|text| text.parse().ok()).map(SubscriptionId);
    if id.is_some_and(|id| node.subscriptions.end(session.id, id)) {
        session.subscribed_to_changes = session.subscribed_to_changes.saturating_sub(1);
        return session.reply(|writer| writer.ok());
    }
    node.refuse(session, &NO_SUCH);
}

fn list(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let shown = context.node.subscriptions.of(context.session.id).iter();
    Ok(Reply::Array(shown.filter_map(|id| context.node.subscriptions.describe(*id)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Result<Said, Failure> {
        let words: Vec<&[u8]> = line.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes).collect();
        parse(&words)
    }

    #[test]
    fn what_is_asked_for_is_read_from_words() {
        let line = "KEY a key b PREFIX p: MATCH x* MATCH x* KEYS 2 c ALL KIND del KIND EXPIRE VALUES none ON GAP END";
        let all = said(line).expect("it is right");
        // A key may be called as anything.
        assert_eq!((all.filter.words_count(), all.filter.all, all.with_values), (6, false, false));
        let kinds: Vec<&str> = all.filter.kinds.names().collect();
        assert_eq!(kinds, ["del", "expire"]);
        let shown = |line: &str| said(line).map(|said| (said.with_state, said.restates));
        assert_eq!(shown("ALL with STATE"), Ok((true, true)));
        assert_eq!(shown("WITH state ON GAP end ALL"), Ok((true, false)));
        assert_eq!(shown("ALL FROM 7~00000000000000fe:3 ON GAP restate"), Ok((false, true)));
        assert_eq!(shown("ALL"), Ok((false, false)));
        assert!(said("FROM now ALL").expect("it is right").from.is_none());
        let token = said("PREFIX a FROM 7~00000000000000fe:3,4").expect("it is right").from.expect("there is one");
        assert_eq!(token.revisions, [Some(Revision(3)), Some(Revision(4))]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in ["", "FROM now", "KIND del", "KEYS 0", "KEYS 2 a", "KEYS x a", "KEY", "KEY a KIND x", "KEY a FROM x"]
        {
            assert!(said(bad).is_err(), "{bad}");
        }
        for bad in
            ["KEY a VALUES old", "KEY a ON GAP go", "KEY a ON x end", "KEY a ON GAP", "odd a", "KEYS 99999999999 a"]
        {
            assert!(said(bad).is_err(), "{bad}");
        }
        assert_eq!(said("ALL WITH STATE FROM NOW").err(), Some(STATE_OR_FROM));
        assert_eq!(said("ALL WITH STATE KIND del").err(), Some(STATE_OF_SOME_KINDS));
        assert_eq!(said("ALL WITH VALUES").err(), Some(Failure::Syntax));
        assert_eq!(said(&"KEY a PREFIX b ".repeat(2)).expect("it is right").filter.words_count(), 2);
        let many: String = (0..=SUBSCRIPTION_WORDS_MAX).map(|number| format!("KEY {number} ")).collect();
        assert_eq!(said(&many).err(), Some(TOO_MANY_WORDS));
        let long = format!("MATCH {}", "x".repeat(KEY_BYTES_MAX + 1));
        assert_eq!(said(&long).err(), Some(PATTERN_TOO_LONG));
        assert_eq!(said(&format!("PREFIX {}", "x".repeat(KEY_BYTES_MAX + 1))).err(), Some(Failure::KeyTooLong));
        assert_eq!(said("KEYS 1025 a").err(), Some(TOO_MANY_WORDS));
    }
}
