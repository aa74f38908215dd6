//! HyperLogLog: about how many different elements there were, in at most 12 KiB, as bytes that a Redis reads and writes too.
//!
//! ```text
//!   "HYLL" | encoding | 0 0 0 | cached count, 8 bytes, little endian | registers
//! ```
//! There are 16384 registers. The hash of an element names one of them by its lowest 14 bits; the rest of the hash says a number from 1 to 51: how many zeros
//! it ends with, and one more. A register keeps the largest number that it was ever told. The highest bit of the cached count says that it is out of date.
//!
//! - *Dense* (0): 6 bits a register, from the lowest bit of the first byte on. Always 12304 bytes.
//! - *Sparse* (1): runs of equal registers, which have to be 16384 together:
//!   `00llllll` l+1 zeros, `01llllll llllllll` as many as 16384 zeros, `1vvvvvll` up to four times the number v+1.
//!
//! A sparse one becomes dense when a number above 32 comes or when it would be longer than [`SPARSE_BYTES_MAX`]. Which runs it has depends on the order in which
//! elements came, and is the same as in a Redis: replicas and copies are compared byte by byte.
//!
//! The estimate is that of Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", arXiv:1702.01284.

/// How many registers there are.
pub const REGISTERS: usize = 1 << INDEX_BITS;
/// A sparse one is not longer: `hll-sparse-max-bytes`, as a Redis has it unless it is told otherwise.
pub const SPARSE_BYTES_MAX: usize = 3000;
/// The length of a dense one.
pub const DENSE_BYTES: usize = HEAD_BYTES + REGISTERS * REGISTER_BITS / 8;

const INDEX_BITS: u32 = 14;
const REGISTER_BITS: usize = 6;
/// Bits of a hash that do not name the register.
const REST_BITS: u32 = 64 - INDEX_BITS;
const HASH_SEED: u64 = 0xadc8_3b19;
const HEAD_BYTES: usize = 16;
const MAGIC: &[u8] = b"HYLL";
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// Where the encoding is said, and the byte of the cached count that has the mark.
const ENCODING_AT: usize = 4;
const CACHED_AT: usize = 8;
const STALE_AT: usize = 15;
const STALE: u8 = 0x80;
/// Largest number and longest run of numbers that a sparse one has words for; longest run of zeros in one byte.
const RUN_NUMBER_MAX: u8 = 32;
const RUN_LEN_MAX: usize = 4;
const SHORT_ZEROS_MAX: usize = 64;
/// How many runs are looked at to join equal ones, from the one before a change on.
const JOINED_RUNS: usize = 5;

/// Registers one a byte.
pub type Registers = [u8; REGISTERS];

/// Bytes that begin like a HyperLogLog and whose runs are not those of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

/// A HyperLogLog of nothing: sparse, its count known.
#[must_use]
pub fn empty() -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.push(SPARSE);
    bytes.resize(HEAD_BYTES, 0);
    push_zeros(&mut bytes, REGISTERS);
    bytes
}

/// Whether bytes begin like a HyperLogLog, and have the length of one if it is dense.
#[must_use]
pub fn is_one(bytes: &[u8]) -> bool {
    bytes.len() >= HEAD_BYTES
        && bytes.starts_with(MAGIC)
        && (bytes[ENCODING_AT] == SPARSE || bytes[ENCODING_AT] == DENSE && bytes.len() == DENSE_BYTES)
}

/// Whether it is a dense one.
#[must_use]
pub fn is_dense(bytes: &[u8]) -> bool {
    bytes.get(ENCODING_AT) == Some(&DENSE)
}

/// The count that was written into it, if it is still right.
#[must_use]
pub fn cached(bytes: &[u8]) -> Option<u64> {
    let count = bytes.get(CACHED_AT..)?.first_chunk::<8>()?;
    (count[STALE_AT - CACHED_AT] & STALE == 0).then(|| u64::from_le_bytes(*count))
}

/// Marks the cached count as out of date.
pub fn mark_stale(bytes: &mut [u8]) {
    if let Some(byte) = bytes.get_mut(STALE_AT) {
        *byte |= STALE;
    }
}

/// The register of an element, and the number that it is told.
#[must_use]
pub fn place_of(element: &[u8]) -> (usize, u8) {
    let hash = murmur_64a(element, HASH_SEED);
    let rest = hash >> INDEX_BITS | 1 << REST_BITS;
    (hash as usize % REGISTERS, rest.trailing_zeros() as u8 + 1)
}

/// MurmurHash64A of Austin Appleby, public domain.
fn murmur_64a(bytes: &[u8], seed: u64) -> u64 {
    const MIX: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(MIX);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(MIX);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(MIX)).wrapping_mul(MIX);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(MIX);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(MIX);
    hash ^ hash >> SHIFT
}

/// A run of equal registers in a sparse one.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// What the registers have; 0 for those that were told nothing.
    number: u8,
    len: usize,
    /// Bytes that say so.
    size: usize,
}

/// The run whose bytes begin at a place; none if they are cut off.
fn run_at(bytes: &[u8], at: usize) -> Option<Run> {
    let first = *bytes.get(at)?;
    let low = usize::from(first & 0x3f);
    Some(match first >> 6 {
        0b00 => Run { number: 0, len: low + 1, size: 1 },
        0b01 => Run { number: 0, len: (low << 8 | usize::from(*bytes.get(at + 1)?)) + 1, size: 2 },
        _ => Run { number: (first >> 2 & 0x1f) + 1, len: low % RUN_LEN_MAX + 1, size: 1 },
    })
}

fn push_zeros(bytes: &mut Vec<u8>, len: usize) {
    match len {
        0 => {}
        1..=SHORT_ZEROS_MAX => bytes.push(len as u8 - 1),
        _ => bytes.extend([0b0100_0000 | ((len - 1) >> 8) as u8, (len - 1) as u8]),
    }
}

/// `len` is at most four, `number` from 1 to 32.
fn push_numbers(bytes: &mut Vec<u8>, number: u8, len: usize) {
    if len > 0 {
        bytes.push(0b1000_0000 | ((number - 1) << 2) | (len - 1) as u8);
    }
}

/// Calls `each` with the runs of a sparse one: its first register and the run. An error if they are not all the registers.
fn for_each_run(bytes: &[u8], mut each: impl FnMut(usize, Run)) -> Result<(), Corrupt> {
    let (mut at, mut register) = (HEAD_BYTES, 0);
    while at < bytes.len() {
        let run = run_at(bytes, at).filter(|run| run.len <= REGISTERS - register).ok_or(Corrupt)?;
        each(register, run);
        register += run.len;
        at += run.size;
    }
    if register == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// Tests itself: registers hold what they are told, sparse and dense ones alike, and counts are as near as they have to be.
///
/// # Errors
/// What is wrong.
pub fn self_test() -> Result<(), String> {
    let corrupt = |Corrupt| "the runs are corrupt".to_owned();
    let (mut sparse, mut dense) = (empty(), empty());
    make_dense(&mut dense).map_err(corrupt)?;
    for number in 0..2000u32 {
        let place = place_of(&number.to_le_bytes());
        tell(&mut sparse, place).map_err(corrupt)?;
        tell(&mut dense, place).map_err(corrupt)?;
    }
    let (mut of_sparse, mut of_dense) = ([0; REGISTERS], [0; REGISTERS]);
    raise(&mut of_sparse, &sparse).map_err(corrupt)?;
    raise(&mut of_dense, &dense).map_err(corrupt)?;
    if of_sparse != of_dense {
        return Err("sparse and dense registers differ".to_owned());
    }
    let mut numbers = dense.clone();
    for register in (0..REGISTERS).rev() {
        dense_set(&mut numbers, register, (register % 64) as u8);
    }
    if let Some(register) = (0..REGISTERS).find(|register| dense_get(&numbers, *register) != (register % 64) as u8) {
        return Err(format!("register {register} holds {}", dense_get(&numbers, register)));
    }
    match count(&dense).map_err(corrupt)? {
        told if (1900..=2100).contains(&told) => Ok(()),
        told => Err(format!("{told} of 2000 elements were counted")),
    }
}

/// The runs of a sparse one, as `PFDEBUG DECODE` tells them.
///
/// # Errors
/// If they are not all the registers.
pub fn runs_as_text(bytes: &[u8]) -> Result<String, Corrupt> {
    let mut told = Vec::new();
    for_each_run(bytes, |_, run| {
        told.push(match run.number {
            0 if run.size == 1 => format!("z:{}", run.len),
            0 => format!("Z:{}", run.len),
            number => format!("v:{number},{}", run.len),
        });
    })?;
    Ok(told.join(" "))
}

/// Where the bits of a register are among those of a dense one: the byte, and the lowest bit in it.
fn dense_place(register: usize) -> (usize, usize) {
    let bit = register * REGISTER_BITS;
    (HEAD_BYTES + bit / 8, bit % 8)
}

fn dense_get(bytes: &[u8], register: usize) -> u8 {
    let (at, shift) = dense_place(register);
    let next = bytes.get(at + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([bytes[at], next]) >> shift) as u8 & 0x3f
}

fn dense_set(bytes: &mut [u8], register: usize, number: u8) {
    let (at, shift) = dense_place(register);
    let put = |byte: u8, mask: u16, bits: u16, half: usize| byte & !mask.to_le_bytes()[half] | bits.to_le_bytes()[half];
    let (mask, bits) = (0x3f << shift, u16::from(number & 0x3f) << shift);
    bytes[at] = put(bytes[at], mask, bits, 0);
    if let Some(byte) = bytes.get_mut(at + 1) {
        *byte = put(*byte, mask, bits, 1);
    }
}

/// Makes it dense. The cached count stays as it is.
pub fn make_dense(bytes: &mut Vec<u8>) -> Result<(), Corrupt> {
    if is_dense(bytes) {
        return Ok(());
    }
    let mut dense = bytes[..HEAD_BYTES].to_vec();
    dense[ENCODING_AT] = DENSE;
    dense.resize(DENSE_BYTES, 0);
    for_each_run(bytes, |first, run| {
        if run.number > 0 {
            (first..first + run.len).for_each(|register| dense_set(&mut dense, register, run.number));
        }
    })?;
    *bytes = dense;
    Ok(())
}

/// Whether telling it that would change it. Its runs are all the registers.
#[must_use]
pub fn would_change(bytes: &[u8], (register, number): (usize, u8)) -> bool {
    let known = if is_dense(bytes) {
        Some(dense_get(bytes, register))
    } else {
        find_run(bytes, register, (0, 0)).ok().map(|found| found.run.number)
    };
    known.is_none_or(|known| known < number)
}

/// Registers that are told numbers one after the other, from the lowest to the highest: where to begin to look for the next.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// A run: bytes behind the head, and its first register.
    run: (usize, usize),
}

/// Tells a register a number, unless it has one as large; whether it had not. An error, and no change, if its runs do not come so far.
pub fn tell(bytes: &mut Vec<u8>, (register, number): (usize, u8)) -> Result<bool, Corrupt> {
    tell_from(bytes, (register, number), &mut Cursor::default())
}

fn tell_from(bytes: &mut Vec<u8>, (register, number): (usize, u8), cursor: &mut Cursor) -> Result<bool, Corrupt> {
    if is_dense(bytes) {
        let is_larger = dense_get(bytes, register) < number;
        if is_larger {
            dense_set(bytes, register, number);
        }
        return Ok(is_larger);
    }
    let found = find_run(bytes, register, cursor.run)?;
    // The run before the one that is wanted has to be known, too.
    let found = if found.before.is_none() { find_run(bytes, register, (0, 0))? } else { found };
    let Found { at, first, run, before } = found;
    cursor.run = before.unwrap_or((0, 0));
    if run.number >= number {
        return Ok(false);
    }
    let (ahead, behind) = (register - first, first + run.len - register - 1);
    let mut instead = Vec::with_capacity(5);
    let fits = number <= RUN_NUMBER_MAX;
    if fits {
        let push_rest = |instead: &mut Vec<u8>, len| match run.number {
            0 => push_zeros(instead, len),
            number => push_numbers(instead, number, len),
        };
        push_rest(&mut instead, ahead);
        push_numbers(&mut instead, number, 1);
        push_rest(&mut instead, behind);
    }
    let grows = instead.len() > run.size;
    if !fits || grows && bytes.len() - run.size + instead.len() > SPARSE_BYTES_MAX {
        make_dense(bytes)?;
        dense_set(bytes, register, number);
        return Ok(true);
    }
    bytes.splice(at..at + run.size, instead);
    join_runs(bytes, HEAD_BYTES + cursor.run.0);
    Ok(true)
}

/// A run that has a register.
struct Found {
    at: usize,
    first: usize,
    run: Run,
    /// The one before it, as in [`Cursor`]; none if the search began with it.
    before: Option<(usize, usize)>,
}

fn find_run(bytes: &[u8], register: usize, (behind_head, first): (usize, usize)) -> Result<Found, Corrupt> {
    let (mut at, mut first, mut before) = (HEAD_BYTES + behind_head, first, None);
    loop {
        let run = run_at(bytes, at).ok_or(Corrupt)?;
        if register < first + run.len {
            return Ok(Found { at, first, run, before });
        }
        before = Some((at - HEAD_BYTES, first));
        first += run.len;
        at += run.size;
    }
}

/// Joins neighbours that have the same number, among a few runs from a place on.
fn join_runs(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED_RUNS {
        let Some(run) = run_at(bytes, at) else { return };
        let next = run_at(bytes, at + run.size).filter(|next| run.number > 0 && next.number == run.number);
        match next {
            Some(next) if run.len + next.len <= RUN_LEN_MAX => {
                bytes.remove(at);
                let mut joined = Vec::with_capacity(1);
                push_numbers(&mut joined, run.number, run.len + next.len);
                bytes[at] = joined[0];
            }
            _ => at += run.size,
        }
    }
}

/// Whether its runs are all the registers: then telling and counting find no fault with it.
pub fn check(bytes: &[u8]) -> Result<(), Corrupt> {
    if is_dense(bytes) { Ok(()) } else { for_each_run(bytes, |_, _| {}) }
}

/// Raises `registers` to those that it has.
pub fn raise(registers: &mut Registers, bytes: &[u8]) -> Result<(), Corrupt> {
    if is_dense(bytes) {
        for (register, number) in registers.iter_mut().enumerate() {
            *number = (*number).max(dense_get(bytes, register));
        }
        return Ok(());
    }
    for_each_run(bytes, |first, run| {
        registers[first..first + run.len].iter_mut().for_each(|number| *number = (*number).max(run.number));
    })
}

/// Tells it all registers.
pub fn tell_all(bytes: &mut Vec<u8>, registers: &Registers) -> Result<(), Corrupt> {
    let mut cursor = Cursor::default();
    for (register, &number) in registers.iter().enumerate().filter(|(_, number)| **number > 0) {
        tell_from(bytes, (register, number), &mut cursor)?;
    }
    Ok(())
}

/// How many registers have which number.
type Histogram = [u32; 64];

/// About how many elements it was told of.
pub fn count(bytes: &[u8]) -> Result<u64, Corrupt> {
    let mut histogram: Histogram = [0; 64];
    if is_dense(bytes) {
        (0..REGISTERS).for_each(|register| histogram[usize::from(dense_get(bytes, register))] += 1);
    } else {
        for_each_run(bytes, |_, run| histogram[usize::from(run.number)] += run.len as u32)?;
    }
    Ok(estimate(&histogram))
}

/// About how many elements registers were told of.
#[must_use]
pub fn count_registers(registers: &Registers) -> u64 {
    let mut histogram: Histogram = [0; 64];
    registers.iter().for_each(|number| histogram[usize::from(number & 0x3f)] += 1);
    estimate(&histogram)
}

fn estimate(histogram: &Histogram) -> u64 {
    /// One half by the natural logarithm of two.
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let all = REGISTERS as f64;
    let largest = REST_BITS as usize + 1;
    let mut sum = all * tau((all - f64::from(histogram[largest])) / all);
    for number in (1..largest).rev() {
        sum = (sum + f64::from(histogram[number])) * 0.5;
    }
    sum += all * sigma(f64::from(histogram[0]) / all);
    // Nothing but the largest numbers, which no elements lead to, would be infinite.
    ((ALPHA * all * all / sum).round() as u64).min(i64::MAX as u64)
}

/// The sum of x^(2^k) · 2^(k−1) over k from 1 on, and x.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut weight, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// A third of 1 − x less the sum of (1 − x^(2^−k))² · 2^−k over k from 1 on.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut weight, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests;
