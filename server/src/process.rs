//! What this process takes of the machine, as Linux tells it.

use node::ProcessFigures;

/// The figures of now; 0 where the machine does not tell.
pub(crate) fn figures() -> ProcessFigures {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let (status, stat, memory) = (read("/proc/self/status"), read("/proc/self/stat"), read("/proc/meminfo"));
    let (user_micros, system_micros) = processor_micros(&stat);
    ProcessFigures {
        resident_bytes: kib(&status, "VmRSS:") * 1024,
        resident_peak_bytes: kib(&status, "VmHWM:") * 1024,
        system_memory_bytes: kib(&memory, "MemTotal:") * 1024,
        user_micros,
        system_micros,
    }
}

/// When this process began, in seconds since 1970; none where the machine does not tell.
pub(crate) fn started_seconds() -> Option<f64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let stat = read("/proc/self/stat")?;
    // The 22nd field, in hundredths of a second since the machine began.
    let ticks: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let booted: f64 = read("/proc/stat")?.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(booted + ticks / 100.0)
}

/// The figure of a line such as `VmRSS:   1234 kB`.
fn kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// In the process's own code, and in the system's: the 14th and 15th field, in hundredths of a second whatever the machine. The program's name may hold
/// anything, so fields are counted behind it.
fn processor_micros(stat: &str) -> (u64, u64) {
    const MICROS_PER_TICK: u64 = 10_000;
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let mut fields = behind.split_whitespace().skip(11).map(|field| field.parse::<u64>().unwrap_or(0));
    let (user, system) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
    (user * MICROS_PER_TICK, system * MICROS_PER_TICK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_fields_are_found() {
        assert_eq!(kib("VmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n", "VmRSS:"), 1024);
        assert_eq!(kib("", "VmRSS:"), 0);
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 30 0 0 20 0 1 0 5 6 7";
        assert_eq!(processor_micros(stat), (2_500_000, 300_000));
        assert_eq!(processor_micros(""), (0, 0));
    }

    #[test]
    fn this_process_takes_something() {
        let figures = figures();
        assert!(figures.resident_bytes > 0 && figures.resident_peak_bytes >= figures.resident_bytes);
        assert!(figures.system_memory_bytes > figures.resident_bytes);
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later").as_secs_f64();
        assert!(started_seconds().is_some_and(|began| began <= now + 1.0 && began > now - 7.0 * 24.0 * 3600.0));
    }
}
