//! Text from records on its way into HTML and SVG: everything passes through [`escape`].

/// Longest text taken over from a record in one place, in characters; what is beyond is cut and the cut shown.
pub const TEXT_MAX: usize = 2_000;

/// The text with everything escaped that means something in HTML or XML, in elements as well as in quoted attributes.
///
/// Characters that XML forbids (controls) become the replacement character; what turns the direction of the text around is left out, so
/// that no name can make a line read otherwise than it is. Longer texts than [`TEXT_MAX`] end with an ellipsis.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for (index, character) in text.chars().enumerate() {
        if index == TEXT_MAX {
            out.push('…');
            break;
        }
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(character),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ if character.is_control() => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
    out
}

/// An element around text that is escaped here.
pub fn element(name: &str, class: &str, text: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{}\"", escape(class)) };
    format!("<{name}{class}>{}</{name}>", escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        assert_eq!(escape("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
        assert_eq!(escape("nul\0 bell\u{7} turned\u{202e}round"), "nul\u{fffd} bell\u{fffd} turnedround");
        assert_eq!(element("p", "note", "1 < 2"), "<p class=\"note\">1 &lt; 2</p>");
        assert_eq!(element("p", "", "x"), "<p>x</p>");
        assert_eq!(escape(&"x".repeat(TEXT_MAX + 5)).chars().count(), TEXT_MAX + 1);
    }
}
