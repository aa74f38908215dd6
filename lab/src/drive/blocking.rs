//! A blocking RESP connection for what is asked before and after a run: the map of slots, versions, counts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use wire::{ReplyParser, Value};

/// One connection; commands are sent and answered one after the other.
#[derive(Debug)]
pub struct Blocking {
    address: SocketAddr,
    stream: TcpStream,
    parser: ReplyParser,
    input: Vec<u8>,
}

impl Blocking {
    /// Connects, and sends the greeting of [`super::Target::greeting`]. Neither connecting nor any answer may take longer than
    /// `patience`, which is not zero.
    ///
    /// # Errors
    /// A sentence with the address and the cause.
    pub fn open(address: SocketAddr, greeting: &(Vec<u8>, usize), patience: Duration) -> Result<Blocking, String> {
        let open = || -> std::io::Result<TcpStream> {
            let stream = TcpStream::connect_timeout(&address, patience)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Ok(stream)
        };
        let stream = open().map_err(|error| format!("{address} cannot be reached: {error}"))?;
        let mut connection = Blocking { address, stream, parser: ReplyParser::default(), input: vec![0; 64 * 1024] };
        connection.send(&greeting.0)?;
        for _ in 0..greeting.1 {
            if let Some(error) = connection.receive()?.as_error() {
                return Err(format!("{address} refused the password or the bucket: {error}"));
            }
        }
        Ok(connection)
    }

    /// Sends one command and waits for its reply, which may be an error of the server's.
    ///
    /// # Errors
    /// A sentence, if the connection broke or the answer took too long.
    pub fn ask(&mut self, words: &[&str]) -> Result<Value, String> {
        let mut out = Vec::new();
        wire::encode_command(&mut out, words);
        self.send(&out)?;
        self.receive()
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| format!("{}: {error}", self.address))
    }

    fn receive(&mut self) -> Result<Value, String> {
        loop {
            if let Some(value) = self.parser.next().map_err(|error| format!("{}: {error}", self.address))? {
                return Ok(value);
            }
            match self.stream.read(&mut self.input) {
                Ok(0) => return Err(format!("{} closed the connection", self.address)),
                Ok(length) => self.parser.push(&self.input[..length]),
                // With a time limit on the socket any signal ends the wait.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("{}: {error}", self.address)),
            }
        }
    }
}
