//! Memory that nothing uses goes back to the system; and how much there is.
//!
//! The allocator keeps what was freed, and gives it back when somebody takes or frees more. On a node that has come to rest nobody does: it would go on
//! holding what its last flush needed, a hundred megabytes and more.

mod plan;

pub(crate) use plan::Plan;

/// The memory that there is for this process, in bytes: the machine's, or the least that one of its control groups may have; 0 where that cannot be told.
pub(crate) fn total() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let of_machine = of_meminfo(&read("/proc/meminfo"));
    let limits = limits_of(&read("/proc/self/cgroup"));
    let of_group = limits.iter().filter_map(|path| read(path).trim().parse::<u64>().ok()).min();
    of_group.map_or(of_machine, |of_group| of_group.min(of_machine))
}

/// The files with the limits of the process's control groups, of version 1 and 2: its own and those above it. In a container the own one may be the root, as far as the
/// container sees.
fn limits_of(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            some if some.split(',').any(|it| it == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            files.push(format!("{root}{path}/{name}"));
            match path.rfind('/') {
                Some(end) => path = &path[..end],
                None => break,
            }
        }
    }
    files
}

/// The machine's memory, by the system's own words.
fn of_meminfo(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0).saturating_mul(1024)
}

/// Lets the allocator give back what is free. Costs what the system needs to unmap it; may be called at any time.
#[allow(unsafe_code, reason = "the allocator has no other interface for this than C's")]
pub(crate) fn give_back() {
    // SAFETY: `mi_collect` has no conditions: any thread may call it at any time. It touches the caller's own heap and what is free.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn limits_are_those_of_the_own_group_and_of_all_above() {
        assert_eq!(
            super::limits_of("0::/system.slice/dictum.service\n"),
            [
                "/sys/fs/cgroup/system.slice/dictum.service/memory.max",
                "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(
            super::limits_of("9:name=systemd:/\n4:cpu,memory:/a\n0::/\n"),
            [
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(super::limits_of(""), [""; 0]);
    }

    #[test]
    fn what_there_is_is_read() {
        assert_eq!(super::of_meminfo("MemFree: 3 kB\nMemTotal:       8000 kB\n"), 8_192_000);
        assert_eq!(super::of_meminfo(""), 0);
    }
}
