//! The machine that a run is carried out on: asked and measured, so that figures can be judged by whoever reads them later.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::record::Environment;

/// How long syncs are measured.
const SYNC_MEASURE: Duration = Duration::from_millis(300);
/// Bytes of one write before a sync.
const SYNC_BYTES: usize = 4096;
/// Places in the file that are written in turn; they exist before, so that a sync has no blocks to allocate.
const SYNC_PLACES: u64 = 256;
/// Most syncs measured.
const SYNCS_MAX: usize = 100_000;
/// How long the processors are watched before a run.
const IDLE_MEASURE: Duration = Duration::from_millis(300);
/// Said where the system does not tell.
const UNKNOWN: &str = "unknown";

/// Asks and measures everything; takes about 0.6 s. `folder` is where the data will lie; `stolen` is 0 until a run was watched with
/// [`ProcessorTimes`]. `versions` are added by those who know the programs ([`program_version`]).
///
/// # Errors
/// When `folder` cannot be written.
pub fn examine(folder: &Path, versions: BTreeMap<String, String>) -> Result<Environment, String> {
    let before = ProcessorTimes::read();
    thread::sleep(IDLE_MEASURE);
    let (idle, _) = ProcessorTimes::read().shares_since(&before);
    let syncs = sync_times(folder)?;
    Ok(Environment {
        cpu: cpu(),
        cores: thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
        memory_bytes: memory_bytes(),
        kernel: kernel(),
        disk: disk(folder),
        fsync_p50: nanoseconds(syncs.p50),
        fsync_p99: nanoseconds(syncs.p99),
        idle,
        stolen: 0.0,
        versions,
    })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The processor's name as its maker has it.
#[must_use]
pub fn cpu() -> String {
    let text = read("/proc/cpuinfo");
    // x86 says it in words, Arm by numbers alone.
    let named = ["model name", "Model", "CPU part"].iter().find_map(|wanted| {
        text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == *wanted)
    });
    named.map_or_else(|| format!("{UNKNOWN} ({})", std::env::consts::ARCH), |(_, name)| name.trim().to_owned())
}

/// Bytes of memory that the kernel may use; 0 if it does not tell.
#[must_use]
pub fn memory_bytes() -> u64 {
    let text = read("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The kernel's name and version.
#[must_use]
pub fn kernel() -> String {
    let (name, release) = (read("/proc/sys/kernel/ostype"), read("/proc/sys/kernel/osrelease"));
    if name.is_empty() { std::env::consts::OS.to_owned() } else { format!("{} {}", name.trim(), release.trim()) }
}

/// The file system that a path lies on, and its device: `ext4 on /dev/vda1`.
#[must_use]
pub fn disk(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    mount_of(&read("/proc/self/mountinfo"), &path).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Whether what is written there is in memory alone, so that a sync costs nothing: figures from there are not those of a disk.
#[must_use]
pub fn is_in_memory(path: &Path) -> bool {
    let disk = disk(path);
    ["tmpfs ", "ramfs "].iter().any(|kind| disk.starts_with(kind))
}

/// The last and longest mount that holds the path: later ones lie over earlier ones (proc(5), mountinfo).
fn mount_of(mounts: &str, path: &Path) -> Option<String> {
    let mut best: Option<(usize, String)> = None;
    for line in mounts.lines() {
        let (place, source) = line.split_once(" - ")?;
        let point = PathBuf::from(unescape(place.split(' ').nth(4)?));
        let mut source = source.split(' ');
        let (kind, device) = (source.next()?, source.next()?);
        let depth = point.components().count();
        if path.starts_with(&point) && best.as_ref().is_none_or(|(most, _)| depth >= *most) {
            best = Some((depth, format!("{kind} on {}", unescape(device))));
        }
    }
    best.map(|(_, text)| text)
}

/// Spaces and their like are written as three octal digits.
fn unescape(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (code, sign)| text.replace(code, sign))
}

/// How long a write of 4 KiB and `fdatasync` take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncTimes {
    /// Half take at most so long.
    pub p50: Duration,
    /// 99 of 100.
    pub p99: Duration,
    /// How many were measured.
    pub count: usize,
}

/// Writes 4 KiB in place and syncs, again and again for about 300 ms, in a file of 1 MiB in `folder` that is removed then.
///
/// # Errors
/// When the folder cannot be written.
pub fn sync_times(folder: &Path) -> Result<SyncTimes, String> {
    let path = folder.join(format!(".dictum-lab-sync-{}", std::process::id()));
    let times = measure_syncs(&path);
    let _ = fs::remove_file(&path);
    let mut times = times.map_err(|error| format!("syncs cannot be measured in {}: {error}", folder.display()))?;
    times.sort_unstable();
    // The smallest that at least so many are at most (nearest rank).
    let rank = |share: f64| times[((times.len() as f64 * share).ceil() as usize).clamp(1, times.len()) - 1];
    Ok(SyncTimes { p50: rank(0.5), p99: rank(0.99), count: times.len() })
}

/// At least one time.
fn measure_syncs(path: &Path) -> std::io::Result<Vec<Duration>> {
    let file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
    let block = [0xA5; SYNC_BYTES];
    for place in 0..SYNC_PLACES {
        file.write_all_at(&block, place * SYNC_BYTES as u64)?;
    }
    file.sync_all()?;
    let (begin, mut times) = (Instant::now(), Vec::new());
    loop {
        let place = times.len() as u64 % SYNC_PLACES;
        let before = Instant::now();
        file.write_all_at(&block, place * SYNC_BYTES as u64)?;
        file.sync_data()?;
        times.push(before.elapsed());
        if begin.elapsed() >= SYNC_MEASURE || times.len() >= SYNCS_MAX {
            return Ok(times);
        }
    }
}

/// The kernel's count of processor time since the machine began, in ticks of all processors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTimes {
    all: u64,
    idle: u64,
    stolen: u64,
}

impl ProcessorTimes {
    /// Now. All zero if the kernel does not tell.
    #[must_use]
    pub fn read() -> ProcessorTimes {
        ProcessorTimes::parse(&read("/proc/stat")).unwrap_or_default()
    }

    /// user nice system idle iowait irq softirq steal (proc(5)); guest time, which follows, is in user already.
    fn parse(stat: &str) -> Option<ProcessorTimes> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?;
        let fields: Vec<u64> = fields.split_whitespace().take(8).map(|field| field.parse().unwrap_or(0)).collect();
        let &[_, _, _, idle, waiting, _, _, stolen] = fields.as_slice() else { return None };
        Some(ProcessorTimes { all: fields.iter().sum(), idle: idle + waiting, stolen })
    }

    /// Shares of all processors since `before` that were idle, and that the hypervisor kept from this machine, each 0 to 1. Too short
    /// a time for a single tick counts as idle.
    #[must_use]
    pub fn shares_since(&self, before: &ProcessorTimes) -> (f64, f64) {
        let all = self.all.saturating_sub(before.all);
        if all == 0 {
            return (1.0, 0.0);
        }
        let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / all as f64;
        (share(self.idle, before.idle).min(1.0), share(self.stolen, before.stolen).min(1.0))
    }
}

/// The last word of the first line that a program says when it is asked for `--version`, as `dictum` and etcd have it; for Redis, what
/// stands behind `v=`.
///
/// # Errors
/// When it cannot be started.
pub fn program_version(program: &Path) -> Result<String, String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default();
    let redis = line.split_whitespace().find_map(|word| word.strip_prefix("v="));
    let version = redis.or_else(|| line.split_whitespace().last());
    version.map(str::to_owned).ok_or_else(|| format!("{} --version says nothing", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a temporary folder");
        let versions = BTreeMap::from([("dictum".to_owned(), "0.1.0".to_owned())]);
        let found = examine(folder.path(), versions).expect("it can be written");
        assert!(found.cores >= 1 && !found.cpu.is_empty() && !found.kernel.is_empty());
        assert!(found.memory_bytes > 1 << 26, "{found:?}");
        assert!(
            found.disk.contains(" on ") && (!Path::new("/dev/shm").is_dir() || is_in_memory(Path::new("/dev/shm"))),
            "{found:?}"
        );
        assert!(found.fsync_p50 > 0 && found.fsync_p50 <= found.fsync_p99);
        assert!((0.0..=1.0).contains(&found.idle) && found.versions.len() == 1);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left behind");
        assert!(sync_times(Path::new("/nowhere")).expect_err("there is no such folder").contains("/nowhere"));
    }

    #[test]
    fn the_mount_that_lies_on_top_is_found() {
        let mounts = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
                      30 22 0:27 / /tmp rw - tmpfs tmpfs rw\n\
                      31 22 254:2 / /my\\040data rw - xfs /dev/vdb rw\n\
                      32 22 254:3 / /tmp rw - btrfs /dev/vdc rw\n";
        let found = |path: &str| mount_of(mounts, Path::new(path));
        assert_eq!(found("/home/x").as_deref(), Some("ext4 on /dev/vda1"));
        assert_eq!(found("/tmpfile").as_deref(), Some("ext4 on /dev/vda1"));
        assert_eq!(found("/tmp/x").as_deref(), Some("btrfs on /dev/vdc"));
        assert_eq!(found("/my data/x").as_deref(), Some("xfs on /dev/vdb"));
    }

    #[test]
    fn shares_are_differences() {
        let before = ProcessorTimes::parse("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1").expect("the kernel's shape");
        let now = ProcessorTimes::parse("cpu  150 0 150 840 110 0 0 50 50 0\n").expect("the kernel's shape");
        assert_eq!(now.shares_since(&before), (0.5, 50.0 / 300.0));
        assert_eq!(now.shares_since(&now), (1.0, 0.0));
        assert_eq!(ProcessorTimes::parse("intr 1 2 3"), None);
    }
}
