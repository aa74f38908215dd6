//! Keeps other users of the machine out of the data folder.
//!
//! A new folder is 0700 and its files are 0600. A folder that is there:
//! - If everybody may enter it, as into those that earlier versions made (0755), it becomes 0700.
//! - If only its group may (0750), its operator wanted that, for backups perhaps: it stays so, and new
//!   files are 0640.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::umask;

use crate::log;

const EVERYBODY: u32 = 0o007;
const GROUP: u32 = 0o070;
/// `/tmp` and its like belong to nobody alone.
const STICKY: u32 = 0o1000;

/// What this process creates from now on only its user can read.
pub fn begin() {
    umask(Mode::from_bits_truncate(EVERYBODY | GROUP));
}

/// Sees to it that only its user, or those that the folder's group was meant for, can read what is in a data folder from now on.
pub(crate) fn narrow(folder: &Path) {
    begin();
    let Ok(metadata) = fs::metadata(folder) else { return };
    let mode = metadata.permissions().mode();
    let shown = folder.display();
    if mode & STICKY != 0 {
        log::warning(&format!(
            "{shown} is open to all users of this machine: what is in it is not, but they can put files there. Choose another folder"
        ));
    } else if mode & EVERYBODY != 0 {
        match fs::set_permissions(folder, Permissions::from_mode(mode & 0o7700)) {
            Ok(()) => log::warning(&format!(
                "{shown} was open to all users of this machine: now only its owner can enter it. For a group that is to read it, chmod 750"
            )),
            Err(error) => log::warning(&format!(
                "{shown} is open to all users of this machine, and that cannot be changed ({error}): its owner should chmod 700"
            )),
        }
    } else if mode & GROUP != 0 {
        umask(Mode::from_bits_truncate(EVERYBODY | 0o020));
        log::info(&format!("{shown} is open to its group: new files in it are, too"));
    }
}
