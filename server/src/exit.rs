//! How the process of a node ends, and so whether it should be started again: by a person, by systemd (`packaging/dictum.service`), or by the process that has started a
//! worker. docs/operating.md, "Exit codes", has the table for operators.

/// Stopped as asked, or removed from the cluster.
pub(crate) const STOPPED: u8 = 0;
/// The node cannot be started now: an address is in use, the folder is locked, the network is not up, the cluster does not answer. Another start may go better.
pub(crate) const NOT_NOW: u8 = 1;
/// The settings are wrong: that of the argument parser, too.
pub(crate) const SETTINGS: u8 = 2;
/// The folder is damaged, or of another version (`EX_DATAERR` of sysexits.h).
pub(crate) const DAMAGED: u8 = 65;
/// The node has found out that it must not go on (`EX_SOFTWARE`): with this folder, in this cluster, or at this entry.
pub(crate) const MUST_NOT: u8 = 70;
/// The disk has failed at a write (`EX_IOERR`). What the page cache holds since then may not be on the disk, and a start would take it for written.
pub(crate) const DISK_FAILED: u8 = 74;
/// Asked twice to stop, so it has handed over nothing; as shells count SIGINT.
pub(crate) const AT_ONCE: u8 = 130;

/// After these nobody but a person can help: a node that is started again ends in the same way, or does harm.
#[cfg(test)]
const HOPELESS: [u8; 4] = [SETTINGS, DAMAGED, MUST_NOT, DISK_FAILED];

/// Why a node cannot be started or go on, and how its process ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) text: String,
}

impl Failure {
    /// A setting has to be corrected.
    pub(crate) fn settings(text: String) -> Failure {
        Failure { code: SETTINGS, text }
    }

    /// The folder cannot be used as it is.
    pub(crate) fn damaged(text: String) -> Failure {
        Failure { code: DAMAGED, text }
    }
}

impl From<String> for Failure {
    /// Of the kind that most are: another start may go better.
    fn from(text: String) -> Failure {
        Failure { code: NOT_NOW, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the unit file.
    fn unit() -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/dictum.service");
        std::fs::read_to_string(path).expect("the unit file")
    }

    fn setting(name: &str) -> String {
        let unit = unit();
        let mut values = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        let value = values.next().unwrap_or_else(|| panic!("no {name}")).to_owned();
        assert_eq!(values.next(), None, "{name} stands there once");
        value
    }

    #[test]
    fn the_unit_file_starts_a_node_again_where_that_helps() {
        assert_eq!(setting("Restart"), "on-failure");
        let listed: Vec<String> = HOPELESS.iter().map(u8::to_string).collect();
        assert_eq!(setting("RestartPreventExitStatus"), listed.join(" "));
        assert_eq!(setting("SuccessExitStatus"), AT_ONCE.to_string());
        for code in [STOPPED, NOT_NOW, AT_ONCE] {
            assert!(!HOPELESS.contains(&code));
        }
    }

    #[test]
    fn the_unit_file_leaves_time_for_what_takes_long() {
        let seconds = |name: &str| {
            let value = setting(name);
            let (number, unit) = value.split_at(value.find(|c: char| !c.is_ascii_digit()).expect("a unit"));
            let factor = match unit {
                "s" => 1,
                "min" => 60,
                other => panic!("{name}: {other}"),
            };
            std::time::Duration::from_secs(number.parse::<u64>().expect("a number") * factor)
        };
        // Peers bear with a step of the loop so long; the watchdog must be more patient than they are.
        assert!(seconds("WatchdogSec") >= base::limits::BUSY_MAX * 3);
        // A machine stops its workers, and kills those that do not stop.
        assert!(seconds("TimeoutStopSec") >= crate::children::STOP_TIMEOUT * 2);
        // To read a large folder takes as long as it takes.
        assert_eq!(setting("TimeoutStartSec"), "infinity");
    }

    #[test]
    fn the_table_for_operators_names_every_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operating.md");
        let text = std::fs::read_to_string(path).expect("the handbook");
        let (_, table) = text.split_once("## Exit codes").expect("the chapter");
        let table = table.split("\n## ").next().expect("a chapter");
        for (code, again) in [
            (STOPPED, "no"),
            (NOT_NOW, "yes"),
            (SETTINGS, "no"),
            (DAMAGED, "no"),
            (MUST_NOT, "no"),
            (DISK_FAILED, "no"),
            (AT_ONCE, "no"),
        ] {
            let begins = format!("| {code} |");
            let row = table.lines().find(|line| line.starts_with(&begins)).unwrap_or_else(|| panic!("no row {begins}"));
            assert!(row.contains(&format!("| {again}")), "{row}");
        }
    }
}
