//! Lets nodes in that ask at the peers' listener: each question becomes a command of a virtual client.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::NodeId;
use wire::{JoinMember, JoinReply, JoinRequest, ReplyParser, Value, encode_command};

use crate::bridge::{Bridge, VirtualConnection};
use crate::log;
use crate::peer_tls::Socket;
use crate::standing::send;

/// Most nodes that are let in at a time.
const AT_ONCE_MAX: usize = 8;
/// How long the command may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// See the file's head.
#[derive(Clone)]
pub(crate) struct Admission {
    bridge: Bridge,
    under_way: Arc<AtomicUsize>,
}

impl Admission {
    pub(crate) fn new(bridge: Bridge) -> Admission {
        Admission { bridge, under_way: Arc::default() }
    }

    /// Carries a request out and answers it, on a thread of its own. With too many under way, or without a thread, the link is closed: the node asks
    /// again.
    pub(crate) fn admit(&self, socket: Socket<TcpStream>, request: JoinRequest) {
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= AT_ONCE_MAX {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let admission = self.clone();
        let run = move || {
            if let Err(error) = admission.answer(socket, &request) {
                log::info(&format!("{} asked to join and could not be answered: {error}", request.name));
            }
            admission.under_way.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(error) = std::thread::Builder::new().name("admission".to_owned()).spawn(run) {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            log::warning(&format!("a node that asked to join was not answered: {error}"));
        }
    }

    fn answer(&self, mut socket: Socket<TcpStream>, request: &JoinRequest) -> std::io::Result<()> {
        socket.stream().set_nonblocking(false)?;
        socket.stream().set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let late = || JoinReply::Refused("UNKNOWN the cluster did not answer in time".to_owned());
        let asked = async { tokio::time::timeout(ANSWER_TIMEOUT, self.ask(request)).await };
        let reply = runtime.block_on(asked).unwrap_or_else(|_| late());
        match &reply {
            JoinReply::Welcome { id, .. } => {
                log::info(&format!("{} ({}) was let in, as number {}", request.name, request.peer_address, id.0));
            }
            JoinReply::Refused(text) => log::warning(&format!("{} was not let in: {text}", request.name)),
        }
        send(&mut socket, |payload| reply.encode(payload))
    }

    async fn ask(&self, request: &JoinRequest) -> JoinReply {
        let mut connection = self.bridge.open(&format!("join {}", request.peer_address));
        let mut parser = ReplyParser::default();
        let nonce = (request.nonce as i64).to_string();
        let JoinRequest { token, name, peer_address, zone, newest, .. } = request;
        let mut words = Vec::new();
        let newest = newest.to_string();
        encode_command(&mut words, ["DICTUM.NODE", "JOIN", token, name, peer_address, &nonce, zone, &newest]);
        connection.send(words).await;
        match next(&mut connection, &mut parser).await {
            Some(Value::Error(text)) => JoinReply::Refused(text),
            Some(reply) => welcome(&reply).unwrap_or_else(strange),
            None => strange(),
        }
    }
}

fn strange() -> JoinReply {
    JoinReply::Refused("UNKNOWN the node that was asked could not tell".to_owned())
}

/// The next reply; none if the node has closed the connection.
pub(crate) async fn next(connection: &mut VirtualConnection, parser: &mut ReplyParser) -> Option<Value> {
    loop {
        if let Some(value) = parser.next().ok()? {
            return Some(value);
        }
        parser.push(&connection.receive().await?);
    }
}

/// What `DICTUM.NODE JOIN` answers: the names and values of a map, one after the other.
fn welcome(reply: &Value) -> Option<JoinReply> {
    let flat = reply.as_array()?;
    let of = |name: &str| {
        let place = flat.iter().step_by(2).position(|word| word.as_bytes() == Some(name.as_bytes()))?;
        flat.get(2 * place + 1)
    };
    let number = |value: &Value| value.as_integer().and_then(|id| u16::try_from(id).ok()).map(NodeId);
    let text = |value: &Value| Some(String::from_utf8_lossy(value.as_bytes()?).into_owned());
    let member = |value: &Value| -> Option<JoinMember> {
        let [id, name, address] = value.as_array()? else { return None };
        Some((number(id)?, text(name)?, text(address)?))
    };
    let members = |name| of(name)?.as_array()?.iter().map(member).collect::<Option<Vec<JoinMember>>>();
    Some(JoinReply::Welcome { id: number(of("id")?)?, founders: members("founders")?, joined: members("joined")? })
}
