//! What a system under test uses: processor time, changes of thread, bytes to the disk, syncs, messages. Figures per operation scale without
//! more processors, where a machine is too small for throughput to.
//!
//! From the kernel (proc(5)): `stat` (utime + stime, of all threads, also those that have ended), `task/*/status` (switches), `io`
//! (`write_bytes`: what was sent to the disk). From the system itself: its Prometheus figures.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// All nodes of a system at one moment.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// When; none if nothing was looked at.
    pub at: Option<Instant>,
    /// By number; none for a node that does not run, or not on this machine.
    pub nodes: Vec<Option<NodeCounters>>,
}

/// One node since its process began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Its process. Another one counts from nothing.
    pub process_id: u32,
    /// Processor time of all its threads, in microseconds.
    pub cpu_us: u64,
    /// How often a thread gave the processor up to wait; of those threads that live.
    pub voluntary_switches: u64,
    /// How often a thread had to give the processor up; of those threads that live.
    pub involuntary_switches: u64,
    /// Bytes sent to the disk; also zeros for files that are to be filled later, which is most of it in the first minute of a cluster.
    pub bytes_written: u64,
    /// Bytes of memory it holds now.
    pub resident_bytes: u64,
    /// Syncs of its log, if it tells.
    pub fsyncs: Option<u64>,
    /// Messages between nodes that it has received, if it tells.
    pub messages: Option<u64>,
    /// Bytes of them, if it tells.
    pub message_bytes: Option<u64>,
}

/// What a system calls its figures at `/metrics`; an empty name for those that it does not tell.
#[derive(Clone, Copy, Debug)]
pub struct MetricNames {
    /// Syncs of the log.
    pub fsyncs: &'static str,
    /// Messages received from other nodes.
    pub messages: &'static str,
    /// Bytes received from other nodes.
    pub message_bytes: &'static str,
}

impl NodeCounters {
    /// What the kernel tells of a process.
    ///
    /// # Errors
    /// When there is no such process, or it is another user's.
    pub fn of_process(process_id: u32) -> Result<NodeCounters, String> {
        let folder = format!("/proc/{process_id}");
        let read = |name: &str| {
            let path = Path::new(&folder).join(name);
            fs::read_to_string(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
        };
        let ticks = processor_ticks(&read("stat")?).ok_or_else(|| format!("{folder}/stat cannot be understood"))?;
        let mut counters = NodeCounters {
            process_id,
            cpu_us: ticks * (1_000_000 / rustix::param::clock_ticks_per_second()),
            bytes_written: field(&read("io")?, "write_bytes:").unwrap_or(0),
            resident_bytes: field(&read("status")?, "VmRSS:").unwrap_or(0) * 1024,
            ..NodeCounters::default()
        };
        for task in fs::read_dir(format!("{folder}/task")).into_iter().flatten().flatten() {
            // A thread may end in the meantime.
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            counters.voluntary_switches += field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
            counters.involuntary_switches += field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        }
        Ok(counters)
    }

    /// Adds what the node tells of itself in Prometheus's text format.
    pub fn add_metrics(&mut self, text: &str, names: MetricNames) {
        self.fsyncs = metric(text, names.fsyncs);
        self.messages = metric(text, names.messages);
        self.message_bytes = metric(text, names.message_bytes);
    }
}

impl Counters {
    /// What the kernel says of these processes now; nothing of those that do not run.
    #[must_use]
    pub fn of_processes(ids: Vec<Option<u32>>) -> Counters {
        let nodes = ids.into_iter().map(|id| NodeCounters::of_process(id?).ok()).collect();
        Counters { at: Some(Instant::now()), nodes }
    }

    /// What one operation has cost since `before`, all nodes together, by name: `cpu_us_per_operation` and so on, and
    /// `cpu_share`: processors in use on average. Figures that not every running node tells are left out, as is everything if nothing was
    /// done. What a node used before it was killed in between is lost.
    #[must_use]
    pub fn per_operation(&self, before: &Counters, operations: u64) -> BTreeMap<String, f64> {
        let mut figures = BTreeMap::new();
        let pairs: Vec<(&NodeCounters, NodeCounters)> = (self.nodes.iter().enumerate())
            .filter_map(|(node, now)| {
                let now = now.as_ref()?;
                let earlier = before.nodes.get(node).and_then(Option::as_ref);
                let earlier = earlier.filter(|earlier| earlier.process_id == now.process_id).cloned();
                Some((now, earlier.unwrap_or_default()))
            })
            .collect();
        let (Some(at), Some(since)) = (self.at, before.at) else { return figures };
        if pairs.is_empty() || operations == 0 {
            return figures;
        }
        let mut put = |name: &str, figure: &dyn Fn(&NodeCounters) -> Option<u64>| {
            let grown = |(now, earlier): &(&NodeCounters, NodeCounters)| {
                Some(figure(now)?.saturating_sub(figure(earlier).unwrap_or(0)))
            };
            let sum: Option<u64> = pairs.iter().map(grown).sum();
            if let Some(sum) = sum {
                figures.insert(format!("{name}_per_operation"), sum as f64 / operations as f64);
            }
            sum
        };
        let cpu_us = put("cpu_us", &|node| Some(node.cpu_us));
        put("voluntary_switches", &|node| Some(node.voluntary_switches));
        put("involuntary_switches", &|node| Some(node.involuntary_switches));
        put("bytes_written", &|node| Some(node.bytes_written));
        put("fsyncs", &|node| node.fsyncs);
        put("messages", &|node| node.messages);
        put("message_bytes", &|node| node.message_bytes);
        let seconds = at.saturating_duration_since(since).as_secs_f64();
        if let Some(cpu_us) = cpu_us.filter(|_| seconds > 0.0) {
            figures.insert("cpu_share".to_owned(), cpu_us as f64 / 1e6 / seconds);
        }
        figures.insert("resident_bytes".to_owned(), pairs.iter().map(|(now, _)| now.resident_bytes as f64).sum());
        figures
    }
}

/// utime + stime: the 14th and 15th field of `stat`; the second, a name in parentheses, may hold anything.
fn processor_ticks(stat: &str) -> Option<u64> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_whitespace().skip(11).map(str::parse::<u64>);
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The sum of a metric's samples, whatever their labels; `None` if there is none.
fn metric(text: &str, name: &str) -> Option<u64> {
    let samples = text.lines().filter(|_| !name.is_empty()).filter_map(|line| {
        let behind = line.strip_prefix(name)?;
        let value = match behind.strip_prefix('{') {
            Some(labels) => labels.rsplit_once('}')?.1,
            None => behind.strip_prefix(' ')?,
        };
        value.split_whitespace().next()?.parse::<f64>().ok()
    });
    samples.fold(None, |sum, value| Some(sum.unwrap_or(0) + value as u64))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_kernels_figures_are_of_this_process() {
        let id = std::process::id();
        let before = NodeCounters::of_process(id).expect("it is this one");
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a temporary folder");
        fs::write(folder.path().join("file"), vec![1; 1 << 20]).expect("a file");
        fs::File::open(folder.path().join("file")).and_then(|file| file.sync_all()).expect("it is synced");
        let begin = Instant::now();
        let now = loop {
            let now = NodeCounters::of_process(id).expect("it is this one");
            if now.cpu_us >= before.cpu_us + 50_000 {
                break now;
            }
            assert!(begin.elapsed() < Duration::from_secs(60));
        };
        assert!(now.bytes_written >= before.bytes_written + (1 << 20), "{before:?} {now:?}");
        assert!(now.resident_bytes > 1 << 20 && now.involuntary_switches + now.voluntary_switches > 0);
        assert!(NodeCounters::of_process(u32::MAX).is_err());
    }

    #[test]
    fn fields_and_metrics_are_found() {
        assert_eq!(processor_ticks("7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13"), Some(23));
        assert_eq!(field("a: 1\nVmRSS:\t  20 kB\n", "VmRSS:"), Some(20));
        let text = "# HELP m_total x\nm_total{to=\"a}b\"} 3\nm_total{to=\"c\"} 4.0\nm_total_more 9\nn 5\n";
        assert_eq!(
            (metric(text, "m_total"), metric(text, "n"), metric(text, "o"), metric(text, "")),
            (Some(7), Some(5), None, None)
        );
    }

    #[test]
    fn costs_are_differences_over_operations() {
        let at = Instant::now();
        let node =
            |process_id, cpu_us, fsyncs| Some(NodeCounters { process_id, cpu_us, fsyncs, ..NodeCounters::default() });
        let before = Counters {
            at: Some(at),
            nodes: vec![node(1, 1_000_000, Some(100)), node(2, 50, Some(7)), node(3, 9, None)],
        };
        // The second was started again, the third is gone.
        let now = Counters {
            at: Some(at + Duration::from_secs(2)),
            nodes: vec![node(1, 3_000_000, Some(600)), node(4, 1_000_000, Some(100)), None],
        };
        let costs = now.per_operation(&before, 1000);
        assert_eq!((costs["cpu_us_per_operation"], costs["cpu_share"]), (3000.0, 1.5));
        assert_eq!(costs["fsyncs_per_operation"], 0.6);
        assert!(!costs.contains_key("messages_per_operation"), "nobody tells");
        assert!(now.per_operation(&before, 0).is_empty() && Counters::default().per_operation(&before, 5).is_empty());
    }
}
