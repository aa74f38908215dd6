//! What a failure did, second by second: above the latency of every operation, below how much was answered, with marks where something
//! happened and shades where nothing was answered.

use super::frame::{Area, Axis, BOLD, Frame, LETTERS};
use super::scale::Scale;
use super::svg::{Anchor, Svg, fit, text_width};
use super::{Figure, Key, Room, colour};
use crate::report::format;

/// Most tracks that have lines, the first ones: more cannot be told apart. All count for what was answered.
pub const LINES_MAX: usize = 4;

/// Most marks in the description for those who cannot see the picture.
const DESCRIBED_MAX: usize = 100;

/// Most marks that all have words; of more only some have.
pub const WORDS_MAX: usize = 24;

/// One operation's seconds: second, answered, errors, median and 99th percentile in nanoseconds; in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Track {
    /// The operation.
    pub name: String,
    /// Its seconds.
    pub seconds: Vec<Tick>,
}

/// One second of one operation; or several ([`Events::step`]), with the mean of their counts and the greatest of their percentiles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tick {
    /// Seconds since the beginning.
    pub second: f64,
    /// Answered without an error.
    pub count: u64,
    /// Errors.
    pub errors: u64,
    /// Median latency in nanoseconds.
    pub p50: u64,
    /// 99th percentile of the latency in nanoseconds.
    pub p99: u64,
}

/// What happened, and when nothing did. Times are in seconds since the beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Events {
    /// When, and what.
    pub marks: Vec<(f64, String)>,
    /// From when, and how long, nothing was answered.
    pub gaps: Vec<(f64, f64)>,
    /// How many seconds a [`Tick`] stands for; 0 is taken for 1.
    pub step: u32,
}

impl Events {
    fn seconds(&self) -> f64 {
        f64::from(self.step.max(1))
    }
}

/// Draws the tracks over each other; none if they hold no second.
pub fn figure(title: &str, tracks: &[Track], events: &Events, caption: &str) -> Option<Figure> {
    let ticks = || tracks.iter().flat_map(|track| &track.seconds);
    ticks().next()?;
    let ends = ticks().map(|tick| tick.second + events.seconds()).chain(events.marks.iter().map(|mark| mark.0));
    let end = ends.chain(events.gaps.iter().map(|gap| gap.0 + gap.1)).filter(|end| end.is_finite()).fold(1.0, f64::max);
    let mut totals: Vec<(f64, u64, u64)> = Vec::new();
    let mut sorted: Vec<&Tick> = ticks().collect();
    sorted.sort_by(|a, b| a.second.total_cmp(&b.second));
    for tick in sorted {
        match totals.last_mut() {
            Some(last) if last.0 == tick.second => {
                last.1 = last.1.saturating_add(tick.count);
                last.2 = last.2.saturating_add(tick.errors);
            }
            _ => totals.push((tick.second, tick.count, tick.errors)),
        }
    }
    let of_track =
        |(index, track): (usize, &Track)| Key { class: format!("line {}", colour(index)), text: track.name.clone() };
    let mut keys: Vec<Key> = tracks.iter().take(LINES_MAX).enumerate().map(of_track).collect();
    keys.push(Key { class: "line plain".into(), text: "99 of 100 were at most so slow".into() });
    keys.push(Key { class: "line plain dashed".into(), text: "half were at most so slow".into() });
    keys.push(Key {
        class: "fill answered".into(),
        text: if events.step > 1 {
            "answered in a second, on average".into()
        } else {
            "answered in that second".into()
        },
    });
    if totals.iter().any(|total| total.2 > 0) {
        keys.push(Key { class: "fill failed".into(), text: "answered with an error, or not at all".into() });
    }
    if !events.gaps.is_empty() {
        keys.push(Key { class: "fill gap".into(), text: "nothing was answered".into() });
    }
    let of_mark = |(at, what): &(f64, String)| format!("At {}: {what}.", format::duration(at * 1e9));
    let mut told: Vec<String> = events.marks.iter().take(DESCRIBED_MAX).map(of_mark).collect();
    if events.marks.len() > DESCRIBED_MAX {
        told.push(format!("And {} more.", events.marks.len() - DESCRIBED_MAX));
    }
    let longest = events.gaps.iter().map(|gap| gap.1).fold(0.0, f64::max);
    if longest > 0.0 {
        told.push(format!("The longest stretch without an answer was {}.", format::duration(longest * 1e9)));
    }
    Some(Figure::new(title, &told.join(" "), keys, caption, |room| draw(room, tracks, &totals, events, end)))
}

fn draw(room: Room, tracks: &[Track], totals: &[(f64, u64, u64)], events: &Events, end: f64) -> Svg {
    // Rows of words above the chart, as many as the marks need to stand beside each other.
    let told = told_marks(room, events);
    let words: Vec<(f64, String)> = told.iter().map(|&index| events.marks[index].clone()).collect();
    let rows = mark_rows(room, &words, end);
    let above = rows.iter().map(|row| row + 1).max().unwrap_or(0) as f64 * 14.0;
    let middle = above + room.choose(210.0, 200.0);
    let mut svg = Svg::new(room.width(), middle + 140.0);
    let lines = &tracks[..tracks.len().min(LINES_MAX)];
    let values = lines.iter().flat_map(|track| &track.seconds).filter(|tick| tick.count > 0);
    let latency = Axis {
        scale: Scale::logarithmic(values.flat_map(|tick| [tick.p50 as f64, tick.p99 as f64])),
        label: String::new(),
        format: format::duration_tick,
    };
    let rate = Axis {
        scale: Scale::linear(totals.iter().map(|total| total.1.saturating_add(total.2) as f64)),
        label: String::new(),
        format: format::number_tick,
    };
    let silent = Axis { scale: Scale::exact(0.0, end), label: String::new(), format: format::number_tick };
    let seconds = Axis { label: "seconds".into(), ..silent.clone() };
    let right = room.width() - 14.0;
    // Both frames begin at the same pixel, so that one second stands above the other.
    let left = 2.0;
    let mut trial = Svg::new(1.0, 1.0);
    let upper_area = Area { left, top: above, right, bottom: middle };
    let lower_area = Area { left, top: middle + 6.0, right, bottom: svg.height() };
    let upper = Frame::draw(&mut trial, upper_area, &silent, &latency).inside.left;
    let lower = Frame::draw(&mut trial, lower_area, &seconds, &rate).inside.left;
    let common = upper.max(lower);
    let upper = Frame::draw(&mut svg, Area { left: left + common - upper, ..upper_area }, &silent, &latency);
    let lower = Frame::draw(&mut svg, Area { left: left + common - lower, ..lower_area }, &seconds, &rate);

    for (at, length) in &events.gaps {
        let title = format!("nothing was answered for {}", format::duration(length * 1e9));
        for frame in [&upper, &lower] {
            let (from, to) = (frame.x(*at), frame.x(at + length));
            // A gap of a few milliseconds in a long run is still seen.
            let size = ((to - from).max(1.5), frame.inside.bottom - frame.inside.top);
            svg.rectangle((from, frame.inside.top), size, "fill gap", &title);
        }
    }
    let each = (lower.x(events.seconds()) - lower.x(0.0)).max(0.5);
    for (second, answered, failed) in totals {
        let title = format!(
            "second {}: {} answered, {} errors",
            format::number_tick(*second),
            format::count(*answered),
            format::count(*failed)
        );
        let (left, top) = lower.point(*second, *answered as f64);
        let width = (each - 0.5).max(0.5);
        svg.rectangle((left, top), (width, lower.inside.bottom - top), "fill answered", &title);
        if *failed > 0 {
            let over = lower.y(answered.saturating_add(*failed) as f64).min(top - 1.5);
            svg.rectangle((left, over), (width, top - over), "fill failed", &title);
        }
    }
    for (index, track) in lines.iter().enumerate() {
        for (value, dashes) in [((|tick| tick.p50) as fn(&Tick) -> u64, " dashed"), (|tick| tick.p99, "")] {
            let line = line(&upper, &track.seconds, events.seconds(), value);
            svg.polyline(&line, &format!("line {}{dashes}", colour(index)));
        }
    }
    let row_of = |index: usize| told.iter().position(|&told| told == index).map(|place| rows[place]);
    // All strokes first: then words stand on those that would cross them.
    for (index, (at, _)) in events.marks.iter().enumerate() {
        let x = upper.x(*at);
        let Some(row) = row_of(index) else {
            // A stroke alone: its words would stand on those of others.
            svg.line((x, upper.inside.top), (x, upper.inside.top + 7.0), "mark");
            continue;
        };
        let y = (row as f64).mul_add(14.0, 11.0);
        svg.line((x, y + 3.0), (x, upper.inside.bottom), "mark");
        // Not through the figures below the upper axis.
        svg.line((x, lower.inside.top), (x, lower.inside.bottom), "mark");
    }
    upper.y_label(&mut svg, "latency");
    lower.y_label(&mut svg, "operations per second");
    for (index, (at, what)) in events.marks.iter().enumerate() {
        let Some(row) = row_of(index) else { continue };
        let (x, y) = (upper.x(*at), (row as f64).mul_add(14.0, 11.0));
        let text = fit(what, right - 4.0, LETTERS * BOLD);
        let width = text_width(&text, LETTERS * BOLD);
        let begin = (x - 3.0).min(right - width).max(2.0);
        svg.text((begin, y), Anchor::Start, "label marked", &text);
    }
    svg
}

/// The line of a value, broken where a second has no answer.
fn line(frame: &Frame, seconds: &[Tick], step: f64, value: fn(&Tick) -> u64) -> Vec<Option<(f64, f64)>> {
    let mut line = Vec::with_capacity(seconds.len());
    let mut before = f64::NEG_INFINITY;
    for tick in seconds {
        if tick.count == 0 || tick.second > before + 1.5 * step {
            line.push(None);
        }
        if tick.count > 0 {
            line.push(Some(frame.point(tick.second + step / 2.0, value(tick) as f64)));
            before = tick.second;
        }
    }
    line
}

/// The marks that have words, by their places: all, or those after which nothing was answered longest.
fn told_marks(room: Room, events: &Events) -> Vec<usize> {
    let marks = &events.marks;
    let most = room.choose(WORDS_MAX, WORDS_MAX / 2);
    if marks.len() <= most {
        return (0..marks.len()).collect();
    }
    let mut longest = vec![0.0; marks.len()];
    for (at, length) in &events.gaps {
        // A gap begins with the last answer, shortly before the mark of what ended the answers.
        let before = (0..marks.len()).filter(|&index| marks[index].0 <= at + 0.05 && marks[index].0 < at + length);
        if let Some(index) = before.max_by(|&a, &b| marks[a].0.total_cmp(&marks[b].0)) {
            longest[index] = f64::max(longest[index], *length);
        }
    }
    let mut told: Vec<usize> = (0..marks.len()).filter(|&index| longest[index] > 0.0).collect();
    told.sort_by(|&a, &b| longest[b].total_cmp(&longest[a]));
    told.truncate(most / 2);
    told.sort_unstable();
    told
}

/// The row of each mark's words, so that none stands on another: the lowest row whose last words ended before.
pub(super) fn mark_rows(room: Room, marks: &[(f64, String)], end: f64) -> Vec<usize> {
    let width = room.width() - 70.0;
    let mut ends: Vec<f64> = Vec::new();
    let mut order: Vec<usize> = (0..marks.len()).collect();
    order.sort_by(|&a, &b| marks[a].0.total_cmp(&marks[b].0));
    let mut rows = vec![0; marks.len()];
    for index in order {
        let (at, what) = &marks[index];
        let length = text_width(what, LETTERS * BOLD).min(width);
        let from = (60.0 + at / end * width).min(room.width() - 14.0 - length);
        let row = ends.iter().position(|&end| end + 6.0 < from).unwrap_or(ends.len());
        if row == ends.len() {
            ends.push(0.0);
        }
        ends[row] = from + length;
        rows[index] = row;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_marks_that_are_near_each_other_stand_in_rows() {
        let mark = |at: f64| (at, "leader n1 killed".to_owned());
        assert_eq!(mark_rows(Room::Wide, &[mark(10.0), mark(11.0), mark(50.0)], 60.0), [0, 1, 0]);
    }

    #[test]
    fn of_many_marks_those_with_the_longest_silences_have_words() {
        let marks: Vec<(f64, String)> = (0..100).map(|at| (f64::from(at) * 10.0, format!("n1 killed {at}"))).collect();
        let gaps = vec![(199.99, 2.0), (500.0, 0.3), (703.0, 1.0)];
        let few = Events { marks: marks[..9].to_vec(), gaps: gaps.clone(), step: 1 };
        assert_eq!(told_marks(Room::Wide, &few).len(), 9);
        let many = Events { marks, gaps, step: 1 };
        assert_eq!(told_marks(Room::Wide, &many), [20, 50, 70]);
        assert_eq!(told_marks(Room::Narrow, &many), [20, 50, 70]);
    }

    #[test]
    fn a_second_without_an_answer_breaks_the_line() {
        let tick = |second: f64, count: u64| Tick { second, count, errors: 0, p50: 1_000, p99: 2_000 };
        let mut svg = Svg::new(100.0, 100.0);
        let axis = Axis { scale: Scale::exact(0.0, 10.0), label: String::new(), format: format::number_tick };
        let frame = Frame::draw(&mut svg, Area { left: 0.0, top: 0.0, right: 100.0, bottom: 100.0 }, &axis, &axis);
        let seconds = [tick(0.0, 5), tick(1.0, 0), tick(2.0, 5), tick(4.0, 5)];
        let shape: Vec<bool> = line(&frame, &seconds, 1.0, |tick| tick.p50).iter().map(Option::is_some).collect();
        assert_eq!(shape, [false, true, false, false, true, false, true]);
        let events = Events { marks: vec![(1.0, "n1 killed".into())], gaps: vec![(1.0, 0.512)], step: 1 };
        let track = Track { name: "read".into(), seconds: seconds.to_vec() };
        let html = figure("t", &[track], &events, "").unwrap().html();
        assert!(
            html.contains("At 1.00\u{a0}s: n1 killed. The longest stretch without an answer was 512\u{a0}ms."),
            "{html}"
        );
        assert!(html.contains("fill gap"), "{html}");
    }
}
