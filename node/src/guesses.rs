//! Slows down those who guess passwords: three failures a second from one host are answered at once;
//! after them, `AUTH` and `HELLO … AUTH` from there wait until the second is over, right ones too. To
//! answer only the right ones at once would tell a guesser which they are.
//!
//! 1. The first failure of a host begins its second; more are counted in it.
//! 2. When there are three, commands that guess are kept on their connections, in the order in which they came.
//! 3. When the second is over they are carried out. The fourth of them waits again.
//!
//! A connection that has shown the password once waits for nothing. A host is an IPv4 address, or the
//! first half of one of IPv6: the owner of one address of that kind has 2⁶⁴ of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use base::Time;
use wire::ArgumentsRef;

use crate::door::{ConnectionId, Level};
use crate::foreign::RareLine;
use crate::node::Node;
use crate::passwords;
use crate::session::{Block, Session};

/// Failures of a host that are answered at once …
const FAILURES_MAX: u32 = 3;
/// … in this time.
const WINDOW: Duration = Duration::from_secs(1);
/// Most hosts whose failures are remembered; beyond, that of the oldest is forgotten.
const HOSTS_MAX: usize = 4096;

/// Hosts from which wrong passwords have come, and how long the next ones wait.
#[derive(Debug, Default)]
pub struct HostFailures {
    /// By host: when its second ends, and the failures in it.
    hosts: BTreeMap<IpAddr, (Time, u32)>,
}

/// The guesses that a node has seen.
#[derive(Debug, Default)]
pub(crate) struct Guesses {
    pub(crate) failures: HostFailures,
    /// Connections that wait, by when that ends, in the order in which they came.
    waiting: BTreeMap<(Time, u64), ConnectionId>,
    next: u64,
    line: RareLine,
}

/// The host of a connection's address; all that is not understood is one.
pub(crate) fn host_of(address: &str) -> IpAddr {
    address.parse::<SocketAddr>().map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |address| HostFailures::host(address.ip()))
}

impl HostFailures {
    /// The host of an address: itself, or of one of IPv6 its network.
    #[must_use]
    pub fn host(address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            address => address,
        }
    }

    /// How long a guess of this host has to wait, if it has to.
    #[must_use]
    pub fn waits_until(&self, host: IpAddr, now: Time) -> Option<Time> {
        let (until, failures) = self.hosts.get(&host)?;
        (*failures >= FAILURES_MAX && now < *until).then_some(*until)
    }

    /// True if a password of this host was wrong a moment ago.
    #[must_use]
    pub fn has(&self, host: IpAddr, now: Time) -> bool {
        self.hosts.get(&host).is_some_and(|(until, _)| now < *until)
    }

    /// A password of this host was wrong.
    pub fn note(&mut self, host: IpAddr, now: Time) {
        if !self.hosts.contains_key(&host) && self.hosts.len() >= HOSTS_MAX {
            self.hosts.retain(|_, (until, _)| now < *until);
            if self.hosts.len() >= HOSTS_MAX {
                let oldest = self.hosts.iter().min_by_key(|(_, (until, _))| *until).map(|(host, _)| *host);
                oldest.map(|oldest| self.hosts.remove(&oldest));
            }
        }
        let window = self.hosts.entry(host).or_insert((now + WINDOW, 0));
        if window.0 <= now {
            *window = (now + WINDOW, 0);
        }
        window.1 = window.1.saturating_add(1);
    }
}

impl Guesses {
    /// A connection that waited is gone.
    pub(crate) fn leave(&mut self, place: (Time, u64)) {
        self.waiting.remove(&place);
    }
}

impl Node {
    /// Keeps a command that shows a password, if its host has been wrong too often.
    pub(crate) fn waits_as_guess(
        &mut self,
        session: &mut Session,
        arguments: ArgumentsRef<'_>,
        login: (&[u8], &[u8]),
    ) -> bool {
        // A password that was tried has waited, and was counted. A client that renews its own login guesses nothing.
        if session.is_inside || passwords::was_tried(session) || self.is_known_login(session, login) {
            return false;
        }
        let Some(until) = self.guesses.failures.waits_until(host_of(&session.address), self.now.time) else {
            return false;
        };
        let place = (until, self.guesses.next);
        self.guesses.next += 1;
        self.guesses.waiting.insert(place, session.id);
        session.deferred = Some(arguments.to_owned());
        session.block = Some(Block::Guess { until: place.0, number: place.1 });
        true
    }

    /// True if these words make a connection the user that it has logged in as.
    fn is_known_login(&self, session: &Session, (name, password): (&[u8], &[u8])) -> bool {
        session.has_logged_in
            && self.login(session, name, password).is_some_and(|(user, _)| user.name == session.user.name)
    }

    /// A password was wrong, or the name of no user.
    pub(crate) fn note_wrong_password(&mut self, session: &Session) {
        self.stats.auth_failures += 1;
        if !session.is_inside && !passwords::is_counted(session) {
            self.note_guess(host_of(&session.address));
        }
        if let Some(end) = self.guesses.line.ask(self.now.time) {
            let from = &session.address;
            self.event(Level::Warning, format!("wrong password, or the name of no user, from {from}{end}"));
        }
    }

    /// A host has shown a password that is wrong.
    pub(crate) fn note_guess(&mut self, host: IpAddr) {
        self.guesses.failures.note(host, self.now.time);
        if self.guesses.failures.waits_until(host, self.now.time).is_some() {
            passwords::slow_down(self, host);
        }
    }

    /// When the next of those that wait goes on.
    pub(crate) fn guesses_until(&self) -> Option<Time> {
        self.guesses.waiting.keys().next().map(|(until, _)| *until)
    }

    /// At every tick: those go on whose time is up.
    pub(crate) fn look_at_guesses(&mut self) {
        while let Some(entry) = self.guesses.waiting.first_entry().filter(|entry| entry.key().0 <= self.now.time) {
            let ((until, number), connection) = entry.remove_entry();
            if let Some(Some(session)) = self.sessions.get_mut(&connection)
                && session.block == Some(Block::Guess { until, number })
            {
                session.block = None;
                self.resume(connection);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::default() + Duration::from_millis(ms)
    }

    #[test]
    fn hosts_are_told_apart_and_those_of_ipv6_by_their_network() {
        let same = |a: &str, b: &str| host_of(a) == host_of(b);
        assert!(same("10.0.0.1:5", "10.0.0.1:6") && same("10.0.0.1:5", "[::ffff:10.0.0.1]:6"));
        assert!(same("[2001:db8::1]:5", "[2001:db8::2:3]:6"));
        assert!(!same("10.0.0.1:5", "10.0.0.2:5") && !same("[2001:db8::1]:5", "[2001:db8:0:1::1]:5"));
        assert!(same("somewhere", "elsewhere"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut guesses = HostFailures::default();
        let host = |number: u32| IpAddr::from(number.to_be_bytes());
        for number in 0..20_000 {
            guesses.note(host(number), at(u64::from(number / 100)));
            assert!(guesses.hosts.len() <= HOSTS_MAX);
        }
        assert!(guesses.hosts.contains_key(&host(19_999)) && !guesses.hosts.contains_key(&host(0)));
        (0..3).for_each(|_| guesses.note(host(5), at(5000)));
        assert_eq!(
            (guesses.waits_until(host(5), at(5999)), guesses.waits_until(host(5), at(6000))),
            (Some(at(6000)), None)
        );
        guesses.note(host(5), at(6000));
        assert_eq!(guesses.waits_until(host(5), at(6001)), None, "another second");
    }
}
