//! Takes finished operations from several threads and spills them to a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;

use super::format;
use super::operation::Operation;

/// Whom a load generator hands finished operations to, in batches, from several threads at once.
pub trait Witness: Send + Sync {
    /// These operations are over, or were given up. The order is not important. It is called by threads that send load: it must
    /// be quick and must not fail; what goes wrong is told at the end.
    fn finished(&self, batch: &[Operation]);
}

/// Writes a history to a file ([`mod@format`]). It keeps 1 MiB in memory, whatever the length.
pub struct Recorder {
    writer: Mutex<Writer>,
    bytes_max: u64,
}

struct Writer {
    file: BufWriter<File>,
    records: u64,
    bytes: u64,
    /// The first thing that went wrong; nothing is written after it.
    wrong: Option<String>,
}

/// What was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Operations.
    pub operations: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

impl Recorder {
    /// Begins a history at `path`, which is overwritten, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn create(path: &Path, bytes_max: u64) -> Result<Recorder, String> {
        let wrong = |error: io::Error| format!("cannot write the history {}: {error}", path.display());
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(wrong)?);
        file.write_all(format::MAGIC).map_err(wrong)?;
        let writer = Writer { file, records: 0, bytes: format::MAGIC.len() as u64, wrong: None };
        Ok(Recorder { writer: Mutex::new(writer), bytes_max })
    }

    /// Whether something went wrong: nothing is written any more, and [`Recorder::finish`] will say what.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.writer.lock().map_or(true, |writer| writer.wrong.is_some())
    }

    /// Ends the history.
    ///
    /// # Errors
    /// If something could not be written, was too large, or went beyond `bytes_max`: the file has no end then, and
    /// [`format::read`] refuses it, since a history with holes proves nothing.
    pub fn finish(self) -> Result<Recorded, String> {
        let mut writer = self.writer.into_inner().map_err(|_| "a thread that recorded has panicked".to_string())?;
        if let Some(wrong) = writer.wrong {
            return Err(wrong);
        }
        let ended = format::write_end(writer.records, &mut writer.file).and_then(|()| writer.file.flush());
        let bytes = ended.and_then(|()| writer.file.get_ref().metadata()).map(|metadata| metadata.len());
        let bytes = bytes.map_err(|error| format!("cannot finish the history: {error}"))?;
        Ok(Recorded { operations: writer.records, bytes })
    }
}

impl Witness for Recorder {
    fn finished(&self, batch: &[Operation]) {
        // Put into bytes before the lock is taken: the threads wait for each other only while these are copied.
        let mut bytes = Vec::with_capacity(batch.len() * 64);
        let all_fit = batch.iter().all(|operation| format::write_record(operation, &mut bytes));
        let Ok(mut writer) = self.writer.lock() else { return };
        if writer.wrong.is_some() {
            return;
        }
        if !all_fit {
            writer.wrong = Some("an operation with too many steps or too long a key cannot be recorded".into());
        } else if writer.bytes + bytes.len() as u64 > self.bytes_max {
            let limit = self.bytes_max;
            writer.wrong = Some(format!("the history grew beyond {limit} bytes: record a shorter run or allow more"));
        } else if let Err(error) = writer.file.write_all(&bytes) {
            writer.wrong = Some(format!("cannot write the history: {error}"));
        } else {
            writer.bytes += bytes.len() as u64;
            writer.records += batch.len() as u64;
        }
    }
}
