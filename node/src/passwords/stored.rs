//! A password under argon2id, as a rule of a user says it: the PHC string `$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>`
//! (<https://github.com/P-H-C/phc-string-format>), of which there is one spelling for each value.

use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use base64ct::{Base64Unpadded, Encoding};

/// How all of them begin.
pub(crate) const PREFIX: &str = "$argon2id$v=19$";
// These are a part of the format: replicas judge by them which rules there are, and read stored users by them. They may only grow, and that takes a version.
/// Bytes of a new salt, and of each hash.
pub(crate) const SALT_BYTES: usize = 16;
const SALT_BYTES_MIN: usize = 8;
const SALT_BYTES_MAX: usize = 48;
const HASH_BYTES: usize = 32;
const MEMORY_KIB_MAX: u32 = 64 * 1024;
/// Most memory times passes, in KiB: what a login may cost. It is about five times the usual cost.
const WORK_KIB_MAX: u32 = 192 * 1024;
const LANES_MAX: u32 = 4;

/// The memory and the time that one try of a password costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Argon2Cost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// How often it is gone through.
    pub passes: u32,
    /// Lanes; here one thread computes all of them.
    pub lanes: u32,
}

impl Default for Argon2Cost {
    /// The first choice of OWASP's Password Storage Cheat Sheet: 19 MiB and two passes.
    fn default() -> Argon2Cost {
        Argon2Cost { memory_kib: 19 * 1024, passes: 2, lanes: 1 }
    }
}

impl Argon2Cost {
    /// The least that there is: for tests and the simulator, where nobody guesses.
    pub const LEAST: Argon2Cost = Argon2Cost { memory_kib: 8, passes: 1, lanes: 1 };

    fn is_within_limits(self) -> bool {
        (1..=LANES_MAX).contains(&self.lanes)
            && (8 * self.lanes..=MEMORY_KIB_MAX).contains(&self.memory_kib)
            && self.passes > 0
            && self.memory_kib.checked_mul(self.passes).is_some_and(|work| work <= WORK_KIB_MAX)
    }

    /// The hash of a password. None if there is no memory for it.
    fn hash(self, password: &[u8], salt: &[u8]) -> Option<[u8; HASH_BYTES]> {
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(HASH_BYTES)).ok()?;
        let mut hash = [0; HASH_BYTES];
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon2.hash_password_into(password, salt, &mut hash).ok()?;
        Some(hash)
    }
}

/// A password as a rule of `ACL SETUSER` says it under argon2id, at the usual cost. `salt`: random. None if there is no memory for it.
#[must_use]
pub fn password_hash(password: &[u8], salt: &[u8; SALT_BYTES]) -> Option<String> {
    StoredHash::new(password, salt, Argon2Cost::default()).map(|stored| stored.to_string())
}

/// True for a rule of `ACL SETUSER` that adds a password under argon2id.
#[must_use]
pub fn is_password_hash(rule: &str) -> bool {
    StoredHash::read(rule).is_some()
}

/// A hash, with all that is needed to try a password against it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredHash {
    cost: Argon2Cost,
    salt: Vec<u8>,
    hash: [u8; HASH_BYTES],
}

impl StoredHash {
    /// Hashes a password. None if there is no memory for it.
    pub(crate) fn new(password: &[u8], salt: &[u8; SALT_BYTES], cost: Argon2Cost) -> Option<StoredHash> {
        Some(StoredHash { cost, salt: salt.to_vec(), hash: cost.hash(password, salt)? })
    }

    /// Reads one. None if it is not spelled as [`fmt::Display`] spells it, or costs more than a login may.
    pub(crate) fn read(text: &str) -> Option<StoredHash> {
        let mut parts = text.strip_prefix(PREFIX)?.split('$');
        let (cost, salt, hash) = (parts.next()?, parts.next()?, parts.next()?);
        let mut numbers =
            cost.split(',').zip(["m=", "t=", "p="]).map(|(part, name)| part.strip_prefix(name)?.parse().ok());
        let mut number = || numbers.next().flatten();
        let cost = Argon2Cost { memory_kib: number()?, passes: number()?, lanes: number()? };
        let salt = Base64Unpadded::decode_vec(salt).ok()?;
        let hash = Base64Unpadded::decode_vec(hash).ok()?.try_into().ok()?;
        let is_sound = cost.is_within_limits() && (SALT_BYTES_MIN..=SALT_BYTES_MAX).contains(&salt.len());
        let read = StoredHash { cost, salt, hash };
        (is_sound && read.to_string() == text).then_some(read)
    }

    /// Tries a password. None if there is no memory for it.
    pub(crate) fn fits(&self, password: &[u8]) -> Option<bool> {
        Some(crate::access::same(&self.hash, &self.cost.hash(password, &self.salt)?))
    }
}

impl fmt::Display for StoredHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Argon2Cost { memory_kib, passes, lanes } = self.cost;
        let [salt, hash] = [&self.salt[..], &self.hash].map(Base64Unpadded::encode_string);
        write!(f, "{PREFIX}m={memory_kib},t={passes},p={lanes}${salt}${hash}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_reference_program_has_made_is_read_and_fits() {
        // printf password | argon2 somesalt -id -t 2 -k 256 -l 32 -e: its own test, `hashtest(version, 2, 8, 1, "password", "somesalt", …, Argon2_id)`.
        let text = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
        let stored = StoredHash::read(text).expect("it is one");
        assert_eq!((stored.fits(b"password"), stored.fits(b"passwore")), (Some(true), Some(false)));
        assert_eq!(stored.to_string(), text);
    }

    #[test]
    fn there_is_one_spelling_and_no_cost_beyond_what_a_login_may_take() {
        let good = StoredHash::new(b"secret", &[7; SALT_BYTES], Argon2Cost::LEAST).expect("memory").to_string();
        assert_eq!(StoredHash::read(&good).map(|stored| stored.to_string()), Some(good.clone()));
        let (head, tail) = good.split_once("m=8,t=1,p=1").expect("its cost");
        for cost in [
            "m=08,t=1,p=1",
            "m=+8,t=1,p=1",
            "m=8,t=1",
            "m=8,t=1,p=1,x=1",
            "t=1,m=8,p=1",
            "m=7,t=1,p=1",
            "m=8,t=0,p=1",
            "m=8,t=1,p=0",
            "m=16,t=1,p=3",
            "m=65537,t=1,p=1",
            "m=65536,t=4,p=1",
            "m=4294967295,t=4294967295,p=1",
            "m=1024,t=1,p=5",
            "m=8,t=1,p=1$",
        ] {
            assert_eq!(StoredHash::read(&format!("{head}{cost}{tail}")), None, "{cost}");
        }
        for (from, to) in [("$argon2id$", "$argon2i$"), ("v=19", "v=16"), ("$v=19", "")] {
            assert_eq!(StoredHash::read(&good.replacen(from, to, 1)), None, "{to}");
        }
        for wrong in [
            format!("{good}$"),
            format!("{good}="),
            good[..good.len() - 1].to_owned(),
            format!(" {good}"),
            String::new(),
            "$".repeat(99),
        ] {
            assert_eq!(StoredHash::read(&wrong), None, "{wrong}");
        }
        let usual = Argon2Cost::default();
        assert!(usual.is_within_limits() && Argon2Cost::LEAST.is_within_limits());
    }
}
