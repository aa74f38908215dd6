//! The CSV file of a measurement's seconds.

use std::fmt::Write as _;

use crate::record::{Second, Spread};
use crate::statistics::steps::STEPS;

/// The head of a series: the columns, in their order. Times in nanoseconds.
pub(super) const COLUMNS: &str = "second,operation,count,errors,min,mean,p50,p90,p95,p99,p999,p9999,max,steps";
/// The head of a series that was written when seconds had no histograms.
const COLUMNS_WITHOUT_STEPS: &str = "second,operation,count,errors,min,mean,p50,p90,p95,p99,p999,p9999,max";

/// Writes a series.
pub(super) fn text(series: &[Second]) -> String {
    let mut out = String::from(COLUMNS);
    out.push('\n');
    for row in series {
        let Second { second, operation, count, errors, latency, steps } = row;
        let Spread { min, mean, p50, p90, p95, p99, p999, p9999, max } = latency;
        // Writing to memory does not fail.
        let _ = write!(
            out,
            "{second},{operation},{count},{errors},{min},{mean},{p50},{p90},{p95},{p99},{p999},{p9999},{max},"
        );
        for (place, (step, count)) in steps.iter().enumerate() {
            let _ = write!(out, "{}{step}:{count}", if place == 0 { "" } else { " " });
        }
        out.push('\n');
    }
    out
}

/// Reads a series, of this form or of the one before histograms.
///
/// # Errors
/// Which line is wrong.
pub(super) fn read(text: &str) -> Result<Vec<Second>, String> {
    let mut lines = text.lines();
    let with_steps = match lines.next() {
        Some(COLUMNS) => true,
        Some(COLUMNS_WITHOUT_STEPS) => false,
        _ => return Err(format!("its first line is not `{COLUMNS}`")),
    };
    lines
        .enumerate()
        .map(|(row, line)| read_second(line, with_steps).ok_or_else(|| format!("line {} is malformed", row + 2)))
        .collect()
}

fn read_second(line: &str, with_steps: bool) -> Option<Second> {
    let mut cells = line.split(',');
    let second = cells.next()?.parse().ok()?;
    let operation = cells.next()?.to_owned();
    let mut whole = || cells.next()?.parse::<f64>().ok();
    let (count, errors) = (whole()? as u64, whole()? as u64);
    let (min, mean) = (whole()? as u64, whole()?);
    let mut time = || whole().map(|number| number as u64);
    let latency = Spread {
        min,
        mean,
        p50: time()?,
        p90: time()?,
        p95: time()?,
        p99: time()?,
        p999: time()?,
        p9999: time()?,
        max: time()?,
    };
    let steps = if with_steps { read_steps(cells.next()?)? } else { Vec::new() };
    cells.next().is_none().then_some(Second { second, operation, count, errors, latency, steps })
}

/// Reads `160:3 161:20`: steps in their order, each once.
fn read_steps(text: &str) -> Option<Vec<(u16, u64)>> {
    let read = |part: &str| {
        let (step, count) = part.split_once(':')?;
        let step: u16 = step.parse().ok()?;
        (step < STEPS).then_some((step, count.parse().ok()?))
    };
    let steps: Vec<(u16, u64)> = text.split_ascii_whitespace().map(read).collect::<Option<_>>()?;
    steps.is_sorted_by(|a, b| a.0 < b.0).then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_without_histograms_are_still_read() {
        let row = "3,read,9,1,1,2.5,2,3,4,5,6,7,8";
        let now = read(&format!("{COLUMNS}\n{row},8:2 16:7\n")).unwrap().remove(0);
        assert_eq!((now.count, now.latency.max, &now.steps), (9, 8, &vec![(8, 2), (16, 7)]));
        let old = read(&format!("{COLUMNS_WITHOUT_STEPS}\n{row}\n")).unwrap();
        assert_eq!(old, [Second { steps: Vec::new(), ..now.clone() }]);
        assert_eq!(read(&text(std::slice::from_ref(&now))), Ok(vec![now]));
        assert_eq!(read(&text(&old)), Ok(old));
        for steps in ["8:2:3", "512:1", "9:1 8:1", "8", "x:1"] {
            assert!(read(&format!("{COLUMNS}\n{row},{steps}\n")).is_err(), "{steps}");
        }
    }
}
