//! Questions to servers, one at a time: RESP and HTTP, each with a limit of time. Not for load.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use wire::{ReplyParser, Value};

/// Most bytes of an HTTP answer: what servers say of themselves is far less.
const HTTP_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;

/// A server that is asked now and then. The connection is kept for the next question.
#[derive(Debug)]
pub struct Asker {
    address: SocketAddr,
    connection: Mutex<Option<Connection>>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    parser: ReplyParser,
}

impl Asker {
    /// Nothing is connected yet.
    #[must_use]
    pub fn new(address: SocketAddr) -> Asker {
        Asker { address, connection: Mutex::new(None) }
    }

    /// Where the server is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends one command by RESP and waits for its reply, at most `patience`. It may be sent twice: the connection of the question before may
    /// be one that the server has closed.
    ///
    /// # Errors
    /// When no reply comes in time, or it is an error.
    pub fn call(&self, words: &[&str], patience: Duration) -> Result<Value, String> {
        let failed = |reason: &dyn std::fmt::Display| format!("{} to {}: {reason}", words.join(" "), self.address);
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let end = Instant::now() + patience;
        let reply = match kept.take().map(|connection| connection.exchange(words, end)) {
            Some(Ok(answered)) => answered,
            // A kept connection may be of an earlier life of the server.
            None | Some(Err(_)) => {
                let connection = Connection::open(self.address, end).map_err(|error| failed(&error))?;
                connection.exchange(words, end).map_err(|error| failed(&error))?
            }
        };
        let (connection, value) = reply;
        *kept = Some(connection);
        match value.as_error() {
            Some(error) => Err(failed(&error)),
            None => Ok(value),
        }
    }

    /// As [`Asker::call`], for a reply that is text.
    ///
    /// # Errors
    /// As there, and when the reply is something else.
    pub fn text(&self, words: &[&str], patience: Duration) -> Result<String, String> {
        let value = self.call(words, patience)?;
        let bytes =
            value.as_bytes().ok_or_else(|| format!("{} answers {} with no text", self.address, words.join(" ")))?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

impl Connection {
    fn open(address: SocketAddr, end: Instant) -> std::io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, left(end)?)?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, parser: ReplyParser::default() })
    }

    /// One command and its reply. A connection on which that fails is of no more use, and gone.
    fn exchange(mut self, words: &[&str], end: Instant) -> std::io::Result<(Connection, Value)> {
        let mut out = Vec::new();
        wire::encode_command(&mut out, words);
        self.stream.set_write_timeout(Some(left(end)?))?;
        self.stream.write_all(&out)?;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let next = self.parser.next().map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))?;
            if let Some(value) = next {
                return Ok((self, value));
            }
            self.stream.set_read_timeout(Some(left(end)?))?;
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(std::io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
                Ok(count) => self.parser.push(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(late()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// One HTTP request on a connection of its own: method and path, a body of JSON if it is not empty. Answers status and body.
///
/// # Errors
/// When no whole answer comes in time.
pub fn http(address: SocketAddr, line: &str, body: &str, patience: Duration) -> Result<(u16, String), String> {
    exchange_http(address, line, body, Instant::now() + patience)
        .map_err(|error| format!("{line} of {address}: {error}"))
}

fn exchange_http(address: SocketAddr, line: &str, body: &str, end: Instant) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, left(end)?)?;
    stream.set_read_timeout(Some(left(end)?))?;
    stream.set_write_timeout(Some(left(end)?))?;
    // Version 1.0: the body comes in one piece and ends with the connection.
    let head = format!(
        "{line} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    let mut all = Vec::new();
    stream.take(HTTP_BYTES_MAX).read_to_end(&mut all).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => late(),
        _ => error,
    })?;
    let strange = || std::io::Error::new(ErrorKind::InvalidData, "the answer is not HTTP");
    let split = all.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(strange)?;
    let head = String::from_utf8_lossy(&all[..split]);
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(strange)?;
    Ok((status, String::from_utf8_lossy(&all[split + 4..]).into_owned()))
}

/// The time until `end`; an error if it has come.
fn left(end: Instant) -> std::io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(late()) } else { Ok(left) }
}

fn late() -> std::io::Error {
    std::io::Error::new(ErrorKind::TimedOut, "no answer in time")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A server that answers each connection of a list once, and closes it.
    fn server(answers: &'static [&'static str]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a client");
                let count = stream.read(&mut [0; 4096]).expect("a question");
                assert!(count > 0);
                stream.write_all(answer.as_bytes()).expect("it listens");
            }
        });
        address
    }

    #[test]
    fn replies_errors_and_closed_connections() {
        let asker = Asker::new(server(&["$5\r\nhello\r\n", "-ERR no\r\n", ":7\r\n"]));
        assert_eq!(asker.text(&["GET", "k"], PATIENCE), Ok("hello".to_owned()));
        // The kept connection is closed by now, which costs nothing but a new one.
        let refused = asker.call(&["SET", "k"], PATIENCE).expect_err("an error reply");
        assert!(refused.contains("SET k to 127.0.0.1") && refused.ends_with("ERR no"), "{refused}");
        assert_eq!(asker.call(&["INCR", "k"], PATIENCE), Ok(Value::Integer(7)));
    }

    #[test]
    fn who_does_not_answer_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let patience = Duration::from_millis(50);
        let begin = Instant::now();
        let silent = Asker::new(address).call(&["PING"], patience).expect_err("nobody answers");
        assert!(silent.contains("no answer in time"), "{silent}");
        assert!(http(address, "GET /", "", patience).expect_err("nobody answers").contains("no answer in time"));
        assert!(begin.elapsed() < PATIENCE);
    }

    #[test]
    fn http_is_told_by_status_and_body() {
        let unready = server(&["HTTP/1.1 503 Service Unavailable\r\nX: y\r\n\r\nnot yet"]);
        assert_eq!(http(unready, "GET /readyz", "", PATIENCE), Ok((503, "not yet".to_owned())));
        assert!(http(server(&["SSH-2.0\r\n"]), "GET /", "", PATIENCE).expect_err("no HTTP").contains("not HTTP"));
    }
}
