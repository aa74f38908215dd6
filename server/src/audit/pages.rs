//! Pages of a trail, read from its files while they grow.

use std::io;
use std::path::Path;

use super::files::{self, Next};
use super::record::sequence_of;

/// Most bytes of the records of one page, unless it is one record.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Records as they stand in the files, each a line, and whether there may be more.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Page {
    /// The lines, with their numbers.
    pub lines: Vec<(u64, String)>,
    /// Others follow.
    pub has_more: bool,
}

/// The first `most` records behind `after`.
///
/// # Errors
/// As the system says.
pub(crate) fn read(folder: &Path, after: u64, most: usize) -> io::Result<Page> {
    let mut page = Page::default();
    let mut bytes = 0;
    let found = files::list(folder)?;
    let begin = found.iter().rposition(|(first, _)| *first <= after.saturating_add(1)).unwrap_or(0);
    for (_, path) in &found[begin.min(found.len())..] {
        let file = match files::open_to_read(path) {
            // It was the oldest, and has gone meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        let mut reader = files::reader_behind(file, after)?;
        // An unfinished line is one that is being written.
        while let next @ (Next::Line(_) | Next::TooLong) = files::next(&mut reader)? {
            let Next::Line(line) = next else { continue };
            let Ok(line) = String::from_utf8(line) else { continue };
            let Some(sequence) = sequence_of(&line).filter(|sequence| *sequence > after) else { continue };
            if page.lines.len() >= most || (bytes > 0 && bytes + line.len() > PAGE_BYTES_MAX) {
                page.has_more = true;
                return Ok(page);
            }
            bytes += line.len();
            page.lines.push((sequence, line));
        }
    }
    Ok(page)
}
