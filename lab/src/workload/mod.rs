//! What operations are drawn. Each workload is one file of one shape: a [`Shape`] (name, sentence, parameters, how it is built)
//! for a [`Workload`] (its kinds of operation, the records of its load phase), which gives each thread a [`Draw`].
//!
//! A new workload is a new file here and a line in [`SHAPES`].

mod draft;
mod fill;
mod text;

mod checked;
mod counter;
mod custom;
mod large;
mod lock;
mod puts_gets;
mod queue;
mod records;
mod social;
pub mod tail_mixes;
mod updates;
mod ycsb;

use std::fmt;

pub use crate::draw::{Distribution, Keys};
pub use draft::{Draft, Words, push_decimal};
pub use fill::Fill;
pub use text::Text;

use crate::drive::Answer;

/// Longest value or field that a workload may ask for: what Redis stores at most is 512 MiB.
pub const VALUE_BYTES_MAX: usize = 512 * 1024 * 1024;

/// All workloads, in the order in which they are listed.
pub const SHAPES: &[&Shape] = &[
    &ycsb::A,
    &ycsb::B,
    &ycsb::C,
    &ycsb::D,
    &ycsb::E,
    &ycsb::F,
    &tail_mixes::SHAPES[0],
    &tail_mixes::SHAPES[1],
    &tail_mixes::SHAPES[2],
    &tail_mixes::SHAPES[3],
    &tail_mixes::SHAPES[4],
    &tail_mixes::SHAPES[5],
    &tail_mixes::SHAPES[6],
    &tail_mixes::SHAPES[7],
    &tail_mixes::SHAPES[8],
    &puts_gets::SHAPE,
    &updates::SHAPE,
    &social::SHAPE,
    &queue::SHAPE,
    &counter::SHAPE,
    &lock::SHAPE,
    &large::SHAPE,
    &checked::SHAPE,
    &custom::SHAPE,
];

/// A workload's description, and how it is built.
pub struct Shape {
    /// The word it is called by.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub sentence: &'static str,
    /// Names of the [`Parameters`] that it looks at.
    pub parameters: &'static [&'static str],
    /// Builds it; an error is a sentence that says which parameter cannot be so.
    pub build: fn(&Parameters) -> Result<Box<dyn Workload>, String>,
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shape").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What can be set of a workload. What is none is as the workload has it by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    /// Records that the load phase writes.
    pub records: Option<u64>,
    /// Fields of each record.
    pub fields: Option<u32>,
    /// Bytes of each field or value.
    pub field_bytes: Option<usize>,
    /// How keys are chosen.
    pub distribution: Option<Distribution>,
    /// Shares of kinds of operation, by name: `read=95,update=5`. They need not add up to anything.
    pub mix: Option<Vec<(String, f64)>>,
    /// Where chance begins.
    pub seed: u64,
    /// The file of a workload of the user's own.
    pub file: Option<std::path::PathBuf>,
    /// What the keys of `checked` begin with: nothing may be there before that begins so.
    pub prefix: String,
    /// Whether all that is done must be understood by the checker of histories: nothing expires then, and nothing is loaded before.
    pub checked: bool,
}

impl Parameters {
    /// The records, at least 1.
    ///
    /// # Errors
    /// If there are none, or more than 10 thousand million.
    pub fn records_or(&self, default: u64) -> Result<u64, String> {
        match self.records.unwrap_or(default) {
            records @ 1..=10_000_000_000 => Ok(records),
            records => Err(format!("{records} records: write 1 to 10000000000")),
        }
    }

    /// The fields of a record, at least 1.
    ///
    /// # Errors
    /// If there are none, or more than 10,000.
    pub fn fields_or(&self, default: u32) -> Result<u32, String> {
        match self.fields.unwrap_or(default) {
            fields @ 1..=10_000 => Ok(fields),
            fields => Err(format!("{fields} fields: write 1 to 10000")),
        }
    }

    /// The bytes of a field.
    ///
    /// # Errors
    /// If there are more than [`VALUE_BYTES_MAX`].
    pub fn field_bytes_or(&self, default: usize) -> Result<usize, String> {
        match self.field_bytes.unwrap_or(default) {
            bytes @ 0..=VALUE_BYTES_MAX => Ok(bytes),
            bytes => Err(format!("{bytes} bytes for each field: write at most {VALUE_BYTES_MAX}")),
        }
    }
}

/// A workload with its parameters: shared by the threads.
pub trait Workload: Send + Sync {
    /// The names of its kinds of operation; [`Draft::kind`] is a place in it. At most 64.
    fn kinds(&self) -> Vec<String>;

    /// How many records the load phase writes.
    fn records(&self) -> u64;

    /// Fills in the writing of one record, `number` less than [`records`](Self::records). The kind is not looked at.
    fn load(&self, number: u64, draft: &mut Draft);

    /// The chance of one thread. Different seeds give different sequences.
    ///
    /// # Errors
    /// A sentence, if the keys cannot be drawn as is asked.
    fn draw(&self, seed: u64) -> Result<Box<dyn Draw>, String>;
}

/// One thread's chance.
pub trait Draw: Send {
    /// Fills in the next operation of a client. False: there is no more to do, for any client of this thread.
    fn next(&mut self, client: u32, draft: &mut Draft) -> bool;

    /// After all commands of a step that had [`Draft::follow`] were answered without an error: `answer` is the last one's.
    /// `draft` is empty but for [`Draft::kind`] and [`Draft::token`], which are as they were left.
    fn follow(&mut self, client: u32, answer: &Answer<'_>, draft: &mut Draft) -> Follow {
        let _ = (client, answer, draft);
        Follow::Done
    }
}

/// What comes after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Nothing: the operation is done, of the kind that the draft now says.
    Done,
    /// The commands that have been filled in.
    Again,
}

/// The shape of this name.
///
/// # Errors
/// A sentence with the names that there are.
pub fn find(name: &str) -> Result<&'static Shape, String> {
    SHAPES.iter().find(|shape| shape.name == name).copied().ok_or_else(|| {
        let names: Vec<&str> = SHAPES.iter().map(|shape| shape.name).collect();
        format!("there is no workload `{name}`: write one of {}, or the path of a .toml file", names.join(", "))
    })
}

/// One of several kinds, drawn by their shares.
#[derive(Clone, Debug)]
pub struct Mix {
    names: Vec<String>,
    /// Upper ends of the shares, scaled so that the last is 2^32.
    ends: Vec<u64>,
}

impl Mix {
    /// The kinds and shares of `defaults`, or the shares of `asked` for them: what it does not name has none.
    ///
    /// # Errors
    /// A sentence, if `asked` names a kind that is not in `defaults`, a share is negative or no number, or all are 0.
    pub fn new(defaults: &[(&str, f64)], asked: Option<&[(String, f64)]>) -> Result<Mix, String> {
        let mut shares: Vec<(String, f64)> =
            defaults.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect();
        if let Some(asked) = asked {
            for share in &mut shares {
                share.1 = 0.0;
            }
            for (name, share) in asked {
                let known: Vec<&str> = defaults.iter().map(|(name, _)| *name).collect();
                let place = known.iter().position(|known| known == name);
                let place =
                    place.ok_or_else(|| format!("`{name}` is no kind of this workload: write {}", known.join(", ")))?;
                shares[place].1 = *share;
            }
        }
        Mix::of(shares)
    }

    /// The mix of these names and shares.
    ///
    /// # Errors
    /// A sentence, if a share is negative or no number, or all are 0, or there are more than 64.
    pub fn of(shares: Vec<(String, f64)>) -> Result<Mix, String> {
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        if shares.len() > 64 || !total.is_finite() || total <= 0.0 || shares.iter().any(|(_, share)| *share < 0.0) {
            return Err(
                "the shares of a mix must be 0 or more, at least one above 0, and at most 64 of them".to_owned()
            );
        }
        let mut sum = 0.0;
        let mut ends: Vec<u64> = Vec::with_capacity(shares.len());
        for (_, share) in &shares {
            sum += share;
            ends.push((sum / total * 4_294_967_296.0) as u64);
        }
        // Rounding must not leave a remainder to nobody; what has no share stays without.
        let last = ends.last().copied().unwrap_or(0);
        for end in ends.iter_mut().filter(|end| **end == last) {
            *end = 1 << 32;
        }
        Ok(Mix { names: shares.into_iter().map(|(name, _)| name).collect(), ends })
    }

    /// The kinds' names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// A kind's place among the names, each as often as its share says.
    pub fn draw(&self, rng: &mut base::Rng) -> usize {
        let at = rng.next_u64() >> 32;
        self.ends.iter().position(|end| at < *end).unwrap_or(0)
    }
}

/// Reads `read=95,update=5`.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse_mix(text: &str) -> Result<Vec<(String, f64)>, String> {
    text.split(',')
        .map(|part| {
            let (name, share) = part.split_once('=').ok_or_else(|| format!("`{part}`: write KIND=SHARE"))?;
            let share = share.trim().parse().map_err(|_| format!("`{share}` is no number"))?;
            Ok((name.trim().to_owned(), share))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_draws_by_its_shares() {
        let mix = Mix::new(&[("read", 1.0), ("update", 0.0), ("insert", 3.0), ("scan", 0.0)], None).unwrap();
        let mut rng = base::Rng::new(5);
        let mut counts = [0u32; 4];
        for _ in 0..40_000 {
            counts[mix.draw(&mut rng)] += 1;
        }
        assert_eq!((counts[1], counts[3]), (0, 0));
        // Standard deviation of the first: √(40000 · ¼ · ¾) ≈ 87.
        assert!((f64::from(counts[0]) - 10_000.0).abs() < 4.0 * 87.0, "{counts:?}");
    }

    #[test]
    fn mixes_are_read_and_checked() {
        assert_eq!(parse_mix("read=95, update=5").unwrap(), [("read".to_owned(), 95.0), ("update".to_owned(), 5.0)]);
        assert!(parse_mix("read").is_err());
        let kinds = [("read", 1.0)];
        assert!(Mix::new(&kinds, Some(&[("write".to_owned(), 1.0)])).unwrap_err().contains("no kind"));
        assert!(Mix::new(&kinds, Some(&[("read".to_owned(), 0.0)])).is_err());
    }

    #[test]
    fn names_are_words_and_differ() {
        let mut names: Vec<&str> = SHAPES.iter().map(|shape| shape.name).collect();
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SHAPES.len());
        assert!(find("nonesuch").unwrap_err().contains("puts-gets"));
    }
}
