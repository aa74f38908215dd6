//! A session whose other side is known.

use std::io::{self, ErrorKind, Read, Write};

use rustls::Connection;

/// Bytes that are encrypted together, and wait for the socket at the most.
const CHUNK_BYTES: usize = 64 * 1024;

/// Encrypts what is written to a socket, and decrypts what is read from it. It never blocks, and keeps no more than 64 KiB in each direction.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    /// What a read of the socket has brought, and how much of it there is and was decrypted: TLS itself would ask the socket for each 4 KiB.
    inbox: Box<[u8]>,
    filled: usize,
    taken: usize,
    /// The last read brought less than there was room for: the socket has no more for now, and tells when it does.
    is_drained: bool,
}

impl Session {
    pub(crate) fn new(mut connection: Connection) -> Session {
        connection.set_buffer_limit(Some(2 * CHUNK_BYTES));
        let inbox = vec![0; CHUNK_BYTES].into_boxed_slice();
        Session { connection, inbox, filled: 0, taken: 0, is_drained: false }
    }

    /// Reads until `buffer` is full or the socket has no more, as a socket would; so a full buffer means that there may be more. `Ok(0)`: the other side has
    /// ended the session, in order.
    ///
    /// # Errors
    /// `WouldBlock`: nothing is there now. `UnexpectedEof`: the socket has ended without a word, or somebody has cut it off. `InvalidData`: what came was not
    /// written by the other side.
    pub fn read(&mut self, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_decrypted(&mut buffer[filled..]) {
                Ok(Some(0)) => break,
                Ok(Some(count)) => filled += count,
                // A socket that has given less than it might has no more, which another read would only say again.
                Ok(None) if filled > 0 && self.is_drained => break,
                Ok(None) => match self.receive(socket) {
                    // What came before is to be seen first. The next call says the same again.
                    Err(_) if filled > 0 => break,
                    outcome => outcome?,
                },
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// The same, but reads no further once it has something: for a socket that blocks.
    ///
    /// # Errors
    /// As [`Session::read`].
    pub fn read_some(&mut self, socket: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.read_decrypted(buffer)? {
                Some(count) => return Ok(count),
                None => self.receive(socket)?,
            }
        }
    }

    /// The bytes that are decrypted, or can be without another read. None if the socket has to give more.
    fn read_decrypted(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return outcome.map(Some),
            }
            if self.taken == self.filled {
                return Ok(None);
            }
            self.taken += self.connection.read_tls(&mut &self.inbox[self.taken..self.filled])?;
            self.process()?;
        }
    }

    /// Reads from the socket, once.
    fn receive(&mut self, socket: &mut impl Read) -> io::Result<()> {
        let count = loop {
            match socket.read(&mut self.inbox) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                outcome => break outcome?,
            }
        };
        (self.filled, self.taken, self.is_drained) = (count, 0, count < self.inbox.len());
        if count == 0 {
            // The reader says then whether that was in order.
            self.connection.read_tls(&mut io::empty())?;
            self.process()?;
        }
        Ok(())
    }

    fn process(&mut self) -> io::Result<()> {
        let processed = self.connection.process_new_packets();
        processed.map(drop).map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))
    }

    /// Encrypts bytes and writes them as far as the socket takes them now. Returns how many were taken: these leave with this call, or with a later one.
    ///
    /// # Errors
    /// `WouldBlock`: what was taken before waits still. Else what the socket says; the session is over then.
    pub fn write(&mut self, socket: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
        self.flush(socket)?;
        let taken = self.connection.writer().write(&bytes[..bytes.len().min(CHUNK_BYTES)])?;
        match self.flush(socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Writes what was taken and not written.
    ///
    /// # Errors
    /// `WouldBlock`: the socket does not take all of it now. Else what the socket says.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
