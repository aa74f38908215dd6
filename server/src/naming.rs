//! The address of a node's own name, at its start. In a container the name may be known some seconds later than the process begins.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::thread;
use std::time::Duration;

use crate::log;

/// How long a name is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// Finds the address, and waits for its name.
///
/// # Errors
/// There is none; the text says what to do.
pub(crate) fn resolve(address: &str) -> Result<SocketAddr, String> {
    let looks = PATIENCE.as_millis() / PAUSE.as_millis();
    let look = |address: &str| address.to_socket_addrs().map(|mut all| all.next());
    find(address, looks, look, || thread::sleep(PAUSE))
}

fn find(
    address: &str,
    looks: u128,
    look: impl Fn(&str) -> io::Result<Option<SocketAddr>>,
    mut pause: impl FnMut(),
) -> Result<SocketAddr, String> {
    let mut told = false;
    for left in (0..looks.max(1)).rev() {
        let why = match look(address) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => "it has no address".to_owned(),
            // Nothing that time would change.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(format!("{address}: {error}; correct --cluster, or give --peer IP:PORT"));
            }
            Err(error) => error.to_string(),
        };
        if left == 0 {
            return Err(format!(
                "{address}: {why}, after a minute of asking; correct --cluster, or give --peer IP:PORT"
            ));
        }
        if !std::mem::replace(&mut told, true) {
            log::warning(&format!(
                "the name of this node's own address {address} is not known yet ({why}): it is waited for"
            ));
        }
        pause();
    }
    Err(format!("{address} was not looked for"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_name_that_comes_late_is_waited_for() {
        let (asked, paused) = (Cell::new(0), Cell::new(0));
        let address: SocketAddr = "10.0.0.7:9001".parse().expect("an address");
        let look = |name: &str| {
            assert_eq!(name, "n1.example:9001");
            asked.set(asked.get() + 1);
            match asked.get() {
                1 => Err(io::Error::other("failed to lookup address information")),
                2 => Ok(None),
                _ => Ok(Some(address)),
            }
        };
        let pause = || paused.set(paused.get() + 1);
        assert_eq!(find("n1.example:9001", 10, look, pause), Ok(address));
        assert_eq!((asked.get(), paused.get()), (3, 2));
    }

    #[test]
    fn one_that_never_comes_and_one_that_is_none_are_told() {
        let paused = Cell::new(0);
        let never = |_: &str| Err(io::Error::other("failed to lookup address information"));
        let said = find("n1.example:9001", 4, never, || paused.set(paused.get() + 1)).expect_err("there is none");
        assert!(said.contains("after a minute") && paused.get() == 3, "{said}");
        let said = resolve("no port").expect_err("it is none");
        assert!(said.contains("correct --cluster"), "{said}");
    }
}
