//! RESP2 and RESP3: commands in, replies out.

use crate::bounds::MAX_MESSAGE;
use std::ops::Range;

/// The most words of a command.
const MAX_WORDS: usize = 64;
/// The longest line that is not a word: a length, or a command without lengths.
const MAX_LINE: usize = 4 << 10;

/// What the beginning of the received bytes is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// More bytes are needed.
    Incomplete,
    /// A command of this many bytes. Its words are where the parser was told to put them; there may be none.
    Command(usize),
    /// The stream cannot be understood any further.
    Broken(&'static str),
}

/// Reads one command. `words` receives the places of its words.
pub(super) fn parse(input: &[u8], words: &mut Vec<Range<usize>>) -> Parsed {
    words.clear();
    let result = match input.first() {
        None => return Parsed::Incomplete,
        Some(b'*') => array(input, words),
        Some(_) => inline(input, words),
    };
    match result {
        Ok(length) => Parsed::Command(length),
        // What is incomplete now and too long already will never be complete.
        Err(None) if input.len() > MAX_MESSAGE => Parsed::Broken("too big a command"),
        Err(None) => Parsed::Incomplete,
        Err(Some(why)) => Parsed::Broken(why),
    }
}

/// `None`: more bytes are needed.
type Why = Option<&'static str>;

/// `*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n`
fn array(input: &[u8], words: &mut Vec<Range<usize>>) -> Result<usize, Why> {
    let (count, mut place) = number(input, 1, "invalid multibulk length")?;
    let count = match count {
        // As in Redis, an empty command is none.
        ..=0 => 0,
        1.. if count as usize <= MAX_WORDS => count as usize,
        _ => return Err(Some("too many words")),
    };
    for _ in 0..count {
        match input.get(place) {
            None => return Err(None),
            Some(b'$') => {}
            Some(_) => return Err(Some("expected '$'")),
        }
        let (length, begin) = number(input, place + 1, "invalid bulk length")?;
        let length = match usize::try_from(length) {
            Ok(length) if length <= MAX_MESSAGE => length,
            _ => return Err(Some("invalid bulk length")),
        };
        let end = begin + length;
        match input.get(end..end + 2) {
            None => return Err(None),
            Some(b"\r\n") => {}
            Some(_) => return Err(Some("expected CRLF after a bulk string")),
        }
        if end > MAX_MESSAGE {
            return Err(Some("too big a command"));
        }
        words.push(begin..end);
        place = end + 2;
    }
    Ok(place)
}

/// Reads a whole number and the end of its line.
#[inline]
fn number(input: &[u8], begin: usize, what: &'static str) -> Result<(i64, usize), Why> {
    // Most are lengths of one or two digits.
    let number = |digits: &[u8]| {
        digits
            .iter()
            .fold(0, |sum, digit| 10 * sum + i64::from(digit - b'0'))
    };
    match &input[begin..] {
        [digit @ b'0'..=b'9', b'\r', b'\n', ..] => Ok((number(&[*digit]), begin + 3)),
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Ok((number(&[*tens, *ones]), begin + 4))
        }
        _ => any_number(input, begin, what),
    }
}

fn any_number(input: &[u8], begin: usize, what: &'static str) -> Result<(i64, usize), Why> {
    /// A sign and 19 digits.
    const LONGEST: usize = 20;
    let rest = &input[begin..];
    let Some(length) = rest
        .iter()
        .take(LONGEST + 1)
        .position(|&byte| byte == b'\r')
    else {
        return Err((rest.len() > LONGEST).then_some(what));
    };
    match rest.get(length + 1) {
        None => return Err(None),
        Some(b'\n') => {}
        Some(_) => return Err(Some(what)),
    }
    let number = integer(&rest[..length]).ok_or(Some(what))?;
    Ok((number, begin + length + 2))
}

/// Reads a decimal integer, without a plus sign or spaces.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() {
        return None;
    }
    // So many digits always fit.
    if digits.len() <= 18 {
        let mut number = 0;
        for digit in digits {
            let digit = digit.wrapping_sub(b'0');
            if digit >= 10 {
                return None;
            }
            number = 10 * number + i64::from(digit);
        }
        return Some(sign * number);
    }
    digits.iter().try_fold(0_i64, |number, digit| {
        let digit = digit.wrapping_sub(b'0');
        let digit = (digit < 10).then_some(sign * i64::from(digit))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Words between spaces, as people type them.
fn inline(input: &[u8], words: &mut Vec<Range<usize>>) -> Result<usize, Why> {
    let line = input.iter().take(MAX_LINE).position(|&byte| byte == b'\n');
    let Some(end) = line else {
        return Err((input.len() >= MAX_LINE).then_some("too big inline request"));
    };
    let mut begin = None;
    for (place, byte) in input[..=end].iter().enumerate() {
        match (byte.is_ascii_whitespace(), begin) {
            (false, None) => begin = Some(place),
            (true, Some(first)) => {
                words.push(first..place);
                begin = None;
            }
            _ => {}
        }
        if words.len() > MAX_WORDS {
            return Err(Some("too many words"));
        }
    }
    Ok(end + 1)
}

/// Replies of one connection, in its version of the protocol.
#[derive(Debug)]
pub(super) struct Replies {
    pub(super) bytes: Vec<u8>,
    pub(super) is_resp3: bool,
}

impl Replies {
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            is_resp3: false,
        }
    }

    fn head(&mut self, kind: u8, number: i64) {
        if let 0..10 = number {
            return (self.bytes).extend_from_slice(&[kind, b'0' + number as u8, b'\r', b'\n']);
        }
        // A kind, a sign, 19 digits and the end of the line, from the last to the first.
        let mut line = *b"                     \r\n";
        let mut place = line.len() - 2;
        let mut rest = number.unsigned_abs();
        while rest > 0 {
            place -= 1;
            line[place] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        if number < 0 {
            place -= 1;
            line[place] = b'-';
        }
        place -= 1;
        line[place] = kind;
        self.bytes.extend_from_slice(&line[place..]);
    }

    pub(super) fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// An error. The first word says of which kind it is.
    pub(super) fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        // A line ends where another one begins.
        let line = text
            .bytes()
            .map(|byte| if byte < b' ' { b' ' } else { byte });
        self.bytes.extend(line);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.head(b':', number);
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len() as i64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(match self.is_resp3 {
            true => b"_\r\n",
            false => b"$-1\r\n",
        });
    }

    /// A list of `length` replies, which follow.
    pub(super) fn list(&mut self, length: usize) {
        self.head(b'*', length as i64);
    }

    /// A map of `length` keys and values, which follow. In RESP2, a list.
    pub(super) fn map(&mut self, length: usize) {
        match self.is_resp3 {
            true => self.head(b'%', length as i64),
            false => self.list(2 * length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Parsed, Replies, integer, parse};

    #[test]
    fn every_integer_is_written_in_full() {
        for number in [0, 9, 10, 99, 100, -1, -10, i64::MAX, i64::MIN] {
            let mut replies = Replies::new();
            replies.integer(number);
            assert_eq!(replies.bytes, format!(":{number}\r\n").into_bytes());
        }
    }

    #[test]
    fn a_length_may_have_any_number_of_digits() {
        let mut words = Vec::new();
        for (length, digits) in [(0, 1), (7, 1), (7, 2), (12, 2), (12, 3), (12, 20), (120, 3)] {
            let command = format!("*1\r\n${length:0digits$}\r\n{}\r\n", "x".repeat(length));
            let parsed = parse(command.as_bytes(), &mut words);
            assert_eq!(parsed, Parsed::Command(command.len()), "{command}");
            assert_eq!(words[0].len(), length);
            // Everything before the end is a beginning.
            for end in 0..command.len() {
                let parsed = parse(&command.as_bytes()[..end], &mut words);
                assert_eq!(parsed, Parsed::Incomplete, "{end} of {command}");
            }
        }
    }

    #[test]
    fn integers_are_read_without_signs_of_plus_or_spaces() {
        for number in [0, 7, 10, -1, i64::MAX, i64::MIN] {
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
        }
        assert_eq!(integer(b"007"), Some(7));
        for text in [
            "",
            "-",
            "+1",
            " 1",
            "1 ",
            "--1",
            "1-",
            "1.0",
            "a",
            "/",
            ":",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
        ] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }
}
