//! Processes of this program in which one limiter is alone: no other pollutes its caches or page tables, or
//! has left free memory behind.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::keys::{Key, Kind};
use crate::subject::Subject;
use crate::{flood, speed};

/// The option that says what to do alone.
pub const OPTION: &str = "--alone";

/// What one limiter does alone.
#[derive(Debug, Serialize, Deserialize)]
pub enum Task {
    /// Decides, whenever asked to.
    Decide(speed::Situation),
    /// Calls this many new keys.
    Fill { keys: usize },
    /// Is flooded.
    Flood(flood::Plan),
}

/// An operation with its subject.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    pub subject: String,
    pub keys: Kind,
    pub task: Task,
}

/// A process that does a job. It is ended when this is dropped.
pub struct Alone {
    subject: String,
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Alone {
    /// # Errors
    ///
    /// A message if it cannot be started.
    pub fn start(job: &Job) -> Result<Alone, String> {
        let failed = |error: io::Error| format!("{} alone: {error}", job.subject);
        let text = serde_json::to_string(job).map_err(|error| failed(error.into()))?;
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .args([OPTION, &text])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let streams = child.stdin.take().zip(child.stdout.take());
        let (questions, answers) = streams.ok_or("a process without the pipes it was given")?;
        Ok(Alone {
            subject: job.subject.clone(),
            child,
            questions,
            answers: BufReader::new(answers),
        })
    }

    /// The next thing it says.
    ///
    /// # Errors
    ///
    /// A message if it ended instead.
    pub fn answer<A: DeserializeOwned>(&mut self) -> Result<A, String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        let answer = read.and_then(|_| Ok(serde_json::from_str::<Result<A, String>>(&line)?));
        answer
            .map_err(|error| format!("it ended: {error}"))
            .flatten()
            .map_err(|error| format!("{} alone: {error}", self.subject))
    }

    /// What it says to `question`.
    ///
    /// # Errors
    ///
    /// A message if it ended instead.
    pub fn ask<A: DeserializeOwned>(&mut self, question: &impl Serialize) -> Result<A, String> {
        let asked = serde_json::to_string(question)
            .map_err(io::Error::from)
            .and_then(|text| writeln!(self.questions, "{text}"));
        asked.map_err(|error| format!("{} alone: {error}", self.subject))?;
        self.answer()
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // Both fail, harmlessly, when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Performs a job, in the process that was started for it.
///
/// # Errors
///
/// Returns a message if the starting process no longer reads.
pub fn serve(job: &str) -> Result<(), String> {
    let job: Job = serde_json::from_str(job).map_err(|error| error.to_string())?;
    match (job.keys, &job.task) {
        (Kind::U64, Task::Flood(_)) => serve_with(&job, flood::subjects()),
        (Kind::U64, _) => serve_with(&job, u64::subjects()),
        (Kind::String, _) => serve_with(&job, String::subjects()),
    }
}

fn serve_with<K: Key>(job: &Job, subjects: Vec<Subject<K>>) -> Result<(), String> {
    let named = |subject: &Subject<K>| subject.name == job.subject;
    let subject = subjects.into_iter().find(named);
    let subject = subject.ok_or_else(|| format!("there is no subject {:?}", job.subject))?;
    match &job.task {
        Task::Decide(situation) => speed::serve(&subject, *situation),
        Task::Fill { keys } => say(&(subject.fill)(*keys)),
        Task::Flood(plan) => say(&(subject.flood)(plan)),
    }
}

/// Sends the answer to the process that started this one.
///
/// # Errors
///
/// Returns a message if the starting process no longer reads.
pub fn say<A: Serialize>(answer: &Result<A, String>) -> Result<(), String> {
    let text = serde_json::to_string(answer).map_err(|error| error.to_string())?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")
        .and_then(|()| stdout.flush())
        .map_err(|error| error.to_string())
}

/// The memory of this process that is in use, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    pub now: u64,
    /// The most so far.
    pub most: u64,
}

impl Resident {
    /// # Errors
    ///
    /// A message if the kernel does not tell.
    pub fn read() -> Result<Resident, String> {
        let status = fs::read_to_string("/proc/self/status")
            .map_err(|error| format!("/proc/self/status: {error}"))?;
        let bytes = |name| {
            let mut lines = status.lines();
            let value = lines.find_map(|line| line.strip_prefix(name))?;
            let kib = value.trim().strip_suffix("kB")?.trim();
            Some(kib.parse::<u64>().ok()? * 1024)
        };
        bytes("VmRSS:")
            .zip(bytes("VmHWM:"))
            .map(|(now, most)| Resident {
                now,
                // The kernel keeps it now and then, and so may be late.
                most: most.max(now),
            })
            .ok_or_else(|| "/proc/self/status: says nothing of memory".to_owned())
    }
}

/// How often this process was set aside for another.
pub fn preemptions() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn memory_that_is_written_to_is_resident() {
        let before = Resident::read().expect("there is a kernel");
        let written = black_box(vec![1_u8; 64 << 20]);
        let after = Resident::read().expect("there is a kernel");
        assert!(after.now >= before.now + (60 << 20), "{before:?} {after:?}");
        drop(written);
        let most = Resident::read().expect("there is a kernel").most;
        assert!(most + (1 << 20) >= after.now, "{most} {after:?}");
    }
}
