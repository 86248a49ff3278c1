//! Escapes text from outside.

use std::fmt::{self, Write};

/// Text as content or as a quoted attribute, in HTML and in XML.
///
/// Characters that XML cannot hold, such as U+0000, become U+FFFD.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            '\t' | '\n' => f.write_char(character),
            '\u{fffe}' | '\u{ffff}' => f.write_char(char::REPLACEMENT_CHARACTER),
            control if control.is_control() => f.write_char(char::REPLACEMENT_CHARACTER),
            other => f.write_char(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_means_something_is_left() {
        let text = "a<b>&\"c\"'d'\u{0}\u{1b}[31m\u{ffff}é\n";
        let escaped = "a&lt;b&gt;&amp;&quot;c&quot;&#39;d&#39;\u{fffd}\u{fffd}[31m\u{fffd}é\n";
        assert_eq!(Escaped(text).to_string(), escaped);
    }
}
