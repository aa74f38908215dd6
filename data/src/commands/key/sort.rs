//! `SORT key …`, `SORT_RO key …`
//!
//! Which keys `BY` and `GET` look at is not known before they are looked at. They are read where the command is carried out, in its entry or in its view, and not declared: all
//! keys of a bucket are in one partition. Where a bucket has more, this has to be refused, as a Redis Cluster refuses it.

use crate::collections::Collections;
use crate::commands::prelude::*;
use crate::commands::sorted::bounds::parse_score;
use crate::meter::Meter;
use crate::spec::Follows;
use base::WallTime;
use base::limits::KEY_BYTES_MAX;
use base::versions::Feature;
use std::cmp::Ordering;

/// The elements of a collection in an order, or what stands elsewhere by their names.
struct Sorting<'a> {
    key: KeyRef<'a>,
    /// By whose values; none: by the elements themselves.
    by: Option<Pattern<'a>>,
    /// The order is that in which they stand.
    as_they_are: bool,
    descending: bool,
    /// As texts, and not as numbers.
    alpha: bool,
    /// From which on, and how many: a negative number is all.
    limit: (i64, i64),
    get: Vec<Pattern<'a>>,
    store: Option<KeyRef<'a>>,
}

/// A key with a place for an element, and perhaps a field of the hash there.
#[derive(Clone, Copy)]
enum Pattern<'a> {
    /// `#`: the element itself.
    Element,
    /// What is before the first star, what is behind it, the field.
    Key(&'a [u8], &'a [u8], Option<&'a [u8]>),
    /// It has no star.
    Nothing,
}

/// Where keys are read: in an entry, or in a view.
trait Source {
    fn record(&mut self, key: KeyRef<'_>) -> Option<Record>;
    fn elements(&self) -> &Collections;
    /// Whether a script asks, which has to be answered alike everywhere.
    fn is_in_script(&self) -> bool;
    /// Fields that have expired by then are none.
    fn time(&self) -> WallTime;
}

impl Source for Transaction<'_> {
    fn record(&mut self, key: KeyRef<'_>) -> Option<Record> {
        self.get(key)
    }

    fn elements(&self) -> &Collections {
        &self.tree().collections
    }

    fn is_in_script(&self) -> bool {
        Transaction::is_in_script(self) && Feature::AsRedis.is_in(self.version())
    }

    fn time(&self) -> WallTime {
        Transaction::time(self)
    }
}

impl Source for &View<'_> {
    fn record(&mut self, key: KeyRef<'_>) -> Option<Record> {
        self.get(key)
    }

    fn elements(&self) -> &Collections {
        self.collections()
    }

    fn is_in_script(&self) -> bool {
        View::is_in_script(self) && Feature::AsRedis.is_in(self.version())
    }

    fn time(&self) -> WallTime {
        View::time(self)
    }
}

impl<'a> Pattern<'a> {
    fn parse(text: &'a [u8]) -> Pattern<'a> {
        if text == b"#" {
            return Pattern::Element;
        }
        let Some(star) = text.iter().position(|byte| *byte == b'*') else { return Pattern::Nothing };
        let behind = &text[star + 1..];
        let arrow = behind.windows(2).position(|pair| pair == b"->");
        match arrow.filter(|arrow| arrow + 2 < behind.len()) {
            Some(arrow) => Pattern::Key(&text[..star], &behind[..arrow], Some(&behind[arrow + 2..])),
            None => Pattern::Key(&text[..star], behind, None),
        }
    }

    /// What stands there for an element; none if it is no string.
    fn read(self, element: &Blob, source: &mut dyn Source) -> Option<Blob> {
        let (before, behind, field) = match self {
            Pattern::Element => return Some(element.clone()),
            Pattern::Nothing => return None,
            Pattern::Key(before, behind, field) => (before, behind, field),
        };
        let key = [before, element, behind].concat();
        source.elements().meter.make(key.len());
        let value = source.record(KeyRef::new(&key)).filter(|_| key.len() <= KEY_BYTES_MAX)?.value;
        match field {
            None => value.into_string().ok(),
            Some(field) => {
                let hash = value.into_collection(Kind::Hash).ok()?;
                let value = source.elements().element(hash, name_order(field), field)?;
                (!source.elements().is_due(hash, field, source.time())).then_some(value)
            }
        }
    }
}

/// The number that a text is sorted by; none if it is no number.
fn number_of(text: &[u8]) -> Option<f64> {
    // As strtod: up to a zero, blanks before it, and nothing at all for zero.
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    // What is too small to be told exactly is out of range there, too.
    parse_score(text.trim_ascii_start()).filter(|number| !number.is_subnormal())
}

/// Counts bytes towards what one answer may have.
fn weigh(bytes: &mut u64, value: &Blob, meter: &Meter) -> Result<(), Failure> {
    const VALUE_BYTES: u64 = 64;
    *bytes += value.len() as u64 + VALUE_BYTES;
    if *bytes > meter.answer_max() {
        Err(Failure::Text("ERR so many elements are too large for one answer"))
    } else {
        Ok(())
    }
}

impl<'a> Sorting<'a> {
    fn parse(args: Args<'a>, may_store: bool) -> Result<Self, Failure> {
        let mut sorting = Sorting {
            key: args.key(1)?,
            by: None,
            as_they_are: false,
            descending: false,
            alpha: false,
            limit: (0, -1),
            get: Vec::new(),
            store: None,
        };
        let mut index = 2;
        while index < args.len() {
            let has = |more: usize| index + more < args.len();
            index += match args.get(index)?.to_ascii_uppercase().as_slice() {
                b"ASC" => {
                    sorting.descending = false;
                    1
                }
                b"DESC" => {
                    sorting.descending = true;
                    1
                }
                b"ALPHA" => {
                    sorting.alpha = true;
                    1
                }
                b"LIMIT" if has(2) => {
                    sorting.limit = (args.integer(index + 1)?, args.integer(index + 2)?);
                    3
                }
                b"STORE" if may_store && has(1) => {
                    sorting.store = Some(args.key(index + 1)?);
                    2
                }
                b"BY" if has(1) => {
                    let pattern = args.get(index + 1)?;
                    sorting.as_they_are |= !pattern.contains(&b'*');
                    sorting.by = Some(Pattern::parse(pattern));
                    2
                }
                b"GET" if has(1) => {
                    sorting.get.push(Pattern::parse(args.get(index + 1)?));
                    2
                }
                _ => return Err(Failure::Syntax),
            };
        }
        Ok(sorting)
    }

    /// The places of the first element that is wanted and of the one behind the last, among so many.
    fn wanted(&self, len: u64) -> (u64, u64) {
        let start = u64::try_from(self.limit.0).unwrap_or(0).min(len);
        let count = u64::try_from(self.limit.1).unwrap_or(len);
        (start, start.saturating_add(count).min(len))
    }

    /// The elements that are wanted, in order.
    fn elements(&self, source: &mut dyn Source) -> Result<Vec<Blob>, Failure> {
        let Some(Record { value, .. }) = source.record(self.key) else { return Ok(Vec::new()) };
        let (kind, of) = value.elements().ok_or(Failure::WrongType)?;
        let (from, end) = self.wanted(of.len());
        // What is stored of a set, or answered to a script, is sorted all the same: a Redis has no order of its own for it.
        let is_seen = self.store.is_some() || source.is_in_script();
        let sorts = !self.as_they_are || kind == Kind::Set && is_seen;
        let reversed = !sorts && self.descending && kind != Kind::Set;
        let (skipped, taken) = match (sorts, reversed) {
            (true, _) => (0, of.len()),
            (false, false) => (from, end - from),
            (false, true) => (of.len() - end, end - from),
        };
        let collections = source.elements();
        let all: Box<dyn Iterator<Item = Blob>> = match kind {
            Kind::Set => Box::new(collections.elements_of(of, 0).map(|(_, member, _)| member).skip(skipped as usize)),
            Kind::SortedSet => Box::new(collections.ranked_from(of, skipped).map(|(member, _)| member)),
            Kind::List => {
                let list = value.into_list()?;
                Box::new(collections.list_between(list, skipped, skipped.saturating_add(taken)))
            }
            Kind::Hash | Kind::Stream => return Err(Failure::WrongType),
        };
        let (mut elements, mut bytes) = (Vec::new(), 0);
        for element in all.take(usize::try_from(taken).unwrap_or(usize::MAX)) {
            weigh(&mut bytes, &element, &collections.meter)?;
            elements.push(element);
        }
        if reversed {
            elements.reverse();
        }
        if !sorts {
            return Ok(elements);
        }
        let sorted = self.sort(elements, source)?;
        Ok(sorted.into_iter().skip(from as usize).take((end - from) as usize).collect())
    }

    fn sort(&self, elements: Vec<Blob>, source: &mut dyn Source) -> Result<Vec<Blob>, Failure> {
        // A set that is stored, or answered to a script, as it is: by the elements, as texts.
        let (by, alpha) = if self.as_they_are { (None, true) } else { (self.by, self.alpha) };
        let mut bytes = 0;
        // Sorting compares each element with about as many others as its number has digits.
        let digits = u64::from(elements.len().checked_ilog2().unwrap_or_default()) + 1;
        source.elements().meter.spend(digits * 4 * elements.len() as u64);
        let mut value_of = |element: &Blob| -> Result<Option<Blob>, Failure> {
            source.elements().meter.check()?;
            let value = by.map_or_else(|| Some(element.clone()), |pattern| pattern.read(element, source));
            value.iter().try_for_each(|value| weigh(&mut bytes, value, &source.elements().meter))?;
            Ok(value)
        };
        let directed = |order: Ordering| if self.descending { order.reverse() } else { order };
        if alpha {
            let mut valued = Vec::with_capacity(elements.len());
            for element in elements {
                valued.push((value_of(&element)?, element));
            }
            valued.sort_unstable_by(|one, other| directed(one.cmp(other)));
            return Ok(valued.into_iter().map(|(_, element)| element).collect());
        }
        let mut valued = Vec::with_capacity(elements.len());
        for element in elements {
            let number = value_of(&element)?.map_or(Some(0.0), |value| number_of(&value));
            let number = number.ok_or(Failure::Text("ERR One or more scores can't be converted into double"))?;
            valued.push((number, element));
        }
        valued.sort_unstable_by(|one, other| directed(one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1))));
        Ok(valued.into_iter().map(|(_, element)| element).collect())
    }

    /// What is answered: for each element all that is asked for.
    fn values(&self, source: &mut dyn Source) -> Result<Vec<Option<Blob>>, Failure> {
        let elements = self.elements(source)?;
        if self.get.is_empty() {
            return Ok(elements.into_iter().map(Some).collect());
        }
        let (mut values, mut bytes) = (Vec::new(), 0);
        for element in &elements {
            source.elements().meter.check()?;
            for pattern in &self.get {
                let value = pattern.read(element, source);
                weigh(&mut bytes, value.as_ref().unwrap_or(&Blob::EMPTY), &source.elements().meter)?;
                values.push(value);
            }
        }
        Ok(values)
    }

    fn answer(&self, source: &mut dyn Source) -> Result<Reply, Failure> {
        Ok(Reply::Array(self.values(source)?.into_iter().map(Reply::bulk_or_nil).collect()))
    }
}

/// Puts a list of these values under a key, or nothing if there are none; answers how many they are.
fn store(tx: &mut Transaction<'_>, key: KeyRef<'_>, values: Vec<Blob>) -> Result<Reply, Failure> {
    let count = values.len();
    if values.is_empty() {
        tx.remove(key);
    } else {
        let list = tx.make_list(values.into_iter());
        let deadline = tx.deadline_or_default(None);
        tx.put(key, list, deadline);
    }
    Ok(Reply::count(count))
}

/// Sorts, and answers or stores what comes out.
pub struct Sort<'a>(Sorting<'a>);

/// Sorts and answers.
pub struct SortReadOnly<'a>(Sorting<'a>);

impl<'a> WriteCommand<'a> for Sort<'a> {
    const SPEC: Spec = Spec {
        name: "sort",
        arity: -2,
        flags: Flags::WRITE.and(Flags::DENYOOM).and(Flags::MOVABLE_KEYS).and(Flags::DANGEROUS),
        keys: Keys::Named {
            from: 2,
            words: &[
                ("LIMIT", Follows::Words(2)),
                ("GET", Follows::Words(1)),
                ("BY", Follows::Words(1)),
                ("STORE", Follows::Key),
            ],
        },
        group: Group::Sorting,
        since: "1.0.0",
        complexity: "O(N+M*log(M)) where N is the number of elements and M how many are answered",
        summary: "Sorts the elements of a list, a set or a sorted set, or what stands under their names, and returns or stores them.",
        arguments: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]",
        example: "SORT users BY user:*->age DESC GET # GET user:*->name",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Sorting::parse(args, true).map(Sort)
    }

    fn apply(self, tx: &mut Transaction<'_>) -> Result<Reply, Failure> {
        let Some(destination) = self.0.store else { return self.0.answer(tx) };
        let values = self.0.values(tx)?;
        store(tx, destination, values.into_iter().map(Option::unwrap_or_default).collect())
    }
}

impl<'a> ReadCommand<'a> for SortReadOnly<'a> {
    const SPEC: Spec = Spec {
        name: "sort_ro",
        arity: -2,
        flags: Flags::READONLY.and(Flags::MOVABLE_KEYS).and(Flags::DANGEROUS),
        keys: Keys::ONE,
        group: Group::Sorting,
        since: "7.0.0",
        complexity: "O(N+M*log(M)) where N is the number of elements and M how many are answered",
        summary: "Returns the sorted elements of a list, a set or a sorted set, or what stands under their names.",
        arguments: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]",
        example: "SORT_RO users BY user:*->age DESC GET # GET user:*->name",
        subcommands: &[],
    };

    fn parse(args: Args<'a>) -> Result<Self, Failure> {
        Sorting::parse(args, false).map(SortReadOnly)
    }

    fn read(self, mut view: &View<'_>) -> Result<Reply, Failure> {
        self.0.answer(&mut view)
    }
}
