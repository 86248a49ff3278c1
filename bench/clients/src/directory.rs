//! A place for servers' and clients' files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of our own, removed when this is dropped.
pub struct Directory(PathBuf);

impl Directory {
    /// # Errors
    ///
    /// A message if it cannot be made.
    pub fn new() -> Result<Directory, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("flowgate-clients-{}-{number}", process::id());
        let path = std::env::temp_dir().join(name);
        // Not `create_dir_all`: one that exists is another's.
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Directory(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
