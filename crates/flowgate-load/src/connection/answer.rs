//! Parses an HTTP/1.1 response: httparse reads the head, and the body is counted and discarded.
//!
//! ```text
//!   head ─▶ 1xx ─▶ head again
//!     ├──▶ HEAD, 204, 304 ──────────────▶ done
//!     ├──▶ chunked ─▶ size, data … 0, trailers ─▶ done
//!     ├──▶ Content-Length ─▶ that many bytes ─▶ done
//!     ╰──▶ neither ─▶ all until the connection closes
//! ```
//!
//! Source: RFC 9112, sections 6 and 7.

use std::time::Instant;

use httparse::Status;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use super::{Answer, Body, ContentCoding, MAX_HEAD_BYTES};
use crate::clock_offset::SecondOfDay;
use crate::failure::Failure;

/// More headers than any server sends.
const MAX_HEADERS: usize = 128;

/// Progress of reading one response.
#[derive(Debug)]
pub(super) struct Reader {
    is_head: bool,
    status: StatusCode,
    body_bytes: u64,
    date: Option<SecondOfDay>,
    coding: Option<ContentCoding>,
    /// Whether a compressed body is kept, and it.
    collects: bool,
    body: Option<Body>,
    keeps_alive: bool,
    stage: Stage,
    /// The head, if the caller wants it.
    kept: Option<Head>,
}

/// Head of a response.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// Time at which the head was complete.
    pub(crate) at: Instant,
    pub(crate) headers: HeaderMap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Head,
    /// Remaining bytes of the body.
    Body(u64),
    ChunkSize,
    Chunk(u64),
    /// The line end after a chunk.
    ChunkEnd,
    Trailers,
    UntilClosed,
    Done,
}

impl Reader {
    /// Reads the response to a request; `is_head` if its method is `HEAD`.
    pub(super) fn new(is_head: bool) -> Reader {
        Reader {
            is_head,
            status: StatusCode::OK,
            body_bytes: 0,
            date: None,
            coding: None,
            collects: false,
            body: None,
            keeps_alive: true,
            stage: Stage::Head,
            kept: None,
        }
    }

    /// Like [`new`](Reader::new), and keeps the head.
    pub(super) fn keeping_head(is_head: bool) -> Reader {
        Reader {
            kept: Some(Head {
                at: Instant::now(),
                headers: HeaderMap::new(),
            }),
            ..Reader::new(is_head)
        }
    }

    /// Keeps the body, if it is compressed.
    pub(super) fn collect(&mut self) {
        self.collects = true;
    }

    /// Returns the body, if it was kept.
    pub(super) fn take_body(&mut self) -> Option<Body> {
        self.body.take()
    }

    /// Returns the head, if it was kept.
    pub(super) fn into_head(self) -> Option<Head> {
        self.kept
    }

    /// Reads on. Returns how many of `bytes` were consumed; 0 if more bytes are needed first.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let mut read = 0;
        while !self.is_done() && read < bytes.len() {
            let step = self.step(&bytes[read..])?;
            if step == 0 {
                break;
            }
            read += step;
        }
        Ok(read)
    }

    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Handles the end of the connection.
    pub(super) fn closed(&mut self) -> Result<(), Failure> {
        self.keeps_alive = false;
        match self.stage {
            Stage::UntilClosed => {
                self.stage = Stage::Done;
                Ok(())
            }
            Stage::Done => Ok(()),
            _ => Err(Failure::Closed),
        }
    }

    pub(super) fn keeps_alive(&self) -> bool {
        self.keeps_alive
    }

    pub(super) fn answer(&self) -> Answer {
        Answer {
            date: self.date,
            coding: self.coding,
            ..Answer::new(self.status, self.body_bytes)
        }
    }

    fn step(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        match self.stage {
            Stage::Head => self.head(bytes),
            Stage::Body(left) => Ok(self.body(bytes, left, Stage::Body, Stage::Done)),
            Stage::Chunk(left) => Ok(self.body(bytes, left, Stage::Chunk, Stage::ChunkEnd)),
            Stage::UntilClosed => {
                self.count(bytes);
                Ok(bytes.len())
            }
            Stage::ChunkSize => match httparse::parse_chunk_size(bytes) {
                Ok(Status::Complete((length, size))) => {
                    self.stage = match size {
                        0 => Stage::Trailers,
                        size => Stage::Chunk(size),
                    };
                    Ok(length)
                }
                Ok(Status::Partial) => partial(bytes),
                Err(_) => Err(Failure::NotHttp),
            },
            Stage::ChunkEnd => match bytes {
                [b'\r', b'\n', ..] => {
                    self.stage = Stage::ChunkSize;
                    Ok(2)
                }
                [b'\r'] => Ok(0),
                _ => Err(Failure::NotHttp),
            },
            Stage::Trailers => {
                let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
                match httparse::parse_headers(bytes, &mut headers) {
                    Ok(Status::Complete((length, _))) => {
                        self.stage = Stage::Done;
                        Ok(length)
                    }
                    Ok(Status::Partial) => partial(bytes),
                    Err(_) => Err(Failure::NotHttp),
                }
            }
            Stage::Done => Ok(0),
        }
    }

    fn body(&mut self, bytes: &[u8], left: u64, more: fn(u64) -> Stage, end: Stage) -> usize {
        let here = left.min(bytes.len() as u64);
        self.count(&bytes[..here as usize]);
        self.stage = match left - here {
            0 => end,
            left => more(left),
        };
        here as usize
    }

    /// Counts bytes of the body.
    fn count(&mut self, bytes: &[u8]) {
        self.body_bytes += bytes.len() as u64;
        if let Some(body) = &mut self.body {
            body.add(bytes);
        }
    }

    fn head(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let mut headers = [const { std::mem::MaybeUninit::uninit() }; MAX_HEADERS];
        let mut head = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default()
            .allow_obsolete_multiline_headers_in_responses(true)
            .parse_response_with_uninit_headers(&mut head, bytes, &mut headers);
        let length = match parsed {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => return partial(bytes),
            Err(_) => return Err(Failure::NotHttp),
        };
        self.status = head
            .code
            .and_then(|code| StatusCode::from_u16(code).ok())
            .ok_or(Failure::NotHttp)?;
        self.stage = match self.status.as_u16() {
            // Any following protocol is not HTTP.
            101 => {
                self.keeps_alive = false;
                Stage::Done
            }
            100..=199 => Stage::Head,
            _ => {
                self.keep(&head);
                self.framing(&head)?
            }
        };
        Ok(length)
    }

    /// Keeps the head of a final response, if the caller wants it.
    fn keep(&mut self, head: &httparse::Response<'_, '_>) {
        let Some(kept) = &mut self.kept else {
            return;
        };
        kept.at = Instant::now();
        for header in head.headers.iter() {
            // Headers that cannot be parsed are ignored.
            if let (Ok(name), Ok(value)) = (
                HeaderName::from_bytes(header.name.as_bytes()),
                HeaderValue::from_bytes(header.value),
            ) {
                kept.headers.append(name, value);
            }
        }
    }

    /// Returns how the head of a final response delimits the body, and reads its other headers that matter.
    fn framing(&mut self, head: &httparse::Response<'_, '_>) -> Result<Stage, Failure> {
        let mut length = None;
        let mut is_coded = false;
        let mut is_chunked = false;
        self.keeps_alive = head.version == Some(1);
        for header in head.headers.iter() {
            if header.name.eq_ignore_ascii_case("content-length") {
                for item in items(header.value) {
                    let said = number(item).ok_or(Failure::NotHttp)?;
                    if length.is_some_and(|length| length != said) {
                        return Err(Failure::NotHttp);
                    }
                    length = Some(said);
                }
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                is_coded = true;
                for item in items(header.value) {
                    is_chunked = item.eq_ignore_ascii_case(b"chunked");
                }
            } else if header.name.eq_ignore_ascii_case("date") {
                self.date = SecondOfDay::parse(header.value);
            } else if header.name.eq_ignore_ascii_case("content-encoding") {
                self.coding = ContentCoding::parse(header.value);
            } else if header.name.eq_ignore_ascii_case("connection") {
                for item in items(header.value) {
                    if item.eq_ignore_ascii_case(b"close") {
                        self.keeps_alive = false;
                    } else if item.eq_ignore_ascii_case(b"keep-alive") && head.version == Some(0) {
                        self.keeps_alive = true;
                    }
                }
            }
        }
        self.body = self.coding.filter(|_| self.collects).map(Body::new);
        let has_none = self.is_head || matches!(self.status.as_u16(), 204 | 304);
        Ok(match length {
            _ if has_none => Stage::Done,
            _ if is_chunked => Stage::ChunkSize,
            Some(0) if !is_coded => Stage::Done,
            Some(length) if !is_coded => Stage::Body(length),
            _ => {
                self.keeps_alive = false;
                Stage::UntilClosed
            }
        })
    }
}

/// Reports that more bytes are needed, unless there are too many already.
fn partial(bytes: &[u8]) -> Result<usize, Failure> {
    match bytes.len() < MAX_HEAD_BYTES {
        true => Ok(0),
        false => Err(Failure::NotHttp),
    }
}

/// Returns the items of a list header.
fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `text` in pieces of `cut` bytes. Returns the reader and the number of bytes left over.
    fn read(text: &str, is_head: bool, cut: usize) -> Result<(Reader, usize), Failure> {
        let mut reader = Reader::new(is_head);
        let mut buffer = Vec::new();
        for piece in text.as_bytes().chunks(cut) {
            buffer.extend_from_slice(piece);
            let length = reader.read(&buffer)?;
            buffer.drain(..length);
        }
        Ok((reader, buffer.len()))
    }

    /// Returns status, body length, whether the connection stays open, whether the response is complete, and the bytes
    /// left over.
    fn outcome(text: &str, is_head: bool) -> Result<(u16, u64, bool, bool, usize), Failure> {
        let outcomes = [1, 2, 3, 7, 19, text.len().max(1)].map(|cut| {
            read(text, is_head, cut).map(|(reader, left)| {
                let answer = reader.answer();
                let (stays, is_done) = (reader.keeps_alive(), reader.is_done());
                (answer.status.as_u16(), answer.bytes, stays, is_done, left)
            })
        });
        for other in &outcomes {
            assert_eq!(*other, outcomes[0], "{text:?}");
        }
        outcomes[0]
    }

    #[test]
    fn answers_end_where_rfc_9112_says() {
        for (text, expected) in [
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc",
                (200, 3, true, true, 0),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\nContent-Length: 3\r\n\r\nabcX",
                (200, 3, true, true, 1),
            ),
            (
                "HTTP/1.1 404 \r\ncontent-length: 0\r\n\r\n",
                (404, 0, true, true, 0),
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", (204, 0, true, true, 0)),
            (
                "HTTP/1.1 304 Not Modified\r\ncontent-length: 99\r\n\r\n",
                (304, 0, true, true, 0),
            ),
            (
                "HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 1\r\n\r\na",
                (200, 1, false, true, 0),
            ),
            (
                "HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na",
                (200, 1, false, true, 0),
            ),
            (
                "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\na",
                (200, 1, true, true, 0),
            ),
            ("HTTP/1.1 200 OK\r\n\r\nabcd", (200, 4, false, false, 0)),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nlink: y\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na",
                (200, 1, true, true, 0),
            ),
            (
                "HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\nabc",
                (101, 0, false, true, 3),
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
                (200, 13, true, true, 0),
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\ncontent-length: 5\r\n\r\n1\r\na\r\n0\r\nx: y\r\n\r\nZZ",
                (200, 1, true, true, 2),
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nabc",
                (200, 3, false, false, 0),
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc",
                (200, 3, true, false, 0),
            ),
        ] {
            assert_eq!(outcome(text, false), Ok(expected), "{text:?}");
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n";
        assert_eq!(outcome(head, true), Ok((200, 0, true, true, 0)));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for text in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.1 abc OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
        ] {
            assert_eq!(outcome(text, false), Err(Failure::NotHttp), "{text:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(MAX_HEAD_BYTES));
        assert_eq!(read(&endless, false, 4096).unwrap_err(), Failure::NotHttp);
    }

    #[test]
    fn a_close_ends_what_has_no_other_end() {
        let (mut reader, _) = read("HTTP/1.1 200 OK\r\n\r\nabc", false, 5).unwrap();
        assert_eq!(reader.closed(), Ok(()));
        assert!(reader.is_done() && !reader.keeps_alive());
        for text in [
            "",
            "HTTP/1.1 20",
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
        ] {
            let (mut reader, _) = read(text, false, 5).unwrap();
            assert_eq!(reader.closed(), Err(Failure::Closed), "{text:?}");
        }
    }
}
