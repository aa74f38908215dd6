//! `DICTUM.NODE …`: who is there, and what each node is for. Orders go through the council's log; what is listed is read there as linearizably as any
//! key, beside what the node that answers knows of the others.

use std::time::Duration;

use base::limits::TOKEN_LIFETIME;
use base::versions::{Feature, OLDEST};
use base::{NodeId, WallTime};
use bytes::Bytes;
use data::spec::Group;
use data::{Failure, Reply};
use sha1::{Digest, Sha1};
use sha2::Sha256;

use super::{ADMIN, Context, Entry, Local, answers, container, helps, spec, special};
use crate::council::{COUNCIL, Order};
use crate::door::Member;
use crate::entry::Kind;
use crate::node::Node;
use crate::registry::keys::{KeyChange, NodeKey};
use crate::registry::{Change, Registry, Token};
use crate::roll::Roll;
use crate::router::ReadKind;
use crate::session::Session;
use crate::transfer::movement::Moves;

const GROUP: Group = Group::Dictum;
/// A year: longer than anybody waits for a machine.
const TOKEN_SECONDS_MAX: i64 = 366 * 24 * 3600;
/// Shorter than this would take nodes for gone that are only restarted.
const REPLACE_SECONDS_MIN: i64 = 1;

/// The table of this family.
pub(super) static ENTRIES: &[Entry] =
    &[container("dictum.node", GROUP, "0.1.0", "Lists nodes, and says what they are for.", SUBCOMMANDS)];

const fn of(name: &'static str, arity: i32, summary: &'static str, syntax: &'static str, wanted: Wanted) -> Entry {
    special(spec(name, arity, GROUP, "0.1.0", summary, syntax), ADMIN, Local::Node(wanted))
}

static SUBCOMMANDS: &[Entry] = &[
    of("dictum.node|list", 2, "Lists all nodes, with what they lead and where they vote.", "", Wanted::List),
    of(
        "dictum.node|drain",
        3,
        "Takes leaderships from a node, and votes as far as other nodes can have them.",
        "name",
        Wanted::Drain,
    ),
    of(
        "dictum.node|promote",
        3,
        "Lets a node lead and vote again that was drained, or was to be removed.",
        "name",
        Wanted::Promote,
    ),
    of(
        "dictum.node|voters",
        3,
        "Sets how many nodes vote in each partition; the others learn. 0: as many as founded the cluster.",
        "number",
        Wanted::Voters,
    ),
    of("dictum.node|token", -2, "Makes a token with which one node can join.", "[seconds]", Wanted::Token),
    of(
        "dictum.node|join",
        -6,
        "Takes a node in. Sent by the node itself, with a number that it has drawn: it may ask again.",
        "token name peer-address number [zone [version]]",
        Wanted::Join,
    ),
    of(
        "dictum.node|remove",
        -3,
        "Moves the votes of a node to others and then removes it; FORCE: although it is down.",
        "name [FORCE]",
        Wanted::Remove,
    ),
    of(
        "dictum.node|auto-replace",
        3,
        "Sets after how many seconds of absence others take a node's place. 0: never.",
        "seconds",
        Wanted::AutoReplace,
    ),
    of(
        "dictum.node|pause",
        2,
        "Leaves all votes and leaderships where they are; copies go at the lowest rate.",
        "",
        Wanted::Pause,
    ),
    of(
        "dictum.node|addkey",
        4,
        "Has a node known by another key, too, so that it can change to that.",
        "name key",
        Wanted::AddKey,
    ),
    of(
        "dictum.node|forgetkeys",
        3,
        "Forgets the keys of a node that has lost them with its folder: the next one that it shows counts.",
        "name",
        Wanted::ForgetKeys,
    ),
    of("dictum.node|resume", 2, "Lets votes, leaderships and copies move again.", "", Wanted::Resume),
    answers(
        spec(
            "dictum.node|settings",
            2,
            GROUP,
            "0.1.0",
            "Shows how many nodes vote, after how long one is replaced, and whether votes are held still.",
            "",
        ),
        ADMIN,
        settings,
    ),
    helps("dictum.node|help", GROUP, super::ALWAYS),
];

/// Which of the subcommands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    List,
    Drain,
    Promote,
    Voters,
    Token,
    Join,
    Remove,
    AutoReplace,
    Pause,
    Resume,
    AddKey,
    ForgetKeys,
}

/// Carries `DICTUM.NODE` out; the connection is aimed at the council.
pub(crate) fn run(node: &mut Node, session: &mut Session, wanted: Wanted, words: &[&[u8]]) {
    let change = match wanted {
        Wanted::List => {
            node.submit_read(session, COUNCIL, ReadKind::Nodes, |_| {});
            return;
        }
        Wanted::Token => {
            let (token, change) = match token(node, words.get(2).copied()) {
                Ok(made) => made,
                Err(failure) => return node.refuse(session, &failure),
            };
            let order = Bytes::from(Order::Nodes(change).encode());
            if let Some(slot) = node.submit_write(session, COUNCIL, (Kind::Council, false), order) {
                // The log knows its digest alone.
                node.tokens_made.push((session.id, slot, token));
            }
            return;
        }
        Wanted::Drain | Wanted::Promote => drain(node, words[2], wanted == Wanted::Drain),
        Wanted::Voters => voters(node, words[2]),
        Wanted::Join => join(node, words),
        Wanted::Remove => remove(node, &words[2..]),
        Wanted::AutoReplace => replace_after(words[2]),
        Wanted::AddKey => key_of(words[3]).and_then(|key| change_keys(node, words[2], KeyChange::Add(key))),
        Wanted::ForgetKeys => change_keys(node, words[2], KeyChange::Forget),
        Wanted::Pause | Wanted::Resume => Ok(Change::Pause(wanted == Wanted::Pause)),
    };
    match change {
        Ok(change) => {
            node.submit_write(session, COUNCIL, (Kind::Council, false), Bytes::from(Order::Nodes(change).encode()));
        }
        Err(failure) => node.refuse(session, &failure),
    }
}

fn named(node: &Node, name: &[u8]) -> Result<NodeId, Failure> {
    node.roll.named(name).ok_or_else(|| {
        let text = format!("ERR there is no node '{}'; there are {}", String::from_utf8_lossy(name), node.roll.names());
        Failure::built(text.as_bytes())
    })
}

fn key_of(word: &[u8]) -> Result<NodeKey, Failure> {
    const WRONG: Failure = Failure::Text("ERR a node's key is said by its SHA-256, in 64 hexadecimal digits");
    let text = std::str::from_utf8(word)
        .ok()
        .filter(|text| text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let text = text.ok_or(WRONG)?;
    let mut key = [0; 32];
    for (place, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).map_err(|_| WRONG)?;
    }
    Ok(key)
}

fn change_keys(node: &Node, name: &[u8], change: KeyChange) -> Result<Change, Failure> {
    let change = Change::Key { node: named(node, name)?, change };
    node.check_order(&Order::Nodes(change.clone())).map(|()| change)
}

fn drain(node: &Node, name: &[u8], drained: bool) -> Result<Change, Failure> {
    Ok(Change::Drain { node: named(node, name)?, drained, nodes: node.config.members.len() as u16 })
}

fn remove(node: &Node, words: &[&[u8]]) -> Result<Change, Failure> {
    let forced = match words {
        [_] => false,
        [_, word] if word.eq_ignore_ascii_case(b"force") => true,
        _ => return Err(Failure::Syntax),
    };
    let id = named(node, words[0])?;
    if !forced && !node.is_up(id) {
        let text = format!(
            "ERR the node '{}' is down; what it holds cannot be taken from it. If it will not come back, remove it with FORCE",
            String::from_utf8_lossy(words[0])
        );
        return Err(Failure::built(text.as_bytes()));
    }
    Ok(Change::Leave { node: id, nodes: node.config.members.len() as u16 })
}

fn voters(node: &Node, count: &[u8]) -> Result<Change, Failure> {
    let nodes = node.roll.len();
    let count = data::args::parse_integer(count).and_then(|count| u8::try_from(count).ok());
    let count = count.filter(|count| usize::from(*count) <= nodes).ok_or_else(|| {
        let text = format!(
            "ERR the number of voters is from 1 to {nodes}, the number of nodes; or 0 for as many as founded the cluster"
        );
        Failure::built(text.as_bytes())
    })?;
    Ok(Change::Voters { count })
}

/// The settings that commands of this family have made, as far as this node knows.
fn settings(context: &mut Context<'_>, _: &[&[u8]]) -> Result<Reply, Failure> {
    let (registry, founders) = (&context.node.registry, context.node.config.members.len());
    let number = |number: u64| Reply::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    Ok(Reply::Map(vec![
        (Reply::bulk("voters"), number(u64::from(registry.voters))),
        (Reply::bulk("founders"), number(founders as u64)),
        (Reply::bulk("auto-replace"), number(registry.replace_after.map_or(0, |after| after.as_secs()))),
        (Reply::bulk("paused"), number(u64::from(registry.paused))),
    ]))
}

fn replace_after(seconds: &[u8]) -> Result<Change, Failure> {
    const WRONG: Failure =
        Failure::Text("ERR after how long nodes are replaced is a number of seconds, up to a year; 0 for never");
    let seconds = data::args::parse_integer(seconds).ok_or(WRONG)?;
    Ok(Change::ReplaceAfter(match seconds {
        0 => None,
        REPLACE_SECONDS_MIN..=TOKEN_SECONDS_MAX => Some(Duration::from_secs(seconds as u64)),
        _ => return Err(WRONG),
    }))
}

impl Node {
    /// 32 hexadecimal digits that nobody can guess. Two of one node differ by the draw, those of two nodes or starts by the secret.
    pub(crate) fn secret_digits(&mut self) -> String {
        self.secret_bytes().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// 32 bytes that nobody can guess, in the same way.
    pub(crate) fn secret_bytes(&mut self) -> [u8; 32] {
        let sha = Sha256::new().chain_update(self.config.secret.to_le_bytes()).chain_update(self.boot.to_le_bytes());
        sha.chain_update(self.rng.next_u64().to_le_bytes()).finalize().into()
    }
}

/// A new token, and the order that makes it one.
fn token(node: &mut Node, seconds: Option<&[u8]>) -> Result<(String, Change), Failure> {
    let seconds = match seconds {
        None => TOKEN_LIFETIME.as_secs() as i64,
        Some(seconds) => data::args::parse_integer(seconds)
            .filter(|seconds| (1..=TOKEN_SECONDS_MAX).contains(seconds))
            .ok_or(Failure::Text("ERR a token lasts for a number of seconds, up to a year"))?,
    };
    let token = node.secret_digits();
    // Its order waits until the node knows the cluster's time.
    let now = node.clock.now().unwrap_or_else(|| node.clock.own());
    let until = WallTime(now.0.saturating_add(seconds as u64 * 1000));
    let change = Change::Token(Token { digest: digest_of(token.as_bytes()), until });
    Ok((token, change))
}

fn digest_of(token: &[u8]) -> [u8; 20] {
    Sha1::digest(token).into()
}

fn join(node: &Node, words: &[&[u8]]) -> Result<Change, Failure> {
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let nonce = data::args::parse_integer(words[5]).ok_or(Failure::NotAnInteger)?;
    let zone: &[u8] = words.get(6).copied().unwrap_or_default();
    let newest = match words.get(7).map(|word| data::args::parse_integer(word)) {
        None => OLDEST,
        Some(number) => number.and_then(|number| u16::try_from(number).ok()).ok_or(Failure::NotAnInteger)?,
    };
    if words.len() > 8 {
        return Err(Failure::Syntax);
    }
    if newest < node.registry.version {
        let text = format!(
            "ERR the cluster has version {}, and the node speaks {newest} at the most; start it with a newer Dictum",
            node.registry.version
        );
        return Err(Failure::built(text.as_bytes()));
    }
    Ok(Change::Join {
        digest: digest_of(words[2]),
        member: Member { name: text(words[3]), peer_address: text(words[4]) },
        zone: text(zone),
        nonce: nonce as u64,
        founders: node.config.members.clone(),
        // As long as the cluster has the oldest version every node will do, and no other order is understood by everybody.
        newest: if node.has(Feature::JoinVersion) { newest } else { OLDEST },
    })
}

/// Who leads a partition, votes in it, and has a copy, as far as a node knows.
#[derive(Debug)]
pub(crate) struct Standing {
    leads: Option<NodeId>,
    vote: Vec<NodeId>,
    hold: Vec<NodeId>,
}

impl Node {
    /// The same of all partitions.
    pub(crate) fn standings(&self) -> Vec<Standing> {
        let of = |g| Standing {
            leads: self.leader_of(g).map(|(leader, _)| leader),
            vote: self.voters_of(g),
            hold: self.roll.ids().filter(|id| self.holds(*id, self.groups[g].id())).collect(),
        };
        (0..self.groups.len()).map(of).collect()
    }
}

/// The hashes of a node's keys, separated by commas.
fn keys_of(registry: &Registry, node: NodeId) -> String {
    let shown = |key: &NodeKey| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    registry.keys.of(node).iter().map(shown).collect::<Vec<_>>().join(",")
}

/// What the council's registry says of all nodes, with what this node knows of them besides.
pub(crate) fn answer(
    registry: &Registry,
    roll: &Roll,
    standings: &[Standing],
    is_up: impl Fn(NodeId) -> bool,
    moves: impl Fn(NodeId) -> Moves,
    newest: impl Fn(NodeId) -> Option<u16>,
) -> Reply {
    let text = |name: &str, value: &str| (Reply::bulk(name.as_bytes()), Reply::bulk(value.as_bytes()));
    let number = |name: &str, value: usize| (Reply::bulk(name.as_bytes()), Reply::Integer(value as i64));
    let one = |(id, member): (NodeId, &Member)| {
        let count = |is_so: &dyn Fn(&Standing) -> bool| standings.iter().filter(|standing| is_so(standing)).count();
        let leads = count(&|standing| standing.leads == Some(id));
        let votes = count(&|standing| standing.vote.contains(&id));
        Reply::Map(vec![
            text("name", &member.name),
            number("id", usize::from(id.0)),
            text("peer-address", &member.peer_address),
            text("state", registry.state_of(id)),
            text("zone", registry.zone_of(id)),
            text("seen", if is_up(id) { "up" } else { "down" }),
            text("keys", &keys_of(registry, id)),
            number("leads", leads),
            number("votes", votes),
            number("replicas", count(&|standing| standing.hold.contains(&id))),
            text("movement", if registry.paused { "paused" } else { "on" }),
            number("bytes-to-send", moves(id).left_bytes as usize),
            number("bytes-per-second", moves(id).bytes_per_second as usize),
            number("speaks", newest(id).map_or(0, usize::from)),
            number("cluster-version", usize::from(registry.version)),
            number("entries-stepped-over", registry.stepped_total as usize),
        ])
    };
    // By the newest registry, whatever this node has made of it.
    let mut roll = roll.clone();
    roll.follow(registry);
    Reply::Array(roll.iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_said_in_digits_alone() {
        let whole = "0f".repeat(32);
        assert_eq!(key_of(whole.as_bytes()), Ok([15; 32]));
        assert_eq!(key_of(whole.to_uppercase().as_bytes()), Ok([15; 32]));
        for wrong in [&whole[1..], &format!("+{}", &whole[1..]), &format!("{whole}0"), "", &"é".repeat(32)] {
            assert!(key_of(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
