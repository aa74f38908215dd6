//! Where a node stands in its cluster: a founder, as `--cluster` says; or one that has joined, as its folder remembers.
//!
//! A node that joins (`--join`, `--token`) goes through three stages, each kept in the identity file before the next begins, so that it may die at any
//! point and be started again in the same way:
//! 1. *Asking*: it has drawn a number, by which the cluster knows it again if it has to ask twice.
//! 2. *Admitted*: it knows its own id and the other nodes, and has no journal yet.
//! 3. *Member*: its journal was made; if it is ever missing, it was lost.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant};

use base::NodeId;
use base::versions::OLDEST;
use node::Member;
use storage::{Files, FolderError, Identity, LoadedIdentity, ReadOnlyFolder};
use wire::{FrameReader, FrameWriter, JoinMember, JoinReply, JoinRequest, Malformed, Reader, Writer};

use crate::exit::Failure;
use crate::log;
use crate::options::{Options, fingerprint};
use crate::peer_tls::{PeerSecurity, Socket};

/// How long a node goes on asking.
const ASK_FOR: Duration = Duration::from_secs(60);
/// How long one question may take: as long as the node that is asked looks for a leader, and more.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Between two questions.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// Longest answer, in bytes: each node is named with a few hundred.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// The version of what stands in the identity file.
const VERSION: u8 = 1;

/// See the file's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Standing {
    /// Sorted by name; the id of each is its place.
    pub(crate) founders: Vec<Member>,
    /// Who has joined since, as far as this node was told; itself if it has.
    pub(crate) joined: Vec<(NodeId, Member)>,
    pub(crate) me: NodeId,
}

/// What the identity file says of a node that has joined.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    Asking,
    Admitted(Standing),
    Member(Standing),
}

/// What is known of the folder's owner before its journal is opened.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) standing: Standing,
    /// None if the folder is new.
    pub(crate) identity: Option<Identity>,
    /// It is a member of the cluster that has had no journal yet.
    pub(crate) is_admitted: bool,
}

impl Standing {
    /// Stands for the cluster.
    pub(crate) fn fingerprint(&self) -> u64 {
        fingerprint(&self.founders)
    }

    /// This node as others know it.
    pub(crate) fn own(&self) -> &Member {
        let joined = || self.joined.iter().find(|(id, _)| *id == self.me).map(|(_, member)| member);
        self.founders.get(usize::from(self.me.0)).or_else(joined).expect("a node is a founder or has joined")
    }

    fn has_joined(&self) -> bool {
        usize::from(self.me.0) >= self.founders.len()
    }

    /// Finds out who this node is, and that the folder is its own. A node that is to join does so here.
    pub(crate) fn find(options: &Options, disk: &Files, security: Option<&PeerSecurity>) -> Result<Known, Failure> {
        let folder = options.dir.display();
        let loaded =
            Identity::load(disk).map_err(|error| format!("the identity in {folder} cannot be read: {error}"))?;
        let identity = match loaded {
            LoadedIdentity::Missing => None,
            LoadedIdentity::Found(identity) if identity.name != options.name => {
                return Err(Failure::settings(format!(
                    "{folder} belongs to node {}, and this is {}; correct --dir or --node",
                    identity.name, options.name
                )));
            }
            LoadedIdentity::Found(identity) => Some(identity),
            LoadedIdentity::Damaged(reason) => {
                let advice = crate::advice::OTHER_FOLDER;
                return Err(Failure::damaged(format!("{folder} cannot be used: {reason}. What to do: {advice}")));
            }
        };
        let stage = match identity.as_ref().filter(|identity| !identity.opaque.is_empty()) {
            Some(identity) => Some(Stage::decode(&identity.opaque).map_err(|_| {
                Failure::damaged(format!(
                    "{folder} cannot be used: its identity file was written by another version of Dictum"
                ))
            })?),
            None => None,
        };
        match (stage, &options.founding) {
            (Some(Stage::Member(standing)), _) => {
                standing.tell_unused(options);
                Ok(Known { standing, identity, is_admitted: false })
            }
            (Some(Stage::Admitted(standing)), _) => {
                standing.tell_unused(options);
                Ok(Known { standing, identity, is_admitted: true })
            }
            (None, Some((founders, me))) => {
                let standing = Standing { founders: founders.clone(), joined: Vec::new(), me: *me };
                if identity.as_ref().is_some_and(|identity| identity.cluster != standing.fingerprint()) {
                    return Err(Failure::settings(format!(
                        "{folder} belongs to a cluster of other nodes than those in --cluster; correct --cluster or --dir"
                    )));
                }
                Ok(Known { standing, identity, is_admitted: false })
            }
            (None, None) if identity.is_some() => Err(Failure::settings(format!(
                "{folder} belongs to a founder of its cluster: give --cluster NAME=HOST:PORT,… with all that have founded it, this node among them"
            ))),
            (Some(Stage::Asking), _) | (None, None) => {
                let nonce = identity.map_or_else(|| (crate::start::chance() >> 1).max(1), |known| known.incarnation);
                let (standing, identity) = join(options, disk, security, nonce)?;
                Ok(Known { standing, identity: Some(identity), is_admitted: true })
            }
        }
    }

    /// Says which settings of this start are not looked at, as the node has joined before.
    fn tell_unused(&self, options: &Options) {
        if options.join.is_some() || options.token.is_some() {
            log::info("--join and --token are not needed any more: this node has joined");
        }
        if options.founding.is_some() {
            log::warning(
                "--cluster is not looked at: this node has joined, and knows the others by its folder. If they have other addresses now, say so by --moved",
            );
        }
        let known = &self.own().peer_address;
        let listens = options.peer.as_ref().filter(|peer| *peer != known && !is_everywhere(peer));
        let is_said = options.peer_announce.is_some() || options.moved.iter().any(|moved| moved.name == options.name);
        if let Some(peer) = listens.filter(|_| !is_said) {
            log::info(&format!(
                "the other nodes reach this one at {known}, and it listens at {peer}: give --peer-announce if it is reached elsewhere now"
            ));
        }
    }

    /// Takes over which addresses have changed, by the operator's word. Answers where the others reach this node from now on, if that was said.
    pub(crate) fn move_to(&mut self, options: &Options) -> Option<String> {
        let of_joined = self.joined.iter_mut().map(|(_, member)| member);
        for member in self.founders.iter_mut().chain(of_joined) {
            if let Some(moved) = options.moved.iter().find(|moved| moved.name == member.name) {
                member.peer_address.clone_from(&moved.peer_address);
            }
        }
        let me = self.me;
        let joined = self.joined.iter_mut().find(|(id, _)| *id == me).map(|(_, member)| member);
        let own = self.founders.get_mut(usize::from(me.0)).or(joined)?;
        let moved = options.moved.iter().any(|moved| moved.name == own.name).then(|| own.peer_address.clone());
        let said = options.peer_announce.clone().or(moved)?;
        own.peer_address.clone_from(&said);
        Some(said)
    }

    /// Where the owner of a folder stands that is not to be started now. A founder's does not say who the others are: `founders` do.
    pub(crate) fn of_stopped(identity: &Identity, founders: Option<Vec<Member>>) -> Result<Standing, String> {
        let name = &identity.name;
        if !identity.opaque.is_empty() {
            return match Stage::decode(&identity.opaque) {
                Ok(Stage::Member(standing)) => Ok(standing),
                Ok(Stage::Asking | Stage::Admitted(_)) => {
                    Err(format!("{name} has not been a member of the cluster yet: its folder holds nothing"))
                }
                Err(Malformed) => Err("its identity file was written by another version of Dictum".to_owned()),
            };
        }
        let founders = founders.ok_or_else(|| {
            format!(
                "it belongs to {name}, a founder of its cluster: give --cluster NAME=HOST:PORT,… as for `dictum start`"
            )
        })?;
        let place = founders.iter().position(|founder| founder.name == *name);
        let standing = place.map(|place| Standing { founders, joined: Vec::new(), me: NodeId(place as u16) });
        standing.filter(|standing| standing.fingerprint() == identity.cluster).ok_or_else(|| {
            format!("it belongs to {name} of a cluster of other nodes than those in --cluster; correct --cluster")
        })
    }

    /// The identity of this node from now on: its journal is there.
    pub(crate) fn identity(&self, incarnation: u64) -> Identity {
        let opaque = if self.has_joined() { Stage::Member(self.clone()).encode() } else { Vec::new() };
        Identity { cluster: self.fingerprint(), incarnation, name: self.own().name.clone(), opaque }
    }
}

/// Whether an address to listen at is no address to be reached at.
fn is_everywhere(address: &str) -> bool {
    address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_unspecified())
}

/// Asks the cluster to take this node in, until it does or says that it will not.
fn join(
    options: &Options,
    disk: &Files,
    security: Option<&PeerSecurity>,
    nonce: u64,
) -> Result<(Standing, Identity), Failure> {
    let name = options.name.clone();
    let (Some(asked), Some(token)) = (&options.join, &options.token) else {
        return Err(Failure::settings(format!(
            "node {name} is in no cluster yet: give --join HOST:PORT of any node's peer address and --token from `dictum node token`; \
             or --cluster NAME=HOST:PORT,… on every node to found one"
        )));
    };
    let Some(peer_address) = options.peer_announce.clone().or(options.peer.clone()) else {
        return Err(Failure::settings(
            "a node that joins needs an address for the other nodes: give --peer IP:PORT, and if they reach it by \
             another one, --peer-announce HOST:PORT"
                .to_owned(),
        ));
    };
    let in_folder = |error: io::Error| format!("the identity in {} cannot be written: {error}", options.dir.display());
    let mut identity = Identity { cluster: 0, incarnation: nonce, name: name.clone(), opaque: Stage::Asking.encode() };
    identity.store(disk).map_err(in_folder)?;
    let zone = options.zone.clone();
    let mut request =
        JoinRequest { token: token.clone(), name, peer_address, nonce, zone, newest: options.speak_at_most };
    let began = Instant::now();
    log::info(&format!("asks {asked} to be let into the cluster"));
    let standing = loop {
        match ask(asked, &request, security) {
            Ok(JoinReply::Welcome { id, founders, joined }) => break standing_of(id, founders, joined)?,
            // It may be so again in a moment, or not.
            Ok(JoinReply::Refused(text)) if !text.starts_with("CLUSTERDOWN") && !text.starts_with("UNKNOWN") => {
                return Err(Failure::settings(format!(
                    "the cluster does not take this node in: {}",
                    text.strip_prefix("ERR ").unwrap_or(&text)
                )));
            }
            Ok(JoinReply::Refused(text)) if began.elapsed() >= ASK_FOR => {
                return Err(format!("the cluster has not taken this node in: {text}").into());
            }
            Err(error) if began.elapsed() >= ASK_FOR => {
                return Err(format!(
                    "{asked} cannot be asked to be let in: {error}; correct --join, or try another node"
                )
                .into());
            }
            Ok(JoinReply::Refused(text)) => log::info(&format!("not let in yet: {text}")),
            Err(error) => {
                log::info(&format!("{asked} cannot be asked yet: {error}"));
                // A node of the oldest version closes the link on a question in a newer one. If that was not the reason, the next question is in that again.
                let asks_newer = error.kind() == io::ErrorKind::InvalidData && request.newest > OLDEST;
                request.newest = if asks_newer { OLDEST } else { options.speak_at_most };
            }
        }
        std::thread::sleep(ASK_AGAIN_AFTER);
    };
    identity.cluster = standing.fingerprint();
    identity.opaque = Stage::Admitted(standing.clone()).encode();
    identity.store(disk).map_err(in_folder)?;
    log::info(&format!("was let in, as number {}", standing.me.0));
    Ok((standing, identity))
}

/// Where a node will listen for the others that has not run before: as [`Standing::find`], [`Standing::move_to`] and the start itself will have it.
pub(crate) fn address_to_be(options: &Options) -> Option<String> {
    let moved = options.moved.iter().find(|moved| moved.name == options.name).map(|moved| &moved.peer_address);
    let of_founder = options.founding.as_ref().and_then(|(founders, me)| founders.get(usize::from(me.0)));
    let of_founder = of_founder.map(|member| &member.peer_address);
    options.peer.as_ref().or(options.peer_announce.as_ref()).or(moved).or(of_founder).cloned()
}

/// Whether whoever is to own this folder has yet to be let into a cluster.
///
/// # Errors
/// Another process uses the folder, or it cannot be read.
pub(crate) fn is_stranger(folder: &Path) -> Result<bool, String> {
    let disk = match ReadOnlyFolder::open(folder) {
        Ok(disk) => disk,
        Err(FolderError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error.to_string()),
    };
    let identity = Identity::load(&disk);
    let identity = identity.map_err(|error| format!("the identity in {} cannot be read: {error}", folder.display()))?;
    Ok(is_of_stranger(&identity))
}

/// The same of the folder that this process has opened. What cannot be read is told by [`Standing::find`].
pub(crate) fn is_new(disk: &Files) -> bool {
    Identity::load(disk).is_ok_and(|identity| is_of_stranger(&identity))
}

fn is_of_stranger(identity: &LoadedIdentity) -> bool {
    match identity {
        LoadedIdentity::Missing => true,
        LoadedIdentity::Found(identity) => matches!(Stage::decode(&identity.opaque), Ok(Stage::Asking)),
        // Whoever starts in it says what is wrong.
        LoadedIdentity::Damaged(_) => false,
    }
}

fn standing_of(me: NodeId, founders: Vec<JoinMember>, joined: Vec<JoinMember>) -> Result<Standing, String> {
    let member = |(id, name, peer_address): JoinMember| (id, Member { name, peer_address });
    let standing = Standing {
        founders: founders.into_iter().map(|founder| member(founder).1).collect(),
        joined: joined.into_iter().map(member).collect(),
        me,
    };
    let names_me = standing.joined.iter().any(|(id, _)| *id == me);
    if names_me && standing.has_joined() {
        Ok(standing)
    } else {
        Err("the node that was asked answered something that makes no sense".to_owned())
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(stream)
}

fn ask(asked: &str, request: &JoinRequest, security: Option<&PeerSecurity>) -> io::Result<JoinReply> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name stands for no address");
    for address in asked.to_socket_addrs()? {
        let stream = match connect(address) {
            Ok(stream) => stream,
            Err(error) => {
                last = error;
                continue;
            }
        };
        let mut socket = match security {
            None => Socket::Plain(stream),
            Some(security) => match Socket::call(stream, security)? {
                Some(socket) => socket,
                None => Socket::Plain(connect(address)?),
            },
        };
        send(&mut socket, |payload| request.encode(payload))?;
        let mut reader = FrameReader::with_limit(ANSWER_BYTES_MAX);
        let mut buffer = [0; 4096];
        loop {
            let strange = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
            if let Some(bytes) = reader.next().map_err(|error| strange(error.to_string()))? {
                return JoinReply::decode(&bytes)
                    .map_err(|_| strange("it is no node, or of another version".to_owned()));
            }
            match socket.read_some(&mut buffer) {
                Ok(0) => {
                    let text = "it closes the link: it is no node, or of another version, or of a cluster with a secret (--cluster-secret)";
                    return Err(strange(text.to_owned()));
                }
                Ok(count) => reader.push(&buffer[..count]),
                // A signal may end a read that has a time limit.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Err(last)
}

/// Sends one frame.
pub(crate) fn send(socket: &mut Socket<TcpStream>, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
    let mut bytes = Vec::new();
    FrameWriter::append(&mut bytes, encode).map_err(|error| io::Error::other(error.to_string()))?;
    socket.write_all(&bytes)?;
    socket.flush()
}

const ASKING: u8 = 0;
const ADMITTED: u8 = 1;
const MEMBER: u8 = 2;

impl Stage {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let mut w = Writer::new(&mut out);
        let (number, standing) = match self {
            Stage::Asking => (ASKING, None),
            Stage::Admitted(standing) => (ADMITTED, Some(standing)),
            Stage::Member(standing) => (MEMBER, Some(standing)),
        };
        w.u8(number);
        if let Some(Standing { founders, joined, me }) = standing {
            w.node(*me);
            w.count(founders.len());
            for member in founders {
                w.bytes(member.name.as_bytes());
                w.bytes(member.peer_address.as_bytes());
            }
            w.count(joined.len());
            for (id, member) in joined {
                w.node(*id);
                w.bytes(member.name.as_bytes());
                w.bytes(member.peer_address.as_bytes());
            }
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Stage, Malformed> {
        let mut r = Reader::from_slice(bytes);
        if r.u8()? != VERSION {
            return Err(Malformed);
        }
        let number = r.u8()?;
        if number == ASKING {
            r.finish()?;
            return Ok(Stage::Asking);
        }
        let member = |r: &mut Reader<'_>| Ok(Member { name: r.text()?.to_owned(), peer_address: r.text()?.to_owned() });
        let me = r.node()?;
        let founders = (0..r.count(2)?).map(|_| member(&mut r)).collect::<Result<Vec<Member>, Malformed>>()?;
        let joined =
            (0..r.count(3)?).map(|_| Ok((r.node()?, member(&mut r)?))).collect::<Result<Vec<_>, Malformed>>()?;
        r.finish()?;
        let standing = Standing { founders, joined, me };
        let names_me = standing.has_joined() && standing.joined.iter().any(|(id, _)| *id == me);
        match number {
            ADMITTED if names_me => Ok(Stage::Admitted(standing)),
            MEMBER if names_me => Ok(Stage::Member(standing)),
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_read_as_it_is_written() {
        let member = |name: &str| Member { name: name.to_owned(), peer_address: format!("{name}:9001") };
        let founders = vec![member("n1"), member("n2")];
        let standing = Standing { founders, joined: vec![(NodeId(2), member("n3"))], me: NodeId(2) };
        assert_eq!((standing.own().name.as_str(), standing.has_joined()), ("n3", true));
        for stage in [Stage::Asking, Stage::Admitted(standing.clone()), Stage::Member(standing.clone())] {
            let bytes = stage.encode();
            assert_eq!(Stage::decode(&bytes), Ok(stage));
            for length in 0..bytes.len() {
                assert_eq!(Stage::decode(&bytes[..length]), Err(Malformed), "cut to {length}");
            }
        }
        let stranger = Standing { me: NodeId(7), ..standing };
        assert_eq!(Stage::decode(&Stage::Member(stranger).encode()), Err(Malformed));
    }
}
