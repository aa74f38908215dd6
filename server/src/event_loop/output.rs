//! Bytes on their way to a socket that may not take all of them at once.

use std::io::{self, ErrorKind, Write};

/// Buffers larger than this are not kept for reuse.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a socket still has to take.
#[derive(Default, Debug)]
pub(super) struct Output {
    waiting: Vec<u8>,
    /// So much of `waiting` is written. `< waiting.len()`, or both are 0.
    written: usize,
}

impl Output {
    /// Writes `bytes` behind what waits already, as far as the socket takes them now; the rest waits for
    /// [`Output::flush`]. Returns a spare buffer, emptied, if `bytes` is not needed any more.
    ///
    /// # Errors
    /// What the socket says; the connection is to be closed.
    pub(super) fn send(&mut self, socket: &mut impl Write, mut bytes: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        if !self.waiting.is_empty() {
            if self.written > self.waiting.len() / 2 {
                self.waiting.drain(..self.written);
                self.written = 0;
            }
            self.waiting.extend_from_slice(&bytes);
        } else {
            let written = write_some(socket, &bytes)?;
            if written < bytes.len() {
                self.waiting = bytes;
                self.written = written;
                return Ok(None);
            }
        }
        if bytes.capacity() > KEPT_BYTES_MAX {
            return Ok(None);
        }
        bytes.clear();
        Ok(Some(bytes))
    }

    /// Goes on writing what waits. To be called when the socket has become writable.
    ///
    /// # Errors
    /// What the socket says; the connection is to be closed.
    pub(super) fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.written += write_some(socket, &self.waiting[self.written..])?;
        if self.written == self.waiting.len() {
            self.written = 0;
            self.waiting = Vec::new();
        }
        Ok(())
    }

    /// Bytes that the socket has not taken yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting.len() - self.written
    }
}

/// Writes until all is written or the socket takes no more; only then does it tell when it takes more again.
fn write_some(socket: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match socket.write(&bytes[written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `room` bytes, at most three at a time, then blocks.
    struct Socket {
        taken: Vec<u8>,
        room: usize,
    }

    impl Write for Socket {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room).min(3);
            if count == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.room -= count;
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nothing_is_lost_or_reordered_whatever_the_socket_takes() {
        for room in 0..12 {
            let mut socket = Socket { taken: Vec::new(), room };
            let mut output = Output::default();
            for piece in [&b"hello"[..], b" ", b"world", b"!"] {
                let spare = output.send(&mut socket, piece.to_vec()).expect("no error");
                assert!(spare.is_none_or(|spare| spare.is_empty()));
                socket.room += 1;
                output.flush(&mut socket).expect("no error");
            }
            assert_eq!(output.waiting_bytes() + socket.taken.len(), 12);
            socket.room = 100;
            output.flush(&mut socket).expect("no error");
            assert_eq!((&socket.taken[..], output.waiting_bytes()), (&b"hello world!"[..], 0));
        }
    }

    #[test]
    fn a_closed_socket_is_an_error() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
                Ok(0)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(Output::default().send(&mut Closed, b"x".to_vec()).is_err());
    }
}
