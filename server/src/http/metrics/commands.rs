//! How long commands take, as the node counts it for `LATENCY HISTOGRAM` and `INFO commandstats`.

use std::collections::BTreeMap;

use wire::Value;

use super::exposition::Exposition;

/// Upper bounds that are told, as powers of two in nanoseconds: 16 microseconds to a second. The node counts a longer duration as a second.
const POWERS: std::ops::RangeInclusive<u32> = 14..=30;

/// `histograms`: what `LATENCY HISTOGRAM` answers; `info`: the fields of `INFO`.
pub(super) fn write(out: &mut Exposition, histograms: &Value, info: &BTreeMap<&str, &str>) {
    const NAME: &str = "dictum_command_duration_seconds";
    out.family(NAME, "histogram", "Seconds from when the node took a command to when it answered, the way through the log and to the disks included.");
    for (command, said) in pairs(histograms) {
        let Some(command) = command.as_bytes().map(|name| String::from_utf8_lossy(name).into_owned()) else { continue };
        let of = |wanted: &[u8]| pairs(said).find(|(name, _)| name.as_bytes() == Some(wanted)).map(|(_, value)| value);
        let number = |value: &Value| value.as_integer().and_then(|number| u64::try_from(number).ok());
        let Some(calls) = of(b"calls").and_then(number) else { continue };
        let below: Vec<(u64, u64)> = of(b"histogram_usec")
            .into_iter()
            .flat_map(pairs)
            .filter_map(|(bound, count)| Some((number(bound)?, number(count)?)))
            .collect();
        let buckets = POWERS.map(|power| {
            // As the node tells bounds, which is as a Redis does: in whole microseconds, a 128th above the power.
            let bound = ((1u64 << power) + (1u64 << power) / 128 - 1) / 1000;
            let within = below.iter().filter(|(told, _)| *told <= bound).map(|(_, count)| *count).max();
            (f64::from(1u32 << power) / 1e9, within.unwrap_or(0))
        });
        let micros = info
            .get(format!("cmdstat_{command}").as_str())
            .and_then(|line| line.split(',').find_map(|part| part.strip_prefix("usec=")?.parse::<u64>().ok()));
        let seconds = micros.unwrap_or(0) as f64 / 1e6;
        out.histogram(&[("command", &command)], buckets, (seconds, calls));
    }
}

/// A map in either dialect.
fn pairs(value: &Value) -> Box<dyn Iterator<Item = (&Value, &Value)> + '_> {
    match value {
        Value::Map(pairs) => Box::new(pairs.iter().map(|(name, value)| (name, value))),
        Value::Array(flat) => Box::new(flat.chunks_exact(2).map(|pair| (&pair[0], &pair[1]))),
        _ => Box::new(std::iter::empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_node_counts_becomes_a_histogram() {
        let word = |text: &str| Value::bulk(text);
        let spread = Value::Map(vec![
            (Value::Integer(16), Value::Integer(3)),
            (Value::Integer(33), Value::Integer(5)),
            (Value::Integer(1056), Value::Integer(7)),
        ]);
        let get = Value::Array(vec![word("calls"), Value::Integer(8), word("histogram_usec"), spread]);
        let histograms = Value::Array(vec![word("get"), get, word("set"), Value::Null]);
        let info = BTreeMap::from([("cmdstat_get", "calls=8,usec=2500000,usec_per_call=1")]);
        let mut out = Exposition::default();
        write(&mut out, &histograms, &info);
        let text = out.into_text().expect("it is written");
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let within = |bound: &str| {
            let start = format!("dictum_command_duration_seconds_bucket{{le=\"{bound}\",command=\"get\"}} ");
            lines
                .iter()
                .find_map(|line| line.strip_prefix(start.as_str()))
                .unwrap_or_else(|| panic!("{bound}: {lines:?}"))
        };
        for (bound, count) in
            [("0.000016384", "3"), ("0.000032768", "5"), ("0.000524288", "5"), ("0.001048576", "7"), ("+Inf", "8")]
        {
            assert_eq!(within(bound), count, "{bound}");
        }
        assert!(lines.contains(&"dictum_command_duration_seconds_sum{command=\"get\"} 2.5"), "{lines:?}");
        assert!(lines.contains(&"dictum_command_duration_seconds_count{command=\"get\"} 8"), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("\"set\"")), "{lines:?}");
    }
}
