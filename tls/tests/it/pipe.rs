//! Two ends of a connection in memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;

#[derive(Default)]
struct Way {
    bytes: VecDeque<u8>,
    is_closed: bool,
}

/// One end. A read or a write takes at most `room` bytes, and blocks never.
pub struct End {
    room: usize,
    from: Rc<RefCell<Way>>,
    to: Rc<RefCell<Way>>,
}

/// The two ends of a connection. No more than 64 KiB are on their way in each direction.
pub fn pipe(room: usize) -> [End; 2] {
    let (there, back) = (Rc::<RefCell<Way>>::default(), Rc::<RefCell<Way>>::default());
    [End { room, from: Rc::clone(&back), to: Rc::clone(&there) }, End { room, from: there, to: back }]
}

impl End {
    /// Nothing more is sent from here.
    pub fn close(&self) {
        self.to.borrow_mut().is_closed = true;
    }

    /// Looks at what was sent from here and not read, and changes it.
    pub fn sent(&self, change: impl FnOnce(&mut VecDeque<u8>)) {
        change(&mut self.to.borrow_mut().bytes);
    }
}

impl Read for End {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut way = self.from.borrow_mut();
        if way.bytes.is_empty() {
            return if way.is_closed { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        let length = buffer.len().min(self.room);
        way.bytes.read(&mut buffer[..length])
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut way = self.to.borrow_mut();
        let count = bytes.len().min(self.room).min((64usize << 10).saturating_sub(way.bytes.len()));
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        way.bytes.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
