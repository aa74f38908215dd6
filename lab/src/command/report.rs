//! `dictum lab report`: one HTML file, and if asked a machine-readable copy, of runs that were recorded.

use std::fs;
use std::path::{Path, PathBuf};

use crate::record::Record;
use crate::report::{self, export};

/// Arguments of `dictum lab report`.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq)]
#[command(
    after_help = "Examples:\n  dictum lab report dictum-lab/2026-11-24T07-10-00-quick\n  dictum lab report dictum-lab/* -o all.html \
                  --json all.json"
)]
pub struct ReportArguments {
    /// Folders of runs, each with a record.json in it, in the order in which they are to stand.
    #[arg(required = true, value_name = "RUN", num_args = 1..=report::RECORDS_MAX)]
    pub runs: Vec<PathBuf>,
    /// The HTML file to write; an older one is replaced.
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// Also writes all records, with their series and histograms, as one JSON file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Reads the runs with `read`, writes the files, and tells where they are, a line each. Fails, before anything is written, if a run
/// cannot be read; and if a file cannot be written.
pub fn report(arguments: &ReportArguments, read: impl Fn(&Path) -> Result<Record, String>) -> Result<String, String> {
    let mut records = Vec::with_capacity(arguments.runs.len());
    for run in &arguments.runs {
        records.push(read(run).map_err(|error| format!("cannot read the run in {}: {error}", run.display()))?);
    }
    let json = match &arguments.json {
        Some(path) => Some((
            path,
            export::export(&records).map_err(|error| format!("cannot write the records as JSON: {error}"))?,
        )),
        None => None,
    };
    let mut files = vec![(&arguments.output, report::render(&records), "report")];
    files.extend(json.map(|(path, text)| (path, text, "JSON copy")));
    let mut lines = Vec::new();
    for (path, text, what) in files {
        write(path, &text)?;
        lines.push(format!("{what}: {}", path.display()));
    }
    Ok(lines.join("\n"))
}

/// Writes beside the file first, so that a full disk leaves the older one as it was.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let Some(name) = path.file_name() else {
        return Err(format!("{} names no file; give the name of the file to write", path.display()));
    };
    let mut beside = name.to_owned();
    beside.push(".part");
    let beside = path.with_file_name(beside);
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        format!("cannot write {}: {error}; give another file with -o or --json", path.display())
    })
}
