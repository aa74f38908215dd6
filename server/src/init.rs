//! `dictum init`: what a cluster needs before its first start, beside machines.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tls::ClusterSecret;

use crate::client_tls::{AUTHORITY_FILE, make_authority};
use crate::peer_tls::write_private;

/// The file that is made.
const SECRET_FILE: &str = "cluster.secret";
/// The folder with the authority, beside it.
pub(crate) const TLS_FOLDER: &str = "tls";

/// Arguments of `dictum init`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
    dictum init --dir /etc/dictum\n  \
    scp -r /etc/dictum/cluster.secret /etc/dictum/tls n2:/etc/dictum/     and to n3\n  \
    dictum start --node n1 --cluster n1=10.0.0.1:9001,n2=10.0.0.2:9001,n3=10.0.0.3:9001 \\\n      \
      --cluster-secret /etc/dictum/cluster.secret --tls-ca /etc/dictum/tls --dir /var/lib/dictum\n\n\
    Everybody who has the files can be a node: give them to machines by a way that nobody else can read, never as an argument.\n\
    Clients trust tls/ca.pem, which is no secret.\n\n\
    Exit code: 0 if it was made, 1 if not.")]
pub struct InitArguments {
    /// The folder for the secret and the authority; made if missing, for its owner alone
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
}

/// Makes the secret of a cluster.
#[must_use]
pub fn run(arguments: InitArguments) -> ExitCode {
    match make_both(&arguments.dir) {
        Ok(path) => {
            let (path, tls) = (path.display(), arguments.dir.join(TLS_FOLDER));
            let tls = tls.display();
            lab::say_line!(
                "made {path} and {tls}, which their owner alone can read: who has them can be a node of the cluster.\n\
                 Copy them to each machine by a way that nobody else can read, and start every node with\n  --cluster-secret {path} --tls-ca {tls}\n\
                 Clients trust {tls}/ca.pem, which is no secret: redis-cli --tls --cacert {tls}/ca.pem"
            );
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprintln!("dictum init: {text}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the secret and the authority, or that of the two that a cluster does not have yet. An error if it has both.
fn make_both(folder: &Path) -> Result<PathBuf, String> {
    let (secret, authority) = (folder.join(SECRET_FILE), folder.join(TLS_FOLDER));
    let is_there = |path: &Path| path.try_exists().map_err(|error| format!("{}: {error}", path.display()));
    let has_authority = is_there(&authority.join(AUTHORITY_FILE))?;
    if has_authority || !is_there(&secret)? {
        make(folder)?;
    }
    if !has_authority {
        make_authority(&authority)?;
    }
    Ok(secret)
}

/// Makes it in a folder.
pub(crate) fn make(folder: &Path) -> Result<PathBuf, String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    let path = folder.join(SECRET_FILE);
    let secret = ClusterSecret::generate()?;
    write_private(&path, secret.to_text().as_bytes()).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            format!("{} is there already, and was not touched: nodes may have it", path.display())
        }
        _ => format!("{} cannot be written: {error}", path.display()),
    })?;
    Ok(path)
}

/// The folder with the authority in a folder, which is made if there is none.
pub(crate) fn find_or_make_authority(folder: &Path) -> Result<PathBuf, String> {
    let path = folder.join(TLS_FOLDER);
    match path.join(AUTHORITY_FILE).try_exists() {
        Ok(true) => Ok(path),
        Ok(false) => make_authority(&path).map(|()| path),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// The one in a folder, which is made if there is none.
pub(crate) fn find_or_make(folder: &Path) -> Result<PathBuf, String> {
    let path = folder.join(SECRET_FILE);
    match path.try_exists() {
        Ok(true) => Ok(path),
        Ok(false) => make(folder),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}
