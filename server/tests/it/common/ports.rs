//! Ports that no other test has, in this process or in another one that runs the same tests.
//!
//! A port that is free when a test draws it may be taken before the test uses it, or while a node that had it is down. So each process of tests owns the ports
//! with one tens digit, by a lock on a file that ends with the process, and gives out tens of them in turn: the ten that was given out the longest time ago is next.

use std::fs::{self, File, TryLockError};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The first port.
const FIRST: u16 = 10_000;
/// So many tens with the same tens digit there are below the ports that the system gives to outgoing connections.
const TENS: usize = 227;
/// A cluster of `dictum dev` has ports so far above its first one, in hundreds.
const OFFSETS: [usize; 4] = [0, 5, 10, 20];

/// The tens digit that this process owns, and the file whose lock says so.
fn own_digit() -> u16 {
    static OWN: OnceLock<(u16, File)> = OnceLock::new();
    let (digit, _) = OWN.get_or_init(|| {
        let user = fs::metadata("/proc/self").map_or(0, |metadata| metadata.uid());
        let folder = std::env::temp_dir().join(format!("dictum-test-ports-{user}"));
        fs::create_dir_all(&folder).expect("a folder for locks");
        let file_of = |digit: u16| File::create(folder.join(digit.to_string())).expect("a file for a lock");
        for digit in 0..10 {
            let file = file_of(digit);
            match file.try_lock() {
                Ok(()) => return (digit, file),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => panic!("a file cannot be locked: {error}"),
            }
        }
        // Ten processes run tests now.
        let file = file_of(0);
        file.lock().expect("a file can be locked");
        (0, file)
    });
    *digit
}

/// When each ten was given out last; 0: not yet.
static GIVEN: Mutex<(u64, [u64; TENS])> = Mutex::new((0, [0; TENS]));

/// Takes the ten that was given out the longest time ago, of those that have tens at all these distances above them.
fn take(offsets: &[usize]) -> u16 {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let (count, last) = &mut *given;
    let most = TENS - offsets.iter().max().copied().unwrap_or(0);
    let used = |place: usize| offsets.iter().map(|offset| last[place + offset]).max().unwrap_or(0);
    let place = (0..most).min_by_key(|place| used(*place)).expect("there are some");
    *count += 1;
    offsets.iter().for_each(|offset| last[place + offset] = *count);
    FIRST + place as u16 * 100 + own_digit() * 10
}

/// The first port of a cluster of `dictum dev`, or of ten that a test wants.
pub fn base_port() -> u16 {
    take(&OFFSETS)
}

/// Different ports that nobody listens on, each with nine behind it that no other test has.
pub fn free_ports<const N: usize>() -> [u16; N] {
    // The workers of a machine have the ports behind the one that it is given.
    let mut own = std::iter::from_fn(|| Some(take(&[0])));
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    [(); N].map(|()| own.by_ref().find(is_free).expect("there are more"))
}
