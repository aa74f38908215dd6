//! Where the load goes: `redis://`, `redis-cluster://`, `http://` and `dictionary://` addresses.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use super::blocking::Blocking;

/// Addresses of one target.
const ADDRESSES_MAX: usize = 64;

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2; any node takes any command.
    Resp,
    /// RESP2; each key has its node, which CLUSTER SLOTS tells.
    RespCluster,
    /// HTTP/1.1, the routes under `/v1/keys`.
    Http,
    /// HTTP/1.1, the routes of the replicated dictionary.
    Dictionary,
}

/// A system as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// What is spoken.
    pub protocol: Protocol,
    /// Its nodes' addresses, at least one: as written, and resolved.
    pub addresses: Vec<(String, SocketAddr)>,
    /// The user's name, if one is needed; empty for the default user.
    pub user: String,
    /// The password, if one is needed.
    pub password: Option<String>,
    /// The bucket that every RESP connection selects, if it is not the default one.
    pub bucket: Option<String>,
}

impl Target {
    /// Reads `scheme://[[user]:password@]host:port[,host:port…]`. The scheme may be left out: then it is `redis`. Each further
    /// address may repeat the scheme.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what to write.
    pub fn parse(text: &str) -> Result<Target, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("redis", text));
        let protocol = match scheme {
            "redis" | "resp" => Protocol::Resp,
            "redis-cluster" => Protocol::RespCluster,
            "http" => Protocol::Http,
            "dictionary" => Protocol::Dictionary,
            other => {
                return Err(format!(
                    "`{other}://` is not known: write redis://, redis-cluster://, http:// or dictionary:// (HTTP by way of \
                     /getValue and /insertOrUpdate)"
                ));
            }
        };
        let (credentials, places) = match rest.rsplit_once('@') {
            Some((credentials, places)) => (Some(credentials), places),
            None => (None, rest),
        };
        let (user, password) = match credentials.map(|text| text.split_once(':').unwrap_or(("", text))) {
            Some((user, password)) => (user.to_owned(), Some(password.to_owned())),
            None => (String::new(), None),
        };
        let mut addresses = Vec::new();
        for place in places.split(',').map(|place| place.trim().trim_end_matches('/')).filter(|place| !place.is_empty())
        {
            let place = place.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://")).unwrap_or(place);
            addresses.push((place.to_owned(), resolve(place)?));
        }
        if addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
            return Err(format!("`{text}` has {} addresses: write 1 to {ADDRESSES_MAX}", addresses.len()));
        }
        Ok(Target { protocol, addresses, user, password, bucket: None })
    }

    /// The commands that open a RESP connection, encoded, and how many replies they have.
    #[must_use]
    pub fn greeting(&self) -> (Vec<u8>, usize) {
        let mut out = Vec::new();
        match (&self.password, self.user.is_empty()) {
            (None, _) => {}
            (Some(password), true) => wire::encode_command(&mut out, ["AUTH", password]),
            (Some(password), false) => wire::encode_command(&mut out, ["AUTH", &self.user, password]),
        }
        if let Some(bucket) = &self.bucket {
            wire::encode_command(&mut out, ["SELECT", bucket]);
        }
        (out, usize::from(self.password.is_some()) + usize::from(self.bucket.is_some()))
    }

    /// What a refused greeting means, of which so many answers are lacking with this one; in words that go on with what the server said.
    #[must_use]
    pub fn refused(&self, lacking: usize) -> String {
        match &self.bucket {
            Some(bucket) if lacking <= 1 => format!("refused the bucket {bucket}"),
            _ => "refused the password".to_owned(),
        }
    }

    /// Whether HTTP is spoken.
    #[must_use]
    pub fn speaks_http(&self) -> bool {
        matches!(self.protocol, Protocol::Http | Protocol::Dictionary)
    }

    /// What the first node calls itself, with its version, if it speaks RESP and says so in INFO.
    #[must_use]
    pub fn told_version(&self, patience: Duration) -> Option<String> {
        let (_, address) = self.addresses.first().filter(|_| !self.speaks_http())?;
        let mut connection = Blocking::open(*address, &self.greeting(), patience).ok()?;
        let info = connection.ask(&["INFO", "server"]).ok()?;
        let info = String::from_utf8_lossy(info.as_bytes()?).into_owned();
        let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        let named = [("dictum_version", "Dictum"), ("valkey_version", "Valkey"), ("redis_version", "Redis")];
        named.iter().find_map(|(field, name)| Some(format!("{name} {}", of(field)?)))
    }
}

impl fmt::Display for Target {
    /// As [`Target::parse`] reads it, without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.protocol {
            Protocol::Resp => "redis",
            Protocol::RespCluster => "redis-cluster",
            Protocol::Http => "http",
            Protocol::Dictionary => "dictionary",
        };
        let places: Vec<&str> = self.addresses.iter().map(|(place, _)| place.as_str()).collect();
        write!(f, "{scheme}://{}", places.join(","))
    }
}

/// The address that `host:port` stands for; of several, the first.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn resolve(place: &str) -> Result<SocketAddr, String> {
    if place.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
        return Err(format!("`{place}` is not an address: write HOST:PORT, such as 127.0.0.1:7001"));
    }
    place
        .to_socket_addrs()
        .map_err(|error| format!("`{place}` cannot be resolved: {error}"))?
        .next()
        .ok_or_else(|| format!("`{place}` stands for no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        let target = Target::parse("redis://ann:secret@127.0.0.1:7001,redis://127.0.0.1:7002/").unwrap();
        assert_eq!(target.protocol, Protocol::Resp);
        assert_eq!(target.to_string(), "redis://127.0.0.1:7001,127.0.0.1:7002");
        assert_eq!((target.user.as_str(), target.password.as_deref()), ("ann", Some("secret")));
        assert_eq!(target.greeting(), (b"*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$6\r\nsecret\r\n".to_vec(), 1));
        assert_eq!(Target::parse("127.0.0.1:1").unwrap().greeting(), (Vec::new(), 0));
        let target = Target { bucket: Some("events".to_owned()), ..target };
        let (words, answers) = target.greeting();
        assert!(words.ends_with(b"*2\r\n$6\r\nSELECT\r\n$6\r\nevents\r\n") && answers == 2);
        assert_eq!(
            (target.refused(2), target.refused(1)),
            ("refused the password".into(), "refused the bucket events".into())
        );
        assert_eq!(Target::parse("dictionary://127.0.0.1:1").unwrap().protocol, Protocol::Dictionary);
    }

    #[test]
    fn mistakes_are_told() {
        assert!(Target::parse("ftp://127.0.0.1:1").unwrap_err().contains("redis-cluster://"));
        assert!(Target::parse("redis://127.0.0.1").unwrap_err().contains("HOST:PORT"));
        assert!(Target::parse("redis://").unwrap_err().contains("0 addresses"));
    }
}
