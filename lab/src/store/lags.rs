//! The CSV file of how far nodes were behind. A node that did not answer has nothing in the last column.

use std::fmt::Write as _;

use crate::record::Lag;

/// The columns, in their order.
const COLUMNS: &str = "at_ms,node,entries";

/// Writes it.
pub(super) fn text(lags: &[Lag]) -> String {
    let mut out = format!("{COLUMNS}\n");
    for Lag { at_ms, node, entries } in lags {
        let entries = entries.map_or(String::new(), |entries| entries.to_string());
        // Writing to memory does not fail. A comma in a node's name would be a column more.
        let _ = writeln!(out, "{at_ms:.1},{},{entries}", node.replace([',', '\n'], "_"));
    }
    out
}

/// Reads it.
///
/// # Errors
/// Which line is wrong.
pub(super) fn read(text: &str) -> Result<Vec<Lag>, String> {
    let mut lines = text.lines();
    if lines.next() != Some(COLUMNS) {
        return Err(format!("its first line is not `{COLUMNS}`"));
    }
    let lag = |line: &str| {
        let [at_ms, node, entries] = <[&str; 3]>::try_from(line.split(',').collect::<Vec<_>>()).ok()?;
        let entries = if entries.is_empty() { None } else { Some(entries.parse().ok()?) };
        let at_ms = at_ms.parse().ok().filter(|at: &f64| at.is_finite())?;
        Some(Lag { at_ms, node: node.to_owned(), entries })
    };
    lines.enumerate().map(|(row, line)| lag(line).ok_or_else(|| format!("line {} is malformed", row + 2))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_malformed_is_told() {
        assert_eq!(read("at_ms,node,entries\n"), Ok(Vec::new()));
        for wrong in ["1,n1", "1,n1,2,3", "NaN,n1,2", "1,n1,-2"] {
            let told = read(&format!("{COLUMNS}\n1.5,n1,2\n{wrong}\n")).expect_err(wrong);
            assert_eq!(told, "line 3 is malformed");
        }
        assert!(read("").is_err());
    }
}
