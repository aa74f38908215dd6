//! Regular expressions of `match()` and `search()`.
//!
//! They are matched in time linear in the text, by the library `regex`. How much a text costs depends on the pattern, and both come from clients: a pattern pays
//! for what it becomes when it is compiled, and then for each byte of each text by how many of its states may be alive at once.

use crate::meter::Meter;
use regex::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};
use std::cell::OnceCell;

/// For each byte of a pattern: `\pL` becomes hundreds of ranges before anything else happens.
const PATTERN_BYTE: u64 = 1000;
/// For each state of what a pattern is compiled to. It takes some tens of bytes, several times.
const STATE: u64 = 100;
/// More states than these are never made: the library refuses such a pattern, and it matches nothing.
const STATES_MAX: u64 = 400_000;
/// So many states that may be alive at once cost one unit for each byte of a text.
const STATES_PER_UNIT: u64 = 4;

/// A pattern that was compiled when it was first needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compiled(OnceCell<Option<Pattern>>);

#[derive(Clone, Debug)]
struct Pattern {
    regex: Regex,
    /// Units for each byte of a text.
    price: u64,
}

impl Compiled {
    /// Whether the text matches, or some part of it. What is no pattern matches nothing.
    pub(super) fn is_match(&self, is_whole: bool, pattern: &str, text: &str, meter: &Meter) -> bool {
        let compile =
            || compiled(if is_whole { format!("(?R)^({pattern})$") } else { format!("(?R)({pattern})") }, meter);
        let Some(pattern) = self.0.get_or_init(compile) else { return false };
        meter.spend(pattern.price.saturating_mul(text.len() as u64)) && pattern.regex.is_match(text)
    }
}

fn compiled(pattern: String, meter: &Meter) -> Option<Pattern> {
    if !meter.spend(PATTERN_BYTE.saturating_mul(pattern.len() as u64)) {
        return None;
    }
    let hir = regex_syntax::parse(&pattern).ok()?;
    let size = size(&hir);
    if !meter.spend(STATE.saturating_mul(size.states.min(STATES_MAX))) {
        return None;
    }
    let price = 1 + size.alive / STATES_PER_UNIT;
    Some(Pattern { regex: Regex::new(&pattern).ok()?, price })
}

/// What a part of a pattern becomes.
#[derive(Clone, Copy, Default)]
struct Size {
    /// States.
    states: u64,
    /// Of these, how many may be alive at once.
    alive: u64,
}

impl Size {
    fn plus(self, other: Size) -> Size {
        Size { states: self.states.saturating_add(other.states), alive: self.alive.saturating_add(other.alive) }
    }

    fn times(self, count: u64) -> Size {
        Size { states: self.states.saturating_mul(count), alive: self.alive.saturating_mul(count) }
    }
}

/// The parser has refused patterns that are nested deeply.
fn size(hir: &Hir) -> Size {
    let one = Size { states: 1, alive: 1 };
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => one,
        HirKind::Literal(literal) => one.times(literal.0.len() as u64),
        HirKind::Class(Class::Bytes(_)) => one,
        // A range of characters becomes up to four states, of which one is alive.
        HirKind::Class(Class::Unicode(class)) => Size { states: class.ranges().len() as u64 * 4, alive: 4 },
        HirKind::Repetition(repetition) => {
            let count = repetition.max.unwrap_or(repetition.min.saturating_add(1)).max(1);
            size(&repetition.sub).plus(one).times(u64::from(count))
        }
        HirKind::Capture(capture) => size(&capture.sub).plus(one),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(size).fold(one, Size::plus),
    }
}
