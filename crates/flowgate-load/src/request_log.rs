//! A line per request, written beside the run.
//!
//! ```text
//!  shards ── events ──▶ counting thread ── the same events, if there is room ──▶ writer ──▶ file
//! ```

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use crate::event::{Event, Outcome};

/// Maximum number of batches, of at most 4096 events each, that wait for the writer.
const MOST_WAITING: usize = 64;

/// Log with a line of JSON per request, for [`run_logged`](crate::run_logged).
///
/// A separate thread writes the lines. If it is too slow, the log loses lines and counts them; requests are never delayed.
/// Up to 262,144 events wait in memory.
///
/// Lines are in the order of completion. Each has these fields, with times in nanoseconds since the start of the run:
///
/// - `scheduled_ns`: scheduled time
/// - `sent_ns`: time of the first byte written; `null` if the request was not sent
/// - `done_ns`: time at which the request was complete; absent if the request was skipped
/// - `status` and `bytes` of the response, or else `error`: the kind of failure, `unanswered`, or `skipped`
///
/// # Examples
///
/// ```
/// use flowgate_load::{Extent, Origin, Pace, Plan, RequestLog, Stop, Target};
///
/// let origin = Origin::start()?;
/// let plan = Plan::new(Target::parse(&origin.url())?, Pace::Unpaced(Extent::Requests(3)));
/// let log = RequestLog::new(std::io::sink())?;
/// flowgate_load::run_logged(plan, &Stop::new(), |_| {}, &log)?;
/// assert_eq!(log.finish()?, 0); // no line was lost
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RequestLog {
    batches: SyncSender<Vec<Event>>,
    lost: AtomicU64,
    writer: JoinHandle<io::Result<()>>,
}

impl RequestLog {
    /// Creates a log, and the thread that writes it.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system refuses a thread.
    pub fn new(output: impl Write + Send + 'static) -> io::Result<RequestLog> {
        let (batches, received) = sync_channel(MOST_WAITING);
        let writer = thread::Builder::new()
            .name("flowgate-load-log".to_owned())
            .spawn(move || write(&received, BufWriter::new(output)))?;
        Ok(RequestLog {
            batches,
            lost: AtomicU64::new(0),
            writer,
        })
    }

    /// Passes events to the writer, or counts their lines as lost.
    pub(crate) fn offer(&self, events: Vec<Event>) {
        if let Err(TrySendError::Full(events) | TrySendError::Disconnected(events)) =
            self.batches.try_send(events)
        {
            let lines = events.iter().filter(|event| is_line(event)).count();
            self.lost.fetch_add(lines as u64, Ordering::Relaxed);
        }
    }

    /// Waits until all lines are written, and returns the number of lines that were lost.
    ///
    /// # Errors
    ///
    /// Returns the first error of writing.
    pub fn finish(self) -> io::Result<u64> {
        drop(self.batches);
        match self.writer.join() {
            Ok(written) => written?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(self.lost.into_inner())
    }
}

fn write(batches: &Receiver<Vec<Event>>, mut output: impl Write) -> io::Result<()> {
    for events in batches {
        for event in &events {
            line(event, &mut output)?;
        }
    }
    output.flush()
}

fn is_line(event: &Event) -> bool {
    matches!(event, Event::Over { .. } | Event::Skipped { .. })
}

/// Writes the line of a request that is complete or skipped.
fn line(event: &Event, output: &mut impl Write) -> io::Result<()> {
    match *event {
        Event::Skipped { scheduled_ns } => {
            writeln!(
                output,
                "{{\"scheduled_ns\":{scheduled_ns},\"sent_ns\":null,\"error\":\"skipped\"}}"
            )
        }
        Event::Over {
            scheduled_ns,
            sent_ns,
            done_ns,
            outcome,
        } => {
            write!(output, "{{\"scheduled_ns\":{scheduled_ns},\"sent_ns\":")?;
            match sent_ns {
                Some(sent_ns) => write!(output, "{sent_ns}")?,
                None => output.write_all(b"null")?,
            }
            write!(output, ",\"done_ns\":{done_ns},")?;
            match outcome {
                Outcome::Answered(answer) => {
                    let (status, bytes) = (answer.status.as_u16(), answer.bytes);
                    writeln!(output, "\"status\":{status},\"bytes\":{bytes}}}")
                }
                Outcome::Failed(failure) => {
                    writeln!(output, "\"error\":\"{}\"}}", failure.code())
                }
                Outcome::Abandoned => writeln!(output, "\"error\":\"unanswered\"}}"),
            }
        }
        _ => Ok(()),
    }
}

impl fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestLog")
            .field("lost", &self.lost)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};

    use hyper::StatusCode;
    use serde_json::Value;

    use super::*;
    use crate::connection::Answer;
    use crate::failure::Failure;

    fn over(scheduled_ns: u64, sent_ns: Option<u64>, outcome: Outcome) -> Event {
        Event::Over {
            scheduled_ns,
            sent_ns,
            done_ns: scheduled_ns + 9,
            outcome,
        }
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_request_has_one_line() {
        let written = Shared::default();
        let log = RequestLog::new(written.clone()).unwrap();
        let answered = Outcome::Answered(Answer::new(StatusCode::NOT_FOUND, 7));
        log.offer(vec![
            Event::Scheduled { scheduled_ns: 1 },
            Event::Sent {
                scheduled_ns: 1,
                sent_ns: 2,
            },
            over(1, Some(2), answered),
            Event::Skipped { scheduled_ns: 3 },
        ]);
        log.offer(vec![
            over(4, None, Outcome::Failed(Failure::Refused)),
            over(5, Some(6), Outcome::Abandoned),
        ]);
        assert_eq!(log.finish().unwrap(), 0);
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let expected = [
            r#"{"scheduled_ns":1,"sent_ns":2,"done_ns":10,"status":404,"bytes":7}"#,
            r#"{"scheduled_ns":3,"sent_ns":null,"error":"skipped"}"#,
            r#"{"scheduled_ns":4,"sent_ns":null,"done_ns":13,"error":"connection-refused"}"#,
            r#"{"scheduled_ns":5,"sent_ns":6,"done_ns":14,"error":"unanswered"}"#,
        ];
        let expected: Vec<Value> = expected
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines, expected);
    }

    /// A disk that writes nothing until it is told to.
    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disk_that_is_too_slow_costs_lines_and_no_time() {
        let (go_on, told) = channel();
        let log = RequestLog::new(Stuck(told)).unwrap();
        // More than the writer's buffer holds, so that it is stuck within the first batch.
        let batch = || vec![over(1, Some(2), Outcome::Abandoned); 1000];
        let offered = MOST_WAITING + 10;
        (0..offered).for_each(|_| log.offer(batch()));
        drop(go_on);
        let lost = log.finish().unwrap();
        // One batch is being written, and as many as there is room for wait.
        assert!(lost == 9_000 || lost == 10_000, "{lost}");
    }

    #[test]
    fn an_error_of_the_disk_is_returned() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let log = RequestLog::new(Full).unwrap();
        log.offer(vec![over(1, None, Outcome::Abandoned)]);
        assert_eq!(log.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
