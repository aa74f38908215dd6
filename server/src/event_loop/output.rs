//! Bytes on their way to a socket that may not take all of them at once.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffers larger than this are not kept for reuse.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Up to this length what is waiting is put together.
const TOGETHER_BYTES_MAX: usize = 64 * 1024;

/// What a socket still has to take: buffers as they came. One that grew with what waits would be copied into ever larger ones, and the system clears each page
/// of those first: 16 MB on their way to a node that is behind took the loop 150 ms of processor time.
#[derive(Default, Debug)]
pub(super) struct Output {
    /// None of them is empty.
    waiting: VecDeque<Vec<u8>>,
    /// So much of the first one is written.
    written: usize,
    /// Of all of them, written or not.
    bytes: usize,
    /// One that was written, emptied.
    spare: Option<Vec<u8>>,
}

impl Output {
    /// Writes `bytes` behind what waits already, as far as the socket takes them now; the rest waits for
    /// [`Output::flush`]. Returns a spare buffer, emptied, if there is one.
    ///
    /// # Errors
    /// What the socket says; the connection is to be closed.
    pub(super) fn send(&mut self, socket: &mut impl Write, bytes: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        if self.waiting.is_empty() {
            self.written = write_some(socket, &bytes)?;
            if self.written == bytes.len() {
                self.written = 0;
                self.keep(bytes);
            } else {
                self.wait(bytes);
            }
        } else if let Some(last) = self.waiting.back_mut().filter(|last| last.len() + bytes.len() <= TOGETHER_BYTES_MAX)
        {
            last.extend_from_slice(&bytes);
            self.bytes += bytes.len();
            self.keep(bytes);
        } else {
            self.wait(bytes);
        }
        Ok(self.spare.take())
    }

    fn wait(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.bytes += bytes.len();
            self.waiting.push_back(bytes);
        }
    }

    fn keep(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() <= KEPT_BYTES_MAX {
            bytes.clear();
            self.spare = Some(bytes);
        }
    }

    /// Goes on writing what waits. To be called when the socket has become writable.
    ///
    /// # Errors
    /// What the socket says; the connection is to be closed.
    pub(super) fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while let Some(first) = self.waiting.front() {
            self.written += write_some(socket, &first[self.written..])?;
            if self.written < first.len() {
                break;
            }
            self.bytes -= self.written;
            self.written = 0;
            if let Some(first) = self.waiting.pop_front() {
                self.keep(first);
            }
        }
        if self.waiting.is_empty() {
            // There may be thousands of connections that say nothing for now.
            self.spare = None;
        }
        // A session may have taken more than its socket.
        match socket.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Bytes that the socket has not taken yet, for the thread that goes on writing to it.
    pub(super) fn into_unsent(self) -> Vec<u8> {
        let Output { waiting, written, .. } = self;
        waiting.into_iter().flatten().skip(written).collect()
    }

    /// Buffers that hold these.
    pub(super) fn blocks(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes that the socket has not taken yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.bytes - self.written
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

/// An output that the loop writes to, and while the loop is in a step the thread that sends signs of life.
#[derive(Clone, Default, Debug)]
pub(super) struct SharedOutput(Arc<Mutex<Output>>);

impl SharedOutput {
    pub(super) fn lock(&self) -> MutexGuard<'_, Output> {
        // No code panics half way through a change of it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
            // Somebody else goes on in the middle of a piece.
            socket.room = 2;
            output.send(&mut socket, b"abc".to_vec()).expect("no error");
            output.send(&mut socket, b"de".to_vec()).expect("no error");
            assert_eq!(output.into_unsent(), b"cde");
        }
    }

    #[test]
    fn what_is_large_waits_as_it_came_and_what_is_small_together() {
        let mut socket = Socket { taken: Vec::new(), room: 0 };
        let mut output = Output::default();
        let large = vec![7; TOGETHER_BYTES_MAX];
        let place = large.as_ptr();
        for _ in 0..10 {
            assert!(output.send(&mut socket, vec![1; 9]).expect("no error").is_none_or(|spare| spare.is_empty()));
        }
        assert_eq!(output.waiting.len(), 1);
        output.send(&mut socket, large).expect("no error");
        output.send(&mut socket, vec![2; 9]).expect("no error");
        assert_eq!(output.waiting.iter().map(Vec::len).collect::<Vec<_>>(), [90, TOGETHER_BYTES_MAX, 9]);
        assert_eq!(output.waiting[1].as_ptr(), place);
        socket.room = 100;
        output.flush(&mut socket).expect("no error");
        assert_eq!((output.waiting.len(), output.waiting_bytes()), (2, TOGETHER_BYTES_MAX + 9 - 10));
        assert!(output.spare.is_some());
        socket.room = usize::MAX;
        output.flush(&mut socket).expect("no error");
        assert_eq!((output.waiting_bytes(), socket.taken.len()), (0, TOGETHER_BYTES_MAX + 99));
        assert!(output.spare.is_none());
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
