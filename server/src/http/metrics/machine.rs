//! Figures of the process and of its disk.

use std::path::Path;

use super::exposition::Exposition;
use crate::low_disk::room_in;
use crate::process;

/// The names that Prometheus's own libraries give these.
pub(super) fn write(out: &mut Exposition, dir: &Path) {
    let figures = process::figures();
    let seconds = (figures.user_micros + figures.system_micros) as f64 / 1e6;
    out.one("process_cpu_seconds_total", "counter", "Processor time of the process, in seconds.", seconds);
    out.one("process_resident_memory_bytes", "gauge", "Memory that the process holds.", figures.resident_bytes);
    if let Some(started) = process::started_seconds() {
        out.one("process_start_time_seconds", "gauge", "When the process began, in seconds since 1970.", started);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        out.one("process_open_fds", "gauge", "File descriptors that are open.", open.count());
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(limit) = limit {
        out.one("process_max_fds", "gauge", "File descriptors that the process may have.", limit);
    }
    if let Ok(room) = room_in(dir) {
        out.one("dictum_disk_free_bytes", "gauge", "Free room on the disk of the node's folder.", room.free);
        out.one("dictum_disk_size_bytes", "gauge", "Size of the disk of the node's folder.", room.total);
    }
}
