//! The meter: how much work one entry of the log, or one read, has made the state do.
//!
//! Every replica applies every entry, now and after each restart, so no entry may cost more than all of them can bear. Work is counted in
//! *units* that depend on the command and on the logical state alone: elements visited, bytes looked at, bytes answered. Time, caches and the
//! layer in which a record happens to stand do not count, because they differ from replica to replica.
//!
//! ```text
//!   apply, read ─► Meter::begin(limit) ─► walks over elements pay for each one; past the limit they end ─► Meter::refusal
//! ```
//! A walk that ends early gives a wrong answer. That is harmless: the door that began the metering (`apply.rs`) looks at the meter last, takes
//! back everything that the entry has done, and answers the refusal. A unit is about what one instruction of Lua takes, some ten
//! nanoseconds.
//!
//! The prices below are part of the meaning of entries: two builds that price differently would refuse different entries. Changing one needs a
//! new version (`base/src/versions.rs`).

use crate::failure::Failure;
use crate::kept::long_name_bytes;
use crate::reply::ITEM_BYTES;
use base::limits::REPLY_BYTES_MAX;
use std::cell::Cell;

/// Looking up a key or an element by its name.
pub(crate) const LOOKUP: u64 = 20;
/// Visiting an element, or a key, while walking over many.
pub(crate) const VISIT: u64 = 20;
/// Writing a key or an element.
pub(crate) const WRITE: u64 = 50;
/// So many bytes that are copied, compared or counted as a whole cost one unit.
pub(crate) const BYTES_PER_UNIT: u64 = 16;
/// So many bytes that are written, or allocated for an answer that is put together, cost one unit: they stay, in memory and on the disk of every replica.
pub(crate) const WRITTEN_BYTES_PER_UNIT: u64 = 4;
/// So many bytes that are read one by one (parsed, matched, decompressed) cost one unit.
pub(crate) const PARSED_BYTES_PER_UNIT: u64 = 2;

/// Counts work against a limit. Interior mutability lets walks over a shared state pay.
#[derive(Clone, Debug)]
pub struct Meter {
    spent: Cell<u64>,
    limit: Cell<u64>,
    /// Bytes of answers that the entry has built so far.
    answered: Cell<u64>,
    answers_max: Cell<u64>,
    /// Bytes of the answer that is being built by a read that counts them one by one; and most that it may have.
    built: Cell<u64>,
    one_answer_max: Cell<u64>,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter {
            spent: Cell::new(0),
            limit: Cell::new(u64::MAX),
            answered: Cell::new(0),
            answers_max: Cell::new(u64::MAX),
            built: Cell::new(0),
            one_answer_max: Cell::new(u64::MAX),
        }
    }
}

impl Meter {
    /// One that counts from zero, for work that is no entry's: of a node for its clients.
    #[must_use]
    pub fn limited(limit: u64) -> Meter {
        let meter = Meter::default();
        meter.begin(limit, u64::MAX);
        meter
    }

    /// Starts to count from zero. `u64::MAX` stands for no limit.
    pub(crate) fn begin(&self, limit: u64, answers_max: u64) {
        self.spent.set(0);
        self.limit.set(limit);
        self.answered.set(0);
        self.answers_max.set(answers_max);
        self.built.set(0);
        self.one_answer_max.set(u64::MAX);
    }

    /// From here on the answer of a read may have so many bytes. An entry has no such limit: what its commands answer counts as a whole.
    pub(crate) fn limit_answer(&self, bytes_max: u64) {
        self.one_answer_max.set(bytes_max);
    }

    /// Most bytes that one answer may have. What cannot be answered as a whole is refused before it is built.
    pub(crate) fn answer_max(&self) -> u64 {
        self.one_answer_max.get().min(REPLY_BYTES_MAX)
    }

    /// Counts a part of the answer that is being built. False once the answer is too large: the rest shall not be built.
    pub(crate) fn put(&self, bytes: u64) -> bool {
        self.built.set(self.built.get().saturating_add(bytes + ITEM_BYTES));
        self.built.get() <= self.one_answer_max.get()
    }

    /// The next answer begins, unless the last one was too large.
    pub(crate) fn next_answer(&self) {
        if self.built.get() <= self.one_answer_max.get() {
            self.built.set(0);
        }
    }

    /// Units spent since the metering began.
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// Pays so many units. False once the limit is passed: the work shall end.
    pub(crate) fn spend(&self, units: u64) -> bool {
        let spent = self.spent.get().saturating_add(units);
        self.spent.set(spent);
        spent <= self.limit.get()
    }

    /// Pays for an element that a walk visits.
    pub(crate) fn visit(&self, bytes: usize) -> bool {
        self.spend(VISIT + bytes as u64 / BYTES_PER_UNIT)
    }

    /// Pays for writing a key or an element of so many bytes.
    pub(crate) fn write(&self, bytes: usize) -> bool {
        self.spend(WRITE + bytes as u64 / WRITTEN_BYTES_PER_UNIT)
    }

    /// Pays for a long name that is looked up or compared: beside [`LOOKUP`], or where short ones cost nothing.
    pub(crate) fn look_at_name(&self, name: &[u8]) -> bool {
        self.bytes(long_name_bytes(name))
    }

    /// Pays for a long name that is written.
    pub(crate) fn write_name(&self, name: &[u8]) -> bool {
        self.make(long_name_bytes(name))
    }

    /// Pays for bytes that are made: a string that grows, a document that is put together.
    pub(crate) fn make(&self, bytes: usize) -> bool {
        self.spend(bytes as u64 / WRITTEN_BYTES_PER_UNIT)
    }

    /// Pays for bytes that are copied, compared or counted as a whole.
    pub(crate) fn bytes(&self, bytes: usize) -> bool {
        self.spend(bytes as u64 / BYTES_PER_UNIT)
    }

    /// Pays for bytes that are read one by one.
    pub(crate) fn parse(&self, bytes: usize) -> bool {
        self.spend(bytes as u64 / PARSED_BYTES_PER_UNIT)
    }

    /// Forgets what was spent since there was so much: it is done again.
    pub(crate) fn rewind(&self, spent: u64) {
        self.spent.set(spent);
    }

    /// Pays what a copy of the state has been made to do, which began with `paid`.
    pub(crate) fn join(&self, copy: &Meter, paid: u64) {
        self.spend(copy.spent().saturating_sub(paid));
    }

    /// Counts the answer of one command of several.
    pub(crate) fn answer(&self, bytes: u64) {
        self.answered.set(self.answered.get().saturating_add(bytes));
        self.next_answer();
    }

    /// Whether the work or the answers have passed their limits.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.spent.get() > self.limit.get()
            || self.answered.get() > self.answers_max.get()
            || self.built.get() > self.one_answer_max.get()
    }

    /// Fails once a limit is passed, for work that can end with an error.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.is_over() { Err(self.refusal()) } else { Ok(()) }
    }

    /// Tells the client which limit was passed, and how to go on.
    pub(crate) fn refusal(&self) -> Failure {
        let limit = self.limit.get();
        let text = if self.spent.get() > limit {
            format!(
                "BUDGET this would take more than {limit} units of work, so nothing of it was done; do less at a time, as SCAN and ranges do, or raise the bucket's 'work-max'"
            )
        } else {
            let limit = self.answers_max.get().min(self.one_answer_max.get());
            format!(
                "BUDGET the answers would be longer than {limit} bytes together, so nothing of it was done; ask for less at a time"
            )
        };
        Failure::built(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_that_passes_the_limit_is_refused() {
        let meter = Meter::default();
        meter.begin(10, 5);
        assert!(meter.spend(10));
        assert!(!meter.is_over());
        assert!(!meter.spend(1));
        assert!(meter.check().unwrap_err().to_string().starts_with("BUDGET this would take more than 10 units"));
        meter.begin(10, 5);
        meter.answer(5);
        assert!(!meter.is_over());
        meter.answer(1);
        assert!(meter.refusal().to_string().contains("longer than 5 bytes"));
    }

    #[test]
    fn the_page_of_costs_has_these_prices() {
        use crate::json::read::{MEMBER, VALUE};
        let page = include_str!("../../docs/costs.md");
        let price = |unit: &str| {
            let row = page.lines().find_map(|line| line.strip_prefix(&format!("| {unit} | ")[..])).expect("a row");
            row.split(" |").next().unwrap_or_default().to_owned()
        };
        for (unit, units) in [("lookup", LOOKUP), ("visit", VISIT), ("write", WRITE), ("value", VALUE)] {
            assert_eq!(price(unit), units.to_string(), "{unit}");
        }
        for (unit, bytes) in [
            ("bytes read", BYTES_PER_UNIT),
            ("bytes made", WRITTEN_BYTES_PER_UNIT),
            ("bytes parsed", PARSED_BYTES_PER_UNIT),
        ] {
            assert_eq!(price(unit), format!("1 for {bytes}"), "{unit}");
        }
        assert!(page.contains(&format!("a member of an object {MEMBER} more")));
    }

    #[test]
    fn without_a_limit_nothing_is_refused() {
        let meter = Meter::default();
        assert!(meter.spend(u64::MAX) && meter.spend(u64::MAX));
        assert!(!meter.is_over());
    }
}
