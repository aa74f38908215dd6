//! The drawing of a history that breaks a property: a row for each client, a box for each operation from when it was asked until it was
//! answered, open on the right if it never was.
//!
//! What matters is which ended before which began, and not how long each took: so the moments stand in their order at equal distances,
//! and the list below the drawing has the times.

use std::collections::BTreeMap;

use super::frame::LETTERS;
use super::svg::{Anchor, Svg, fit, text_width};
use super::{Figure, Key, Room};
use crate::record::Event;
use crate::report::format;

/// Most operations that are drawn.
pub const EVENTS_MAX: usize = 60;

/// Draws the first [`EVENTS_MAX`] operations in the order given, numbered from 1; none if there is none.
pub fn figure(title: &str, events: &[Event], caption: &str) -> Option<Figure> {
    let events = &events[..events.len().min(EVENTS_MAX)];
    events.first()?;
    let told: Vec<String> = events.iter().enumerate().map(|(index, event)| told(index, event)).collect();
    let mut keys = vec![Key { class: "fill event".into(), text: "from the question to the answer".into() }];
    if events.iter().any(|event| event.until.is_none()) {
        keys.push(Key {
            class: "fill event open".into(),
            text: "never answered: it may take effect at any time after".into(),
        });
    }
    Some(Figure::new(title, &told.join(" "), keys, caption, |room| draw(room, events)))
}

fn told(index: usize, event: &Event) -> String {
    match event.until {
        Some(_) => {
            format!("{}: client {} asked {} and was answered {}.", index + 1, event.client, event.asked, event.answered)
        }
        None => format!("{}: client {} asked {} and was never answered.", index + 1, event.client, event.asked),
    }
}

/// Where the moments stand: each time that begins or ends something, by its place in their order.
fn moments(events: &[Event]) -> BTreeMap<u64, usize> {
    let mut times: Vec<u64> = events.iter().flat_map(|event| [Some(event.from), event.until]).flatten().collect();
    times.sort_unstable();
    times.dedup();
    times.into_iter().enumerate().map(|(place, time)| (time, place)).collect()
}

/// The row of each operation: a client's operations share one if they do not overlap. Gives the rows, and the client of each row.
fn rows(events: &[Event]) -> (Vec<usize>, Vec<u32>) {
    let mut clients: Vec<u32> = events.iter().map(|event| event.client).collect();
    clients.sort_unstable();
    clients.dedup();
    let mut row_of = vec![0; events.len()];
    let mut owners = Vec::new();
    for client in clients {
        let mut own: Vec<usize> = (0..events.len()).filter(|&index| events[index].client == client).collect();
        own.sort_by_key(|&index| (events[index].from, index));
        let first = owners.len();
        let mut free_from: Vec<u64> = Vec::new();
        for index in own {
            let row = free_from.iter().position(|&end| end <= events[index].from).unwrap_or(free_from.len());
            if row == free_from.len() {
                free_from.push(0);
                owners.push(client);
            }
            free_from[row] = events[index].until.unwrap_or(u64::MAX);
            row_of[index] = first + row;
        }
    }
    (row_of, owners)
}

fn draw(room: Room, events: &[Event]) -> Svg {
    let (row_of, owners) = rows(events);
    let moments = moments(events);
    let step = room.choose(44.0, 34.0);
    let names = room.choose(74.0, 30.0);
    let mut svg = Svg::new(room.width(), 34.0 + step * owners.len() as f64);
    let right = room.width() - 22.0;
    // One place more than moments: what was never answered goes on beyond the last.
    let each = (right - names) / moments.len().max(1) as f64;
    let x = |time: u64| names + moments.get(&time).copied().unwrap_or(0) as f64 * each;
    for (row, client) in owners.iter().enumerate() {
        let y = 4.0 + step * row as f64;
        if row == 0 || owners[row - 1] != *client {
            let name = room.choose(format!("client {client}"), client.to_string());
            svg.text((2.0, y + step / 2.0 + 4.0), Anchor::Start, "name", &fit(&name, names - 6.0, LETTERS));
        }
        svg.line((names, y + step - 1.0), (room.width(), y + step - 1.0), "grid");
    }
    for (index, event) in events.iter().enumerate() {
        let y = 4.0 + step * row_of[index] as f64 + 4.0;
        let height = step - 10.0;
        let from = x(event.from);
        let to = event.until.map_or(room.width() - 4.0, |until| x(until.max(event.from)).max(from + 6.0) - 2.0);
        let class = if event.until.is_some() { "fill event" } else { "fill event open" };
        let title = told(index, event);
        svg.rectangle((from, y), (to - from, height), class, &title);
        if event.until.is_none() {
            // An arrow instead of a right side.
            let middle = y + height / 2.0;
            svg.polyline(
                &[Some((to - 6.0, middle - 5.0)), Some((to, middle)), Some((to - 6.0, middle + 5.0))],
                "line plain",
            );
        }
        let number = (index + 1).to_string();
        // Words may run on beyond their box, as far as the row is free.
        let next = (0..events.len()).filter(|&other| row_of[other] == row_of[index] && events[other].from > event.from);
        let free = next.map(|other| x(events[other].from)).fold(room.width(), f64::min);
        let inner = free - from - 15.0 - text_width(&number, LETTERS);
        svg.text((from + 5.0, y + height / 2.0 + 4.0), Anchor::Start, "number", &number);
        let begin = from + 10.0 + text_width(&number, LETTERS);
        if room == Room::Wide && inner > 40.0 {
            let answer = if event.until.is_none() { "→ ?".to_owned() } else { format!("→ {}", event.answered) };
            svg.text((begin, y + height / 2.0 - 3.0), Anchor::Start, "event", &fit(&event.asked, inner, LETTERS));
            svg.text((begin, y + height / 2.0 + 11.0), Anchor::Start, "event", &fit(&answer, inner, LETTERS));
        }
    }
    let end = svg.height() - 8.0;
    let text = room.choose("time, in order and not to scale →", "client ↑   time, in order, not to scale →");
    svg.text((room.choose(names, 2.0), end), Anchor::Start, "axis", text);
    svg
}

/// The list below the drawing: number, client, asked, answered, from, until.
pub fn list(events: &[Event]) -> Vec<[String; 6]> {
    let zero = events.iter().map(|event| event.from).min().unwrap_or(0);
    let after = |time: u64| {
        let passed = time.saturating_sub(zero) as f64;
        if passed == 0.0 { "0".to_owned() } else { format!("+{}", format::duration(passed)) }
    };
    events
        .iter()
        .take(EVENTS_MAX)
        .enumerate()
        .map(|(index, event)| {
            let until = event.until.map_or_else(|| "never".to_owned(), after);
            let answered = if event.until.is_none() { "–".to_owned() } else { event.answered.clone() };
            [(index + 1).to_string(), event.client.to_string(), event.asked.clone(), answered, after(event.from), until]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(client: u32, from: u64, until: Option<u64>) -> Event {
        Event { client, asked: "set k 7".into(), answered: "OK".into(), from, until }
    }

    #[test]
    fn operations_of_a_client_share_a_row_unless_they_overlap() {
        let events = [event(2, 0, Some(10)), event(1, 5, Some(6)), event(2, 10, Some(12)), event(2, 11, None)];
        assert_eq!(rows(&events), (vec![1, 0, 1, 2], vec![1, 2, 2]));
        assert_eq!(
            moments(&events).into_iter().collect::<Vec<_>>(),
            [(0, 0), (5, 1), (6, 2), (10, 3), (11, 4), (12, 5)]
        );
    }

    #[test]
    fn what_was_never_answered_stays_open() {
        let events = [event(1, 1_000, Some(2_000)), event(2, 1_500, None)];
        let html = figure("t", &events, "").unwrap().html();
        assert!(html.contains("2: client 2 asked set k 7 and was never answered."), "{html}");
        assert!(html.contains("class=\"fill event open\""), "{html}");
        assert_eq!(list(&events)[1], ["2", "2", "set k 7", "–", "+500\u{a0}ns", "never"]);
        assert_eq!(figure("t", &[], ""), None);
    }
}
