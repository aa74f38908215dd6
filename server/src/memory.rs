//! Memory that nothing uses goes back to the system; and how much there is.
//!
//! The allocator keeps what was freed, and gives it back when somebody takes or frees more. On a node that has come to rest nobody does: it would go on
//! holding what its last flush needed, a hundred megabytes and more.

/// The memory that there is for this process, in bytes: the machine's, or what its group of processes may have; 0 where that cannot be told.
pub(crate) fn total() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let of_machine = of_meminfo(&read("/proc/meminfo"));
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let of_group = limits.iter().filter_map(|path| read(path).trim().parse::<u64>().ok()).min();
    of_group.map_or(of_machine, |of_group| of_group.min(of_machine))
}

/// What the system says there is, in its words.
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
    fn what_there_is_is_read() {
        assert_eq!(super::of_meminfo("MemFree: 3 kB\nMemTotal:       8000 kB\n"), 8_192_000);
        assert_eq!(super::of_meminfo(""), 0);
    }
}
