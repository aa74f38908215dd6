//! What a check found, and how it is told: to people line by line, to programs as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// All that was found in a folder.
#[derive(Serialize, Debug, Default)]
pub(crate) struct Report {
    /// The version of the program that has looked.
    pub version: &'static str,
    /// The folder.
    pub folder: String,
    /// What it comes to.
    pub verdict: Verdict,
    pub identity: Option<Identity>,
    pub journal: Journal,
    pub partitions: Vec<Partition>,
    pub snapshots: Vec<Snapshot>,
    /// None if there is no store in the folder.
    pub store: Option<Store>,
    /// Everything that is not as it should be, and what is worth knowing.
    pub findings: Vec<Finding>,
}

/// What a folder is worth.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    #[default]
    Sound,
    SoundUnsyncedEnd,
    Damaged,
    /// It cannot be said: another version wrote it, or something cannot be read.
    Unknown,
}

/// How much a finding matters.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// An end that was never synced, so never promised: it goes at the next start.
    UnsyncedEnd,
    /// It cannot be checked.
    Unknown,
    Damage,
}

/// One thing that was found.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub severity: Severity,
    /// `identity`, `journal`, `log`, `snapshot`, `store` or `folder`.
    pub part: &'static str,
    /// What is found.
    pub text: String,
    /// What the next start makes of it.
    pub next_start: String,
    /// What the operator should do; empty if nothing.
    pub advice: String,
}

#[derive(Serialize, Debug)]
pub(crate) struct Identity {
    pub node: String,
    /// In hexadecimal.
    pub cluster: String,
    /// In decimal: it does not fit the numbers of all readers of JSON.
    pub incarnation: String,
}

#[derive(Serialize, Debug, Default)]
pub(crate) struct Journal {
    pub segments: usize,
    pub bytes: u64,
    pub frames: u64,
    pub payloads: usize,
    pub payload_bytes: u64,
    /// Payloads below this number were given up.
    pub floor: u64,
    /// The number that the next payload gets.
    pub next_number: u64,
    /// Numbers that were acknowledged and cannot be read: after, before.
    pub missing: Vec<[u64; 2]>,
    pub damaged_blocks: Vec<DamagedBlocks>,
    /// `clean`, `torn` or `unprovable`; empty if there is no journal.
    pub tail: &'static str,
}

#[derive(Serialize, Debug)]
pub(crate) struct DamagedBlocks {
    pub file: String,
    pub offset: u64,
    pub bytes: u64,
    /// `past`, `end` or `unused`.
    pub place: &'static str,
}

#[derive(Serialize, Debug)]
pub(crate) struct Partition {
    pub partition: String,
    pub promised: String,
    pub decided: u64,
    pub voters: usize,
    /// The state's position; none if there is no state.
    pub state: Option<u64>,
    /// The log is what follows this position.
    pub log_base: u64,
    pub log_last: u64,
    pub entries: BTreeMap<&'static str, u64>,
    /// Lost entries: from, until.
    pub hole: Option<[u64; 2]>,
    /// Whether what was promised can be proved.
    pub provable: bool,
    pub recovering: bool,
}

#[derive(Serialize, Debug, Default)]
pub(crate) struct Snapshot {
    pub partition: String,
    pub position: u64,
    pub bytes: u64,
    /// Blocks that were read.
    pub blocks: u64,
    pub keys: u64,
    pub sound: bool,
}

#[derive(Serialize, Debug, Default)]
pub(crate) struct Store {
    pub keyspaces: u64,
    pub tables: u64,
    pub value_files: u64,
    pub table_bytes: u64,
    pub journals: u64,
    pub batches: u64,
    pub cut_bytes: u64,
    pub leftovers: u64,
    /// Whether every byte that counts is as it was written.
    pub bytes_sound: bool,
    /// None: the store was not opened, because of what is wrong with its bytes.
    pub spaces: Option<usize>,
    pub states: Vec<StoredState>,
}

#[derive(Serialize, Debug)]
pub(crate) struct StoredState {
    pub partition: String,
    pub position: u64,
    /// Records that were decoded and counted; as many as the head says.
    pub records: u64,
    pub with_deadline: u64,
    pub revision: u64,
}

impl Report {
    pub fn find(&mut self, severity: Severity, part: &'static str, text: impl Into<String>) -> &mut Finding {
        let empty = String::new();
        self.findings.push(Finding { severity, part, text: text.into(), next_start: empty.clone(), advice: empty });
        self.findings.last_mut().expect("it was just put there")
    }

    /// What the findings come to.
    pub fn judge(&mut self) {
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        self.verdict = match self.findings.first().map(|finding| finding.severity) {
            Some(Severity::Damage) => Verdict::Damaged,
            Some(Severity::Unknown) => Verdict::Unknown,
            Some(Severity::UnsyncedEnd) => Verdict::SoundUnsyncedEnd,
            Some(Severity::Note) | None => Verdict::Sound,
        };
    }
}

impl Finding {
    pub fn then(&mut self, next_start: impl Into<String>) -> &mut Finding {
        self.next_start = next_start.into();
        self
    }

    pub fn advise(&mut self, advice: impl Into<String>) {
        self.advice = advice.into();
    }
}

/// A number of bytes as people read it.
pub(crate) fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.identity {
            Some(Identity { node, cluster, incarnation }) => {
                writeln!(f, "identity   node {node} of cluster {cluster}, incarnation {incarnation}")?;
            }
            None => writeln!(f, "identity   none that can be read")?,
        }
        writeln!(f, "journal    {}", self.journal)?;
        for partition in &self.partitions {
            writeln!(f, "partition  {partition}")?;
        }
        for snapshot in &self.snapshots {
            writeln!(f, "snapshot   {snapshot}")?;
        }
        if let Some(store) = &self.store {
            writeln!(f, "store      {store}")?;
        }
        for finding in &self.findings {
            writeln!(f, "\n{finding}")?;
        }
        writeln!(f)?;
        let count = self.findings.iter().filter(|finding| finding.severity == Severity::Damage).count();
        match (self.verdict, self.findings.first()) {
            (Verdict::Damaged, Some(first)) => {
                let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
                writeln!(f, "damaged: {}{more}", first.text)
            }
            (Verdict::Unknown, Some(first)) => writeln!(f, "cannot be checked: {}", first.text),
            (Verdict::SoundUnsyncedEnd, _) => {
                writeln!(f, "sound; the unsynced end will be cut at the next start")
            }
            _ => writeln!(f, "sound"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Note => "note",
            Severity::UnsyncedEnd => "unsynced",
            Severity::Unknown => "unknown",
            Severity::Damage => "damage",
        };
        write!(f, "{word}: {}", self.text)?;
        if !self.next_start.is_empty() {
            write!(f, "\n  next start: {}", self.next_start)?;
        }
        if !self.advice.is_empty() {
            write!(f, "\n  to do: {}", self.advice)?;
        }
        Ok(())
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.segments == 0 {
            return write!(f, "none");
        }
        let numbers = match (self.payloads, self.floor, self.next_number) {
            (0, _, next) => format!("no payloads, the next is number {next}"),
            (count, floor, next) => {
                let bytes = bytes_text(self.payload_bytes);
                format!("{count} payloads of numbers {floor} to {} ({bytes})", next.saturating_sub(1))
            }
        };
        write!(
            f,
            "{} segments ({}), {} frames, {numbers}, ends {}",
            self.segments,
            bytes_text(self.bytes),
            self.frames,
            self.tail
        )?;
        for [after, before] in &self.missing {
            write!(f, "\n           missing: payloads {} to {}", after + 1, before.saturating_sub(1))?;
        }
        for DamagedBlocks { file, offset, bytes, place } in &self.damaged_blocks {
            let place = match *place {
                "past" => "before the last frame",
                "end" => "at the end",
                _ => "in space never used",
            };
            write!(f, "\n           damaged: {bytes} bytes from byte {offset} of {file}, {place}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Partition { partition, promised, decided, state, log_base, log_last, .. } = self;
        let state = state.map_or("no state".to_owned(), |position| format!("state at {position}"));
        write!(f, "{partition}: promised {promised}, decided {decided}, {state}, ")?;
        if log_base == log_last {
            write!(f, "no log behind {log_base}")?;
        } else {
            write!(f, "log {} to {log_last} (", log_base + 1)?;
            for (index, (kind, count)) in self.entries.iter().enumerate() {
                write!(f, "{}{kind} {count}", if index == 0 { "" } else { ", " })?;
            }
            write!(f, ")")?;
        }
        match self.hole {
            Some([from, until]) => write!(f, ", entries {from} to {until} lost")?,
            None => write!(f, ", no holes")?,
        }
        if !self.provable {
            write!(f, ", what was promised last cannot be proved")?;
        }
        if self.recovering {
            write!(f, ", had lost its memory and not recovered it yet")?;
        }
        Ok(())
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Snapshot { partition, position, bytes, blocks, keys, sound } = self;
        let bytes = bytes_text(*bytes);
        match sound {
            true => write!(f, "{partition} at {position}: {blocks} blocks ({bytes}), {keys} keys, ok"),
            false => write!(f, "{partition} at {position}: damaged behind {blocks} sound blocks ({bytes})"),
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} tables and {} files of values in {} keyspaces ({}), {} batches in {} journals; checksums {}",
            self.tables,
            self.value_files,
            self.keyspaces,
            bytes_text(self.table_bytes),
            self.batches,
            self.journals,
            if self.bytes_sound { "ok" } else { "wrong" }
        )?;
        match self.spaces {
            Some(spaces) => write!(f, "; {spaces} spaces")?,
            None => write!(f, "; records not read")?,
        }
        for StoredState { partition, position, records, with_deadline, revision } in &self.states {
            write!(
                f,
                "\n           {partition} at {position}: {records} records decoded, {with_deadline} with a deadline, revision {revision}, \
                 counts and index ok"
            )?;
        }
        Ok(())
    }
}
