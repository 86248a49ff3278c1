//! Programs that run beside this one, and never longer.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::directory::Directory;

/// How often it is looked whether a program has ended: seldom enough not to disturb it.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A program. If it still runs when this is dropped, it is killed.
pub struct Running {
    name: String,
    child: Child,
    /// Has what it prints.
    directory: Directory,
}

impl Running {
    /// # Errors
    ///
    /// A message if it cannot be started.
    pub fn start(program: &Path, arguments: &[String]) -> Result<Running, String> {
        let name = program.display().to_string();
        let failed = |error| format!("{name} cannot be started: {error}");
        let directory = Directory::new()?;
        let printed = File::create(directory.path().join("printed")).map_err(failed)?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(printed.try_clone().map_err(failed)?)
            .stderr(printed)
            .spawn()
            .map_err(failed)?;
        Ok(Running {
            name,
            child,
            directory,
        })
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// A message if it has not ended after `patience`.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus, String> {
        let until = Instant::now() + patience;
        loop {
            let ended = self.child.try_wait();
            if let Some(status) = ended.map_err(|error| format!("{}: {error}", self.name))? {
                return Ok(status);
            }
            if Instant::now() >= until {
                return Err(format!("{} did not end in {patience:?}", self.name));
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Has it ended?
    pub fn has_ended(&mut self) -> bool {
        // If that cannot be said, it is no longer ours to wait for.
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end.
    pub fn signal(&mut self, signal: Signal) {
        // Not waited for yet, the id is still its own.
        if !self.has_ended() {
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// All that it printed so far, on both streams.
    pub fn printed(&self) -> String {
        let bytes = fs::read(self.directory.path().join("printed")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail, harmlessly, when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        let arguments = ["-c".to_owned(), script.to_owned()];
        Running::start(Path::new("/bin/sh"), &arguments).expect("there is a shell")
    }

    #[test]
    fn it_gives_how_a_program_ended_and_what_it_printed() {
        let mut program = shell("echo one; echo two >&2; exit 3");
        let status = program.wait(Duration::from_secs(20)).expect("it ends");
        assert_eq!(status.code(), Some(3));
        assert_eq!(program.printed(), "one\ntwo\n");
    }

    #[test]
    fn one_that_does_not_end_is_killed() {
        let mut program = shell("exec sleep 600");
        let error = program.wait(Duration::ZERO).expect_err("it sleeps");
        assert_eq!(error, "/bin/sh did not end in 0ns");
        let process = format!("/proc/{}", program.child.id());
        assert!(Path::new(&process).exists());
        drop(program);
        assert!(!Path::new(&process).exists());
    }
}
