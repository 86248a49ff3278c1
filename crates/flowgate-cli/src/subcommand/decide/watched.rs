//! Files that others change while the command runs.

use std::fs::{self, Metadata};
use std::path::PathBuf;
use std::time::SystemTime;

/// Files, and how they were when they were last read.
#[derive(Debug)]
pub(super) struct Watched {
    files: Vec<PathBuf>,
    read: Marks,
    seen: Marks,
}

/// One for each file. `None`: there is no such file.
type Marks = Vec<Option<Mark>>;

/// What differs when a file has changed, or another one is in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    modified: Option<SystemTime>,
    bytes: u64,
    /// Device, file, and the time of the last change of any kind.
    #[cfg(unix)]
    file: (u64, u64, i64, i64),
}

impl Mark {
    fn of(metadata: &Metadata) -> Mark {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        Mark {
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
            #[cfg(unix)]
            file: (
                metadata.dev(),
                metadata.ino(),
                metadata.ctime(),
                metadata.ctime_nsec(),
            ),
        }
    }
}

impl Watched {
    /// Watches files that are read after this.
    pub(super) fn new(files: Vec<PathBuf>) -> Watched {
        let marks = marks(&files);
        Watched {
            files,
            read: marks.clone(),
            seen: marks,
        }
    }

    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns whether the files are to be read now: the operator says so, or they have changed since they were read, and not since
    /// the last look. So a file that is written in several steps is not read in the middle.
    pub(super) fn is_to_be_read(&mut self, is_told: bool) -> bool {
        let now = marks(&self.files);
        if is_told {
            self.read.clone_from(&now);
            self.seen = now;
            return true;
        }
        self.look(now)
    }

    fn look(&mut self, now: Marks) -> bool {
        let is_still = now == self.seen;
        self.seen = now;
        if is_still && self.seen != self.read {
            self.read.clone_from(&self.seen);
            return true;
        }
        false
    }
}

/// Links are followed, as a reader follows them.
fn marks(files: &[PathBuf]) -> Marks {
    let mark = |file: &PathBuf| fs::metadata(file).ok().as_ref().map(Mark::of);
    files.iter().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::{Mark, Watched};
    use std::fs::{self, File};

    #[test]
    fn a_file_is_read_once_it_stays_as_it_is() {
        let any = Mark::of(&fs::metadata(".").unwrap());
        let mark = |bytes| {
            vec![Some(Mark {
                bytes,
                ..any.clone()
            })]
        };
        let mut watched = Watched {
            files: Vec::new(),
            read: mark(1),
            seen: mark(1),
        };
        for (now, expected) in [
            (mark(1), false),
            (mark(2), false),
            // It was still being written.
            (mark(3), false),
            (mark(3), true),
            (mark(3), false),
            // It is gone, which is a mistake that is told once.
            (vec![None], false),
            (vec![None], true),
            (vec![None], false),
            // It is back as it was when it was read.
            (mark(3), false),
            (mark(3), true),
            // It was changed and changed back.
            (mark(4), false),
            (mark(3), false),
            (mark(3), false),
        ] {
            assert_eq!(watched.look(now.clone()), expected, "{now:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_another_file_is_a_change() {
        use std::os::unix::fs::symlink;

        let folder = format!("flowgate-watched-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let [one, other, link, next] =
            ["one", "other", "link", "next"].map(|name| folder.join(name));
        // Both were written in the same moment, and are equally long.
        for path in [&one, &other] {
            let file = File::create(path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH)
                .unwrap();
        }
        symlink(&one, &link).unwrap();
        let mut watched = Watched::new(vec![link.clone()]);
        assert!(!watched.is_to_be_read(false));
        symlink(&other, &next).unwrap();
        fs::rename(&next, &link).unwrap();
        assert_eq!(
            [watched.is_to_be_read(false), watched.is_to_be_read(false)],
            [false, true]
        );
        fs::write(&other, "x").unwrap();
        assert!(watched.is_to_be_read(true));
        assert_eq!(
            [watched.is_to_be_read(false), watched.is_to_be_read(false)],
            [false, false]
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
