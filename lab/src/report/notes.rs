//! Notes that say the same of many measurements, with other numbers, become one.

/// From so many on they are put together.
const ALIKE_MIN: usize = 3;

/// The notes in their order. Of those that say `NAME: TEXT` with a text that differs in its numbers only, the one with the greatest numbers
/// stays, in place of the first, and says of how many it is told.
#[must_use]
pub fn gathered(notes: &[String]) -> Vec<String> {
    let parts: Vec<Option<(&str, &str)>> = notes.iter().map(|note| note.split_once(": ")).collect();
    let shapes: Vec<Option<String>> = parts.iter().map(|part| part.map(|part| shape(part.1))).collect();
    let mut out = Vec::new();
    for (place, note) in notes.iter().enumerate() {
        let alike: Vec<usize> = match &shapes[place] {
            Some(shape) => (0..notes.len()).filter(|&other| shapes[other].as_ref() == Some(shape)).collect(),
            None => vec![place],
        };
        if alike.len() < ALIKE_MIN {
            out.push(note.clone());
        } else if alike.first() == Some(&place) {
            let worst = alike.iter().filter_map(|&other| parts[other]);
            let worst =
                worst.max_by(|a, b| numbers(a.1).partial_cmp(&numbers(b.1)).unwrap_or(std::cmp::Ordering::Equal));
            out.extend(worst.map(|(name, text)| format!("Of {} measurements, worst of {name}: {text}", alike.len())));
        }
    }
    out
}

fn is_part(letter: char) -> bool {
    letter.is_ascii_digit() || letter == '.'
}

/// The text with a mark for each number.
fn shape(text: &str) -> String {
    let mut shape = String::with_capacity(text.len());
    for letter in text.chars() {
        let letter = if letter.is_ascii_digit() { '0' } else { letter };
        // The point within a number goes with it, the one at the end of a sentence is no part of one.
        if !(shape.ends_with('0') && is_part(letter)) {
            shape.push(letter);
        }
    }
    shape
}

fn numbers(text: &str) -> Vec<f64> {
    text.split(|letter: char| !is_part(letter)).filter_map(|word| word.trim_end_matches('.').parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_many_is_said_once() {
        let notes = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let told = gathered(&notes(&[
            "All on one machine.",
            "a, 1: no processor 35 % of the time: shared",
            "a, 1: the leader changed",
            "a, 2: no processor 9 % of the time: shared",
            "b, 1: no processor 49.5 % of the time: shared",
            "b, 2: no processor 40 % of the time: shared",
        ]));
        assert_eq!(
            told,
            [
                "All on one machine.",
                "Of 4 measurements, worst of b, 1: no processor 49.5 % of the time: shared",
                "a, 1: the leader changed",
            ]
        );
        let two = notes(&["a: 1 late", "b: 2 late"]);
        assert_eq!(gathered(&two), two);
    }
}
