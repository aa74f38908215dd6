//! How `JSON.GET` lays a document out: with an indent, a line break and a space of the client's choice.

use crate::blob::Blob;
use crate::failure::Failure;
use base::limits::REPLY_BYTES_MAX;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

/// What is put between the parts of a document.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout<'a> {
    /// At the beginning of a line, once for each level.
    pub indent: &'a [u8],
    /// Before each element and at the end of those that have some.
    pub newline: &'a [u8],
    /// Behind a colon.
    pub space: &'a [u8],
}

impl Layout<'_> {
    /// The text of `value`. Refuses one that no answer may have.
    pub(crate) fn write(self, value: &impl Serialize) -> Result<Blob, Failure> {
        let mut text = Bounded(Vec::new());
        let mut serializer = Serializer::with_formatter(&mut text, Writer { layout: self, depth: 0, is_empty: true });
        value
            .serialize(&mut serializer)
            .map_err(|_| Failure::Text("ERR the text is too large for one answer: ask for parts of it"))?;
        Ok(Blob::from(text.0))
    }
}

/// Bytes up to what an answer may have: an indent may be much longer than what it stands before.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if (self.0.len() + bytes.len()) as u64 > REPLY_BYTES_MAX {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Writer<'a> {
    layout: Layout<'a>,
    depth: usize,
    /// The array or object that is being written has had nothing so far.
    is_empty: bool,
}

impl Writer<'_> {
    fn line<W: Write + ?Sized>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.layout.newline)?;
        (0..self.depth).try_for_each(|_| writer.write_all(self.layout.indent))
    }

    fn open<W: Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.is_empty = true;
        writer.write_all(bracket)
    }

    fn close<W: Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if !self.is_empty {
            self.line(writer)?;
        }
        self.is_empty = false;
        writer.write_all(bracket)
    }

    fn next<W: Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        self.line(writer)
    }
}

impl Formatter for Writer<'_> {
    fn begin_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn end_array_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }

    fn begin_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b":")?;
        writer.write_all(self.layout.space)
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }
}
