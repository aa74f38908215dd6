//! How `JSON.GET` lays a document out: with an indent, a line break and a space of the client's choice.

use super::Json;
use crate::blob::Blob;
use crate::failure::Failure;
use crate::meter::Meter;
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
    /// Whether nothing is put between the parts.
    pub(crate) fn is_compact(self) -> bool {
        [self.indent, self.newline, self.space].iter().all(|part| part.is_empty())
    }

    /// The text of `value`, of so many bytes at most. Each byte pays.
    pub(crate) fn write(self, value: &impl Serialize, bytes_max: u64, meter: &Meter) -> Result<Blob, Failure> {
        let mut text = Bounded { bytes: Vec::new(), bytes_max, meter };
        let mut serializer = Serializer::with_formatter(&mut text, Writer { layout: self, depth: 0, is_empty: true });
        let written = value.serialize(&mut serializer);
        meter.check()?;
        written.map_err(|_| TOO_LARGE)?;
        Ok(Blob::from(text.bytes))
    }

    /// The text of `value`, which is all of an answer.
    pub(crate) fn answer(self, value: &impl Serialize, meter: &Meter) -> Result<Blob, Failure> {
        self.write(value, meter.answer_max(), meter)
    }
}

/// Why a text is refused that no answer may have.
const TOO_LARGE: Failure = Failure::Text("ERR the text is too large for one answer: ask for parts of it");

/// The compact text of a value, of so many bytes at most: `None` if it is longer. Each byte pays.
pub(crate) fn compact(value: &Json, bytes_max: u64, meter: &Meter) -> Result<Option<Vec<u8>>, Failure> {
    let mut text = Bounded { bytes: Vec::new(), bytes_max, meter };
    let written = serde_json::to_writer(&mut text, value);
    meter.check()?;
    Ok(written.is_ok().then_some(text.bytes))
}

/// How many bytes the compact text of a value has.
pub(crate) fn compact_bytes(value: &Json, meter: &Meter) -> Result<usize, Failure> {
    struct Count<'m>(usize, &'m Meter);

    impl Write for Count<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            if self.1.spend(bytes.len() as u64) { Ok(bytes.len()) } else { Err(io::ErrorKind::OutOfMemory.into()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0, meter);
    let written = serde_json::to_writer(&mut count, value);
    meter.check()?;
    written.map_err(|_| TOO_LARGE)?;
    Ok(count.0)
}

/// Bytes up to a limit: an indent may be much longer than what it stands before.
struct Bounded<'m> {
    bytes: Vec<u8>,
    bytes_max: u64,
    meter: &'m Meter,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_within = (self.bytes.len() + bytes.len()) as u64 <= self.bytes_max;
        if !is_within || !self.meter.spend(bytes.len() as u64) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.bytes.extend_from_slice(bytes);
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
