//! The lines of a file, in one buffer, without an allocation for each.

use std::io::{ErrorKind, Read, Result};
use std::ops::Range;

use memchr::memchr;

/// The longest line that is read.
pub(crate) const MAX_LINE: usize = 64 * 1024;
const BUFFER: usize = 4 * MAX_LINE;

pub(crate) struct Lines<R> {
    input: R,
    buffer: Box<[u8]>,
    /// The part of the buffer that was not returned yet.
    left: Range<usize>,
    is_at_end: bool,
    /// The rest of the line is skipped.
    is_in_long_line: bool,
    count: u64,
    bytes: u64,
}

/// A line, without its end.
pub(crate) struct Line<'a> {
    /// Counted from 1.
    pub(crate) number: u64,
    pub(crate) text: &'a [u8],
    /// Only the first [`MAX_LINE`] bytes are there.
    pub(crate) is_too_long: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self {
            input,
            buffer: vec![0; BUFFER].into(),
            left: 0..0,
            is_at_end: false,
            is_in_long_line: false,
            count: 0,
            bytes: 0,
        }
    }

    /// The number of lines that were returned.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The number of bytes that were read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The beginning of the file: as many whole lines as the buffer has room for. Nothing of it is consumed.
    pub(crate) fn head(&mut self) -> Result<&[u8]> {
        while !self.is_at_end && self.left.end < self.buffer.len() {
            self.fill()?;
        }
        let head = &self.buffer[self.left.clone()];
        let whole = match memchr::memrchr(b'\n', head) {
            Some(end) if !self.is_at_end => end,
            _ => head.len(),
        };
        Ok(&head[..whole])
    }

    /// Skips `bytes`, which [`Lines::head`] has returned.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.left.start += bytes;
    }

    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>> {
        loop {
            let text = &self.buffer[self.left.clone()];
            let end = memchr(b'\n', text);
            let length = end.unwrap_or(text.len());
            let is_too_long = length > MAX_LINE;
            if end.is_some() || is_too_long || (self.is_at_end && length > 0) {
                let begin = self.left.start;
                self.left.start += end.map_or(length, |end| end + 1);
                let was_in_long_line = self.is_in_long_line;
                self.is_in_long_line = end.is_none();
                if was_in_long_line {
                    continue;
                }
                self.count += 1;
                return Ok(Some(Line {
                    number: self.count,
                    text: &self.buffer[begin..begin + length.min(MAX_LINE)],
                    is_too_long,
                }));
            }
            if self.is_at_end {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    /// Reads more behind what is left, which is shorter than the buffer.
    fn fill(&mut self) -> Result<()> {
        if self.left.start > 0 {
            self.buffer.copy_within(self.left.clone(), 0);
            self.left = 0..self.left.len();
        }
        let length = loop {
            match self.input.read(&mut self.buffer[self.left.end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.left.end += length;
        self.bytes += length as u64;
        self.is_at_end = length == 0;
        Ok(())
    }
}

/// What a line has, without a carriage return: `None` for blank lines and comments.
pub(crate) fn content(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let is_skipped = line.starts_with(b"#") || line.trim_ascii().is_empty();
    (!is_skipped).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads few bytes at a time.
    struct Dripping<'a>(&'a [u8], usize);

    impl Read for Dripping<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            let length = self.1.min(buffer.len());
            self.0.read(&mut buffer[..length])
        }
    }

    fn read(text: &[u8], step: usize) -> Vec<(u64, Vec<u8>, bool)> {
        let mut lines = Lines::new(Dripping(text, step));
        let mut all = Vec::new();
        while let Some(line) = lines.next().expect("no error") {
            all.push((line.number, line.text.to_vec(), line.is_too_long));
        }
        assert_eq!(lines.bytes(), text.len() as u64);
        all
    }

    #[test]
    fn lines_are_the_same_however_the_bytes_come() {
        let text = b"one\n\ntwo\r\nthree";
        let expected = [(1, "one"), (2, ""), (3, "two\r"), (4, "three")]
            .map(|(number, text)| (number, text.as_bytes().to_vec(), false));
        for step in [1, 2, 5, 1_000] {
            assert_eq!(read(text, step), expected, "{step}");
        }
        assert_eq!(read(b"", 1), []);
        assert_eq!(read(b"\n", 1), [(1, Vec::new(), false)]);
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_and_the_next_one_is_whole() {
        for length in [
            MAX_LINE,
            MAX_LINE + 1,
            BUFFER - 1,
            BUFFER,
            BUFFER + 1,
            3 * BUFFER,
        ] {
            let mut text = vec![b'x'; length];
            text.extend(b"\nnext\n");
            let expected = [
                (1, vec![b'x'; MAX_LINE], length > MAX_LINE),
                (2, b"next".to_vec(), false),
            ];
            for step in [7_919, usize::MAX] {
                assert!(read(&text, step) == expected, "{length} by {step}");
            }
        }
        let lines = read(&vec![b'x'; 3 * BUFFER], usize::MAX);
        assert!(lines.len() == 1 && lines[0].2);
    }

    #[test]
    fn the_head_has_whole_lines_and_consumes_none() {
        let text = b"a line\n".repeat(BUFFER);
        let mut lines = Lines::new(&text[..]);
        let head = lines.head().expect("no error");
        assert!(head.len() > BUFFER - 10 && head.ends_with(b"a line"));
        let first = lines.next().expect("no error").expect("a line");
        assert_eq!((first.number, first.text), (1, &b"a line"[..]));
        assert_eq!(Lines::new(&b"one\ntwo"[..]).head().unwrap(), b"one\ntwo");
    }
}
