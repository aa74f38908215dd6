//! A blocking connection to a server, for the command line.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tls::{Trust, TrustedStream};
use wire::{ReplyParser, Value};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a server is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// File with the authorities whose certificates are believed: TLS is spoken then.
    pub authority: Option<PathBuf>,
}

impl Endpoint {
    /// Reads `host:port`, `host` (port 7001), `:port` or `[IPv6]:port`.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Endpoint, String> {
        let (host, port) = match text.rsplit_once(':') {
            // An IPv6 address without brackets has colons of its own.
            Some((host, _)) if host.contains(':') && !host.starts_with('[') => (text, None),
            Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let port = match port {
            Some(port) => port.parse().map_err(|_| format!("`{text}` is not an address: write HOST:PORT"))?,
            None => 7001,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Endpoint { host: if host.is_empty() { "127.0.0.1" } else { host }.to_owned(), port, authority: None })
    }

    /// Reads several with commas between, which are spoken to by TLS if there is a file with authorities.
    ///
    /// # Errors
    /// As [`Endpoint::parse`].
    pub fn parse_all(text: &str, authority: Option<&Path>) -> Result<Vec<Endpoint>, String> {
        let with = |endpoint| Endpoint { authority: authority.map(Path::to_owned), ..endpoint };
        text.split(',').map(|one| Endpoint::parse(one).map(with)).collect()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Endpoint { host, port, .. } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// What a connection is made of.
#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Secured(Box<TrustedStream<TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Secured(stream) => stream.socket(),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.write_all(bytes),
            Stream::Secured(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Secured(stream) => stream.read(buffer),
        }
    }
}

/// Those whose certificates are believed.
fn trust(file: &Path) -> io::Result<Trust> {
    let named =
        |text: String| io::Error::new(io::ErrorKind::InvalidInput, format!("--cacert {}: {text}", file.display()));
    let bytes = std::fs::read(file).map_err(|error| named(error.to_string()))?;
    Trust::from_pem(&bytes).map_err(named)
}

/// A connection on which commands are sent and replies awaited, one after the other.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    parser: ReplyParser,
    out: Vec<u8>,
    input: Vec<u8>,
}

impl Connection {
    /// Connects. A reply that takes longer than `patience` is an error; `None` waits for ever.
    ///
    /// # Errors
    /// The last one of the addresses that the name stands for.
    pub fn open(endpoint: &Endpoint, patience: Option<Duration>) -> io::Result<Connection> {
        let trust = endpoint.authority.as_deref().map(trust).transpose()?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name stands for no address");
        for address in (endpoint.host.as_str(), endpoint.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let stream = match &trust {
                        None => Stream::Plain(stream),
                        Some(trust) => {
                            let called = trust.call(&endpoint.host, stream);
                            Stream::Secured(Box::new(
                                called.map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))?,
                            ))
                        }
                    };
                    let input = vec![0; 64 * 1024];
                    let connection = Connection { stream, parser: ReplyParser::default(), out: Vec::new(), input };
                    connection.set_patience(patience)?;
                    return Ok(connection);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Has replies that take longer than `patience` be errors from now on; `None` waits for ever.
    ///
    /// # Errors
    /// When the operating system refuses the limit.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.stream.socket().set_read_timeout(patience)?;
        self.stream.socket().set_write_timeout(patience)
    }

    /// Whether the server has not closed the connection, as far as can be told without waiting.
    #[must_use]
    pub fn is_open(&mut self) -> bool {
        let socket = self.stream.socket();
        if socket.set_nonblocking(true).is_err() {
            return false;
        }
        // Under TLS what lies there may be the end of the session.
        let peeked = match &mut self.stream {
            Stream::Plain(socket) => socket.peek(&mut [0]),
            Stream::Secured(stream) => {
                stream.read(&mut self.input).inspect(|count| self.parser.push(&self.input[..*count]))
            }
        };
        let socket = self.stream.socket();
        socket.set_nonblocking(false).is_ok()
            && match peeked {
                Ok(count) => count > 0,
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            }
    }

    /// Sends one command and waits for its reply.
    ///
    /// # Errors
    /// When the connection is gone, the reply is not RESP, or it takes too long. The connection is then of no more use.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> io::Result<Value> {
        self.send(words)?;
        self.receive()
    }

    /// Sends one command.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) -> io::Result<()> {
        self.out.clear();
        wire::encode_command(&mut self.out, words);
        self.stream.write_all(&self.out)
    }

    /// Sends commands that are encoded already.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send_encoded(&mut self, commands: &[u8]) -> io::Result<()> {
        self.stream.write_all(commands)
    }

    /// Waits for the next reply or pushed message.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub fn receive(&mut self) -> io::Result<Value> {
        loop {
            let next = self.parser.next().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if let Some(value) = next {
                return Ok(value);
            }
            match self.stream.read(&mut self.input) {
                Ok(0) => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
                }
                Ok(count) => self.parser.push(&self.input[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_every_form() {
        let read = |text: &str| Endpoint::parse(text).map(|endpoint| endpoint.to_string()).ok();
        assert_eq!(read("db.example:7002").as_deref(), Some("db.example:7002"));
        assert_eq!(read("db.example").as_deref(), Some("db.example:7001"));
        assert_eq!(read(":7003").as_deref(), Some("127.0.0.1:7003"));
        assert_eq!(read("[::1]:7003").as_deref(), Some("[::1]:7003"));
        assert_eq!(read("::1").as_deref(), Some("[::1]:7001"));
        assert_eq!(read("[::1]").as_deref(), Some("[::1]:7001"));
        assert_eq!(read("host:port"), None);
        assert_eq!(read("host:70000"), None);
    }
}
