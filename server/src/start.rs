//! `dictum start`: one node, from its settings to its end.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::limits::TRAIL_TOLD_EVERY;
use base::ordered::OrderedWrite;
use base::versions::Versions;
use node::{Applying, Argon2Cost, Below, Config, Member, Node, Outbox, Recovered, SnapshotSettings};
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketType, sockopt};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use storage::{CachedStore, Files, FolderError, Journal, JournalOptions, LsmOptions, LsmStore};
use tls::ClusterSecret;

use crate::admission::Admission;
use crate::audit::{Audit, Entry, Limits};
use crate::bridge::bridge;
use crate::client_tls::ClientSecurity;
use crate::clock::Clock;
use crate::errands::{self, Errands};
use crate::event_loop::{self, Control, Ending, Frame, Messenger, Parts};
use crate::exit::{self, Failure};
use crate::full_sync::{self, FullSyncs};
use crate::http::{self, HttpOptions, Visitors};
use crate::options::{Options, StartArguments, StateIn, sample};
use crate::parent;
use crate::passwords::PasswordThread;
use crate::peer_tls::{self, PeerSecurity};
use crate::reset_password;
use crate::secrets::{self, Password, SharedLogins};
use crate::standing::{self, Known, Standing};
use crate::systemd::Notifier;
use crate::{
    advice, applying, background, descriptors, fault, folder_watch, journal, log, low_disk, memory, naming, private,
    snapshots, workers,
};

/// The store's folder in that of the node.
const STORE_NAME: &str = "store";
/// Between two looks whether the store is at rest.
const TIDY_PAUSE: Duration = Duration::from_secs(1);
/// What all clients together may hold of the memory, unless `maxmemory-clients` says otherwise: a quarter leaves the most to the state, and is more than clients
/// that read their answers ever hold.
const CLIENTS_PERCENT: u64 = 25;
/// Connections that may wait to be accepted, unless the system says less.
const BACKLOG: i32 = 1024;

/// Runs a node until it is stopped.
#[must_use]
pub fn run(arguments: StartArguments) -> ExitCode {
    if arguments.print_config {
        return sample::run();
    }
    // First of all: from here on the node ends with the process that wants it to.
    if let Err(reason) = parent::bind_to_parent() {
        eprintln!("dictum: {reason}");
        return ExitCode::from(exit::NOT_NOW);
    }
    let notifier = Notifier::of_process(arguments.worker);
    let options = match Options::read(arguments) {
        Ok(options) => options,
        Err(reason) => {
            notifier.status(&reason);
            eprintln!("dictum: {reason}");
            return ExitCode::from(exit::SETTINGS);
        }
    };
    log::begin(options.log_level, options.log_format, &options.name, options.worker.is_some());
    if options.worker.is_none() && options.workers > 1 {
        return workers::run(&options, &notifier);
    }
    let notifier = Arc::new(notifier);
    match serve(&options, &notifier) {
        Ok(Ending::Stopped) => {
            log::info("stopped");
            ExitCode::from(exit::STOPPED)
        }
        Ok(Ending::StoppedLate) => {
            log::warning("stopped without having handed over in time; nothing acknowledged is lost");
            ExitCode::from(exit::STOPPED)
        }
        Ok(Ending::Removed) => {
            log::info(
                "stopped: this node was removed from the cluster, and is not to be started again with this folder",
            );
            ExitCode::from(exit::STOPPED)
        }
        Ok(Ending::Fatal(reason)) => {
            notifier.status(&reason);
            log::error(&format!("{reason}. This node stops; what the others hold is not affected"));
            ExitCode::from(exit::MUST_NOT)
        }
        Err(Failure { code, text }) => {
            notifier.status(&text);
            log::error(&text);
            ExitCode::from(code)
        }
    }
}

/// Where other machines reach a node's address for nodes, a new one begins with the cluster's secret, or with its operator's word. One that has run before goes on as it did, with a warning: otherwise
/// an upgrade would end there. Further workers of a machine do what the first one may.
fn refuse_in_the_open(options: &Options, disk: &Files, is_secured: bool) -> Result<(), Failure> {
    let is_further = options.worker.is_some_and(|worker| worker > 1);
    if is_secured || options.insecure || is_further || !standing::is_new(disk) {
        return Ok(());
    }
    let Some(text) = standing::address_to_be(options) else { return Ok(()) };
    let address = naming::resolve(&text)?;
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(Failure::settings(format!(
        "this node is new, and would listen for other nodes at {address} without a secret: everybody who reaches that address could read and write everything. It was not started. Make a \
         secret once:\n  dictum init --dir /etc/dictum\nand start each node, on every machine, with the same one:\n  dictum start --cluster-secret /etc/dictum/cluster.secret …\nOr, in a network \
         where you trust everybody, say --insecure."
    )))
}

fn serve(options: &Options, notifier: &Arc<Notifier>) -> Result<Ending, Failure> {
    let clock = Clock::new();
    let shares = descriptors::share_out(options.clients_max, http::CONNECTIONS_MAX).map_err(Failure::settings)?;
    // A turn touches a little of much memory. With huge pages the kernel clears two megabytes where a few kilobytes are
    // wanted: a fifth of the CPU time of pipelined writes (measured), for nothing that reads gain. Refused: as before.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let resp =
        if options.worker.is_some() { listen_beside("--resp", options.resp) } else { listen("--resp", options.resp) }?;
    let http = listen("--http", options.http)?;
    let cluster = options.cluster_address.map(|address| listen("--cluster-address", address)).transpose()?;
    let (resp_address, http_address) = (address_of(&resp, options.resp), address_of(&http, options.http));

    low_disk::make_room_to_start(&options.dir, options.disk_low_mark);
    let disk = Files::open(&options.dir).map_err(cannot_open)?.with_direct_writes(options.direct_writes);
    private::narrow(&options.dir);
    let in_folder = |what: &str, error: &io::Error| format!("{what} in {}: {error}", options.dir.display());
    if let Some(asked) = &options.join {
        notifier.status(&format!("asks {asked} to be let into the cluster, if it has not joined yet"));
    }
    let security = PeerSecurity::of(options).map_err(Failure::settings)?;
    refuse_in_the_open(options, &disk, security.is_some())?;
    let Known { mut standing, identity: mut known, is_admitted } = Standing::find(options, &disk, security.as_ref())?;
    let announce = standing.move_to(options);
    let peer_address = options.peer.clone().unwrap_or_else(|| standing.own().peer_address.clone());
    let peer = listen("the address in --cluster (or --peer)", naming::resolve(&peer_address)?)?;
    if security.is_none() && peer.local_addr().is_ok_and(|address| !address.ip().is_loopback()) {
        log::warning(
            "NO SECRET: links to other nodes are in plain text, and everybody who reaches this node's address for peers reads and writes everything. \
             Make a secret (dictum init), and give it to all nodes (--cluster-secret FILE; while they run, one after the other with --peer-tls prefer)",
        );
    }
    let cluster_address = cluster.as_ref().map_or(String::new(), |it| announced(it, options, standing.own()));
    let reads = format!("reads the journal and opens the store in {}", options.dir.display());
    notifier.status(&reads);
    log::info(&reads);
    let (opened_journal, opened_store) = thread::scope(|scope| {
        // Each takes a second or two of reading and of reckoning, and neither needs the other.
        let open = || (options.state == StateIn::Store).then(|| open_store(options, shares.store)).transpose();
        let store = thread::Builder::new().name("opens-store".to_owned()).spawn_scoped(scope, open);
        let journal = Journal::open(disk.clone(), JournalOptions::default());
        (journal, store.map(|store| store.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
    });
    let thread_failed = |error: io::Error| format!("a thread cannot be started: {error}; raise the process limit");
    let (opened, mut recovered_journal) =
        opened_journal.map_err(|error| of_folder(&error, in_folder("the journal cannot be opened", &error)))?;
    let store = opened_store.map_err(thread_failed)??;
    // An identity is stored after the journal was made, and the first thing that a node writes to its journal is that it has started.
    let lost = known.is_some() && !is_admitted && recovered_journal.holds_nothing();
    if lost {
        log::warning("the journal is gone though the folder was in use: what it held must come from the other nodes");
        // As for a folder that was emptied: the others know the incarnation that has lost its memory, and tell the new one.
        known = None;
    }
    let incarnation = match &known {
        Some(identity) => identity.incarnation,
        // Chance, so that no two folders share one.
        None => chance().max(1),
    };
    if known.is_none() || is_admitted {
        let stored = standing.identity(incarnation).store(&disk);
        stored.map_err(|error| in_folder("the identity cannot be written", &error))?;
    }
    let key = peer_tls::load_key(&options.dir).map_err(Failure::settings)?;
    log::info(&format!("this node signs its audit trail with the key {}", key.hash().whole()));
    let audit = Audit::start(&options.dir, &options.name, key, Limits::default())
        .map_err(|error| of_folder(&error, in_folder("the audit trail cannot be opened", &error)))?;
    let (snapshots, snapshot_damaged) =
        snapshots::load(&disk).map_err(|error| of_folder(&error, in_folder("a snapshot cannot be read", &error)))?;
    log::info(&format!(
        "recovered from {}: {} journal payloads, {}",
        options.dir.display(),
        recovered_journal.payloads.len(),
        snapshots
            .iter()
            .map(|found| found.position.0)
            .max()
            .map_or("no snapshot".to_owned(), |at| format!("a snapshot at {at}")),
    ));

    let persisted = recovered_journal.next_number.saturating_sub(1);
    let has_state =
        !snapshots.is_empty() || snapshot_damaged || store.as_ref().is_some_and(|it| !it.spaces().is_empty());
    if lost && has_state {
        // Certainly not a new node: it must not vote before it has recovered, whoever else has lost what.
        recovered_journal.tail = storage::Tail::Unprovable;
    }
    let below = store.as_ref().map(|store| {
        let next_space = store.spaces().last().map_or(1, |space| space.0 + 1);
        let known_bytes_max = memory::Plan::known(options.cache.quota_bytes);
        Below::new(Arc::new(store.clone()), next_space).with_known_bytes_max(known_bytes_max)
    });
    let recovered = Recovered { incarnation, journal: recovered_journal, snapshots, snapshot_damaged, store: below };
    let seed = chance();
    // The node applies what its journal has before there is anything else.
    let applied = Arc::new(Applying::default());
    applying::watch(&applied).map_err(thread_failed)?;
    // Several nodes of one machine share it.
    let memory_bytes = options.memory_bytes;
    let config = Config {
        members: standing.founders.clone(),
        joined: standing.joined.clone(),
        me: standing.me,
        newest: options.speak_at_most,
        zone: options.zone.clone(),
        announce,
        key: security.as_ref().map(|security| security.tls.hash().0),
        signer: security.as_ref().map(|security| Arc::clone(&security.signer) as Arc<dyn node::Signer>),
        secret: u128::from(chance()) << 64 | u128::from(chance()),
        resp_address: resp_address.clone(),
        http_address: http_address.clone(),
        cluster_address: cluster_address.clone(),
        cluster_bucket: options.cluster_bucket.clone(),
        databases: options.databases,
        process: crate::process::figures,
        process_id: std::process::id(),
        value_bytes_max: options.value_bytes_max,
        clients_max: shares.clients,
        clients_room: shares.clients_room,
        clients_bytes_max: memory_bytes / 100 * CLIENTS_PERCENT,
        memory_bytes,
        io_threads: options.io_threads,
        trail_told_every: TRAIL_TOLD_EVERY,
        request_timeout: options.request_timeout,
        hashes_passwords: false,
        password_cost: Argon2Cost::default(),
        password: options.password.clone(),
        protected_mode: options.protected_mode,
        log_bytes_per_snapshot: options.log_bytes_per_snapshot,
        snapshots: flush_settings(memory::Plan::of(memory_bytes).snapshots(options.value_bytes_max), seed),
        large_writes: node::LargeWriteSettings::default(),
        turn_work_max: base::limits::TURN_WORK_MAX,
        subscriptions: node::SubscriptionSettings::default(),
        compared_every: options.compare_every,
        log_entries_kept: options.log_entries_kept,
        log_trim: node::LogTrimSettings::default(),
        log_bytes_held: options.log_bytes_held,
        hot_entries_per_second: base::limits::HOT_ENTRIES_PER_SECOND,
        cache_policy: options.cache.policy.name(),
        seed,
        step_over: options.step_over.clone(),
        applying: applied,
        planted: None,
    };
    let is_protected = Arc::new(AtomicBool::new(config.refuses_other_machines()));
    let visitors = Visitors {
        hosts: own_names(options, &standing),
        origins: options.http_origins.clone(),
        is_protected: Arc::clone(&is_protected),
    };
    warn_of_strangers(options);
    let mut outbox = Outbox::default();
    notifier.status(&format!("carries out what is in the journal in {}", options.dir.display()));
    let node = Node::start(config, recovered, clock.now(), &mut outbox)
        .map_err(|error| Failure::damaged(format!("{} cannot be used: {}", options.dir.display(), error.0)))?;

    if let Some(store) = &store {
        let retained = store.retain_spaces(&node.spaces());
        retained.map_err(|error| format!("the store in {} cannot be written: {error}", options.dir.display()))?;
        for (partition, space) in node.spaces_of_partitions() {
            store.assign(space, partition.bucket.0);
        }
        keep_tidy(store.clone()).map_err(|error| format!("a thread cannot be started: {error}"))?;
    }

    let frame = Frame::new().map_err(|error| format!("the event poll cannot be made: {error}"))?;
    let delay = fault::watch(options.fault_sync_delay, &options.dir).map_err(thread_failed)?;
    let journal = journal::start(opened, persisted, delay, frame.messenger.clone()).map_err(thread_failed)?;
    let messenger = frame.messenger.clone();
    let scarce_store = store.clone();
    low_disk::watch(options.dir.clone(), options.disk_low_mark, move |passed| {
        if let Some(store) = &scarce_store {
            store.store().set_scarce(passed.room.is_low());
        }
        messenger.tell(Control::DiskRoom(passed));
    })
    .map_err(|error| in_folder("how much room there is cannot be asked", &error))?;
    let messenger = frame.messenger.clone();
    let names: &[&str] = if store.is_some() { &[storage::LOCK_NAME, STORE_NAME] } else { &[storage::LOCK_NAME] };
    folder_watch::watch(&options.dir, names, move |what| messenger.tell(Control::FolderGone(what)))
        .map_err(|error| in_folder("the folder cannot be looked at", &error))?;
    let alarm = Arc::clone(&frame.alarm);
    let (bridge, requests) = bridge(Arc::clone(&frame.connections), Arc::new(move || alarm.ring()));
    let admission = Admission::new(bridge.clone());
    reset_password::carry_out(&options.dir, bridge.clone()).map_err(thread_failed)?;
    let messenger = frame.messenger.clone();
    let tell: errands::Tell = Arc::new(move |connection, slot, answer| {
        messenger.tell(Control::ErrandDone(connection, slot, answer));
    });
    let errands = Errands::start(bridge.clone(), tell).map_err(thread_failed)?;
    let messenger = frame.messenger.clone();
    let tell: full_sync::Tell = Arc::new(move |sync, error| messenger.tell(Control::FullSyncEnded(sync, error)));
    let full_syncs = FullSyncs::new(&resp, options, tell);
    let secret = security.as_ref().map(|security| security.secret.clone());
    let (clients_by, certificates) = secure_clients(options, &standing, secret, &audit)?.unzip();
    let passwords = PasswordThread::start().map_err(thread_failed)?;
    let password = Password::new(options.password.clone());
    let logins = SharedLogins::default();
    let http_options = HttpOptions {
        node: options.name.clone(),
        value_bytes_max: options.value_bytes_max,
        request_timeout: options.request_timeout,
        password: password.clone(),
        logins: logins.clone(),
        passwords: passwords.clone(),
        journal_syncs: journal.syncs(),
        dir: options.dir.clone(),
        visitors,
        connections_max: shares.http,
        clients_by: clients_by.clone(),
        audit: audit.clone(),
    };
    let serve_http = move || {
        if let Err(error) = http::serve(http, bridge, http_options) {
            log::error(&format!("HTTP is not served: {error}; RESP goes on. Restart the node to get it back"));
        }
    };
    thread::Builder::new().name("http".to_owned()).spawn(serve_http).map_err(thread_failed)?;
    let messenger = frame.messenger.clone();
    let password_file = options.password_file.clone();
    let signals_audit = audit.clone();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2])
        .map_err(|error| format!("no signal handler: {error}"))?;
    let watch = move || {
        let mut stops = false;
        for signal in signals.forever() {
            match (signal, &password_file) {
                (SIGINT | SIGTERM, _) if stops => {
                    log::warning("stopping at once");
                    std::process::exit(exit::AT_ONCE.into());
                }
                (SIGINT | SIGTERM, _) => {
                    stops = true;
                    messenger.tell(Control::Stop);
                }
                (SIGHUP, path) if path.is_some() || certificates.is_some() => {
                    if let Some(path) = path {
                        read_again(path, &password, &messenger, &signals_audit);
                    }
                    if let Some(certificates) = &certificates {
                        // The thread that reads them ends with the process.
                        let _ = certificates.send(());
                    }
                }
                _ => {
                    let text =
                        "a signal that means nothing here: settings are changed by CONFIG SET, or by another start";
                    log::info(text);
                }
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watch).map_err(thread_failed)?;

    let routes = if cluster_address.is_empty() { String::new() } else { format!(", Redis Cluster {cluster_address}") };
    log::info(&format!(
        "node {} of {} runs: RESP {resp_address}, HTTP {http_address}{routes}, peers {}",
        options.name,
        standing.founders.len() + standing.joined.len(),
        peer_address
    ));
    let parts = Parts {
        frame,
        clock,
        node,
        outbox,
        resp,
        cluster,
        peer,
        requests,
        http_address,
        journal,
        disk,
        store,
        cache: options.cache,
        clients_max: shares.clients,
        is_protected,
        logins,
        porters: options.io_threads.saturating_sub(1),
        commit_here: options.commit_here,
        name: options.name.clone(),
        announced: standing.own().peer_address.clone(),
        moved: options.moved.clone(),
        peer_keys: options.peer_keys.clone(),
        admission,
        security,
        clients_by,
        handshakes_max: shares.handshakes,
        errands,
        full_syncs,
        passwords,
        audit: audit.clone(),
        me: standing.me,
        fingerprint: standing.fingerprint(),
        speaks: Versions::up_to(options.speak_at_most),
        incarnation: started_at(),
        seed,
        notifier: Arc::clone(notifier),
    };
    let ending = event_loop::run(parts).map_err(|error| format!("the loop failed: {error}").into());
    audit.end(match &ending {
        Ok(Ending::Stopped) => "stopped",
        Ok(Ending::StoppedLate) => "stopped without having handed over in time",
        Ok(Ending::Removed) => "removed from the cluster",
        Ok(Ending::Fatal(_)) => "the node must not go on: see its log",
        Err(_) => "the loop failed: see the log",
    });
    ending
}

/// The store that the state is in.
fn open_store(options: &Options, open_files_max: usize) -> Result<CachedStore<LsmStore>, Failure> {
    let path = options.dir.join(STORE_NAME);
    let opened = LsmStore::open(&path, LsmOptions { open_files_max, ..memory::Plan::of(options.memory_bytes).store() })
        .map_err(|error| {
            let text =
                |advice| format!("the store in {} cannot be opened: {error}. What to do: {advice}", path.display());
            if error.full { text(advice::MAKE_ROOM).into() } else { Failure::damaged(text(advice::OTHER_STORE)) }
        })?;
    // fjall's, and the one that removes dropped spaces. What opens the store again runs in the background itself.
    background::lower_named("fjall:");
    background::lower_named("store-");
    let store = CachedStore::new(opened, chance());
    // What they bring in time spares the loop a wait, and what they do not bring it reads by itself: so they may not keep it from the processor.
    store
        .read_ahead(background::make_way)
        .map_err(|error| format!("a thread cannot be started: {error}; raise the process limit"))?;
    log::info("the store is open");
    Ok(store)
}

/// Lets the store give disk space back while it has nothing else to do.
fn keep_tidy(store: CachedStore<LsmStore>) -> io::Result<()> {
    let tidy = move || {
        loop {
            thread::sleep(TIDY_PAUSE);
            // Whoever applies the next batch meets the same failure, and deals with it.
            if let Err(error) = store.store().tidy() {
                log::debug(&format!("the store could not be tidied: {error}"));
            }
            memory::give_back();
        }
    };
    background::spawn("store-tidy", tidy).map(|_| ())
}

/// Each node has its own, up to a third less than usual: nodes that have all begun at once would flush at once for ever, and with their disks and
/// processors a majority would be slow at the same time.
fn flush_settings(settings: SnapshotSettings, chance: u64) -> SnapshotSettings {
    let percent = 70 + chance % 31;
    SnapshotSettings {
        flush_bytes: settings.flush_bytes * percent / 100,
        flush_after: settings.flush_after.mul_f64(percent as f64 / 100.0),
        ..settings
    }
}

pub(crate) fn listen(flag: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| cannot_listen(flag, address, &error))
}

/// As [`listen`], at an address where other processes do the same: the kernel gives each connection to one of them.
fn listen_beside(flag: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = || {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_reuseport(&socket, true)?;
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok::<_, rustix::io::Errno>(TcpListener::from(socket))
    };
    bound().map_err(|error| cannot_listen(flag, address, &error.into()))
}

fn cannot_listen(flag: &str, address: SocketAddr, error: &io::Error) -> Failure {
    match error.kind() {
        // It may be free in a moment.
        io::ErrorKind::AddrInUse => {
            format!("{address} is in use by another process; stop that process or choose another address by {flag}")
                .into()
        }
        // While a machine starts, this may be too early.
        io::ErrorKind::AddrNotAvailable => {
            format!("{address} is not an address of this machine; choose another one by {flag}").into()
        }
        io::ErrorKind::PermissionDenied => {
            Failure::settings(format!("{address} may not be used by this user; choose a port above 1023 by {flag}"))
        }
        _ => format!("cannot listen at {address} ({flag}): {error}").into(),
    }
}

/// Why the folder was refused as a whole.
fn cannot_open(error: FolderError) -> Failure {
    let text = error.to_string();
    match error {
        FolderError::Foreign { .. } => Failure::settings(text),
        FolderError::Io { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => Failure::settings(text),
        FolderError::InUse { .. } | FolderError::Io { .. } => text.into(),
    }
}

/// Why a part of the folder was refused: its bytes, or the system.
fn of_folder(error: &io::Error, text: String) -> Failure {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::Unsupported => Failure::damaged(text),
        _ => text.into(),
    }
}

/// What a listener really has: with port 0 the system chooses one.
fn address_of(listener: &TcpListener, asked: SocketAddr) -> String {
    listener.local_addr().unwrap_or(asked).to_string()
}

/// Where clients that route by themselves are told to go. One that listens at every address of its machine has the host at which its peers reach it.
fn announced(listener: &TcpListener, options: &Options, own: &Member) -> String {
    if let Some(announced) = &options.cluster_announce {
        return announced.clone();
    }
    let Ok(address) = listener.local_addr() else { return String::new() };
    match own.peer_address.rsplit_once(':') {
        Some((host, _)) if address.ip().is_unspecified() => format!("{host}:{}", address.port()),
        _ => address.to_string(),
    }
}

/// The names of this node, for requests over HTTP: a page of a foreign name must not pass for one of its own.
fn own_names(options: &Options, standing: &Standing) -> Vec<String> {
    let peer = Some(standing.own().peer_address.as_str());
    let addresses = [peer, options.peer_announce.as_deref(), options.cluster_announce.as_deref()];
    let hosts = addresses.into_iter().flatten().filter_map(|address| address.rsplit_once(':'));
    let machine = rustix::system::uname().nodename().to_str().unwrap_or_default().to_owned();
    let own = hosts.map(|(host, _)| host.to_owned()).chain([options.name.clone(), machine]);
    own.chain(options.http_hosts.iter().cloned()).filter(|name| !name.is_empty()).collect()
}

/// What clients are spoken to with under TLS, if they may speak it; and who reads the certificate again.
fn secure_clients(
    options: &Options,
    standing: &Standing,
    secret: Option<ClusterSecret>,
    audit: &Audit,
) -> Result<Option<(ClientSecurity, mpsc::Sender<()>)>, Failure> {
    let Some(source) = options.certificate.clone() else { return Ok(None) };
    let addresses = [Some(options.resp), Some(options.http), options.cluster_address].into_iter().flatten();
    let addresses = addresses.map(|address| address.ip()).filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string());
    let mut names: Vec<String> = own_names(options, standing).into_iter().chain(addresses).collect();
    names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    // Hosts of IPv6 stand in brackets before a port.
    let bare = |name: String| name.trim_start_matches('[').trim_end_matches(']').to_owned();
    names = names.into_iter().map(bare).collect();
    names.sort_unstable();
    names.dedup();
    // Names of nodes and machines may be none of hosts.
    names.retain(|name| {
        let fits = tls::is_host(name);
        if !fits {
            log::debug(&format!("the certificate for clients is not for {name}, which is no host's name"));
        }
        fits
    });
    let authorities = options.client_authorities.as_deref();
    ClientSecurity::start(source, authorities, secret, options.plain_text, names, audit.clone())
        .map(Some)
        .map_err(Failure::settings)
}

/// Reads the file with the password once more. One that is not right changes nothing.
fn read_again(path: &Path, password: &Password, messenger: &Messenger, audit: &Audit) {
    match secrets::read_again(path) {
        Err(reason) => log::error(&format!("{reason}; the password stays as it was")),
        Ok(text) if password.get().as_deref() == Some(&text) => {
            log::info("the password file was read again: the password is the same");
        }
        Ok(text) => {
            // An operator who has read that it is another one may use it at once.
            password.set(&text);
            messenger.tell(Control::Password(text));
            audit.tell(Entry::new("password-changed", vec![("file", path.display().to_string().into())]));
            log::info(
                "the password was read again and is another one; connections that have shown the former one stay",
            );
        }
    }
}

/// Says loudly what becomes of clients of other machines if no password is set.
fn warn_of_strangers(options: &Options) {
    let listeners = [
        ("--resp", Some(options.resp)),
        ("--http", Some(options.http)),
        ("--cluster-address", options.cluster_address),
    ];
    let open = listeners.into_iter().filter_map(|(flag, address)| Some((flag, address?)));
    let open: Vec<String> = open
        .filter(|(_, address)| !address.ip().to_canonical().is_loopback())
        .map(|(flag, address)| format!("{flag} {address}"))
        .collect();
    if open.is_empty() || options.password.is_some() {
        return;
    }
    let open = open.join(", ");
    log::warning(&if options.protected_mode {
        format!(
            "PROTECTED MODE: this node listens beyond its own machine ({open}) and has no password, so clients of other machines are refused. Give all \
             nodes a --password-file FILE, or, in a network that you trust, --protected-mode no"
        )
    } else {
        format!(
            "NO PASSWORD: everybody who reaches this node ({open}) reads and writes everything in the cluster, and can shut it down. Give all nodes a \
             --password-file FILE unless every machine in that network is trusted"
        )
    });
}

/// 64 bits that nobody can foretell: the standard library takes the keys of its hash maps from the system.
pub(crate) fn chance() -> u64 {
    RandomState::new().hash_one(started_at())
}

/// Nanoseconds since the Unix epoch.
fn started_at() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}
