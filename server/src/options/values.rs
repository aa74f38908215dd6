//! Values with units, and others that are words.

use std::str::FromStr;
use std::time::Duration;

use base::{BucketId, PartitionId, Position};
use node::Level;
use serde::Deserialize;

/// A value that may be written with a unit, or as a bare number.
#[derive(Deserialize, Debug)]
#[serde(untagged)]
pub(super) enum Text {
    Number(u64),
    Text(String),
}

impl Text {
    pub(super) fn parse<T: FromStr<Err = String>>(&self, name: &str) -> Result<T, String> {
        let parsed = match self {
            Text::Number(number) => number.to_string().parse(),
            Text::Text(text) => text.parse(),
        };
        parsed.map_err(|error| format!("{name}: {error}"))
    }
}

/// A number of bytes: `16777216`, `16MiB`, `16M`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let wrong = || format!("{text:?} is not a size; write a number of bytes, or for example 512KiB, 16MiB, 1GiB");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
        let shift = match text[digits..].trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            _ => return Err(wrong()),
        };
        number.checked_mul(1 << shift).map(Size).ok_or_else(wrong)
    }
}

/// A part of a disk: as [`Size`], or in percent of all of it (`5%`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskMark {
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths of the disk, at most 99.
    Percent(u8),
}

impl DiskMark {
    /// In bytes, of a disk with so many.
    pub(crate) fn of(self, total: u64) -> u64 {
        match self {
            DiskMark::Bytes(bytes) => bytes,
            DiskMark::Percent(percent) => (u128::from(total) * u128::from(percent) / 100) as u64,
        }
    }

    /// Whether there is to be no mark.
    pub(crate) fn is_none(self) -> bool {
        matches!(self, DiskMark::Bytes(0) | DiskMark::Percent(0))
    }
}

impl FromStr for DiskMark {
    type Err = String;

    fn from_str(text: &str) -> Result<DiskMark, String> {
        let Some(percent) = text.trim_end().strip_suffix('%') else {
            let size: Result<Size, String> = text.parse();
            return size
                .map(|Size(bytes)| DiskMark::Bytes(bytes))
                .map_err(|error| format!("{error}, or a part of the disk, as 5%"));
        };
        let percent: Option<u8> = percent.trim_end().parse().ok().filter(|percent| *percent < 100);
        percent.map(DiskMark::Percent).ok_or_else(|| {
            format!("{text:?} is no part of a disk; write a whole number from 0% to 99%, for example 5%")
        })
    }
}

/// A length of time: `5s`, `500ms`, or bare seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait(pub Duration);

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Wait, String> {
        let wrong = || format!("{text:?} is not a length of time; write for example 5s or 500ms");
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
        match text[digits..].trim() {
            "" | "s" => Ok(Wait(Duration::from_secs(number))),
            "ms" => Ok(Wait(Duration::from_millis(number))),
            "m" => Ok(Wait(Duration::from_secs(number.checked_mul(60).ok_or_else(wrong)?))),
            _ => Err(wrong()),
        }
    }
}

/// An entry of a partition's log: `BUCKET/INDEX@POSITION`, as messages name both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepOver(pub PartitionId, pub Position);

impl FromStr for StepOver {
    type Err = String;

    fn from_str(text: &str) -> Result<StepOver, String> {
        let read = || {
            let (partition, position) = text.split_once('@')?;
            let (bucket, index) = partition.split_once('/')?;
            let bucket = BucketId(bucket.parse().ok()?);
            let position = position.parse().ok().filter(|position| *position > 0)?;
            Some(StepOver(PartitionId { bucket, index: index.parse().ok()? }, Position(position)))
        };
        read().ok_or_else(|| {
            format!("{text:?} is not BUCKET/INDEX@POSITION; write the partition and the position of the message, for example 0/0@4711")
        })
    }
}

/// How lines of the log look.
#[derive(clap::ValueEnum, serde::Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// A line of JSON each: `timestamp`, `level`, `message`, `node`; and `bucket` and `partition` of those that are about one.
    Json,
}

/// A log level by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogLevel(pub Level);

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<LogLevel, String> {
        match text.to_ascii_lowercase().as_str() {
            "debug" => Ok(LogLevel(Level::Debug)),
            "info" => Ok(LogLevel(Level::Info)),
            "warning" | "warn" => Ok(LogLevel(Level::Warning)),
            "error" => Ok(LogLevel(Level::Error)),
            _ => Err(format!("{text:?} is not a log level; choose debug, info, warning or error")),
        }
    }
}
