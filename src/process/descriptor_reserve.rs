//! A reserve of file descriptors, for work that must go on when connections have used up all others.

use std::fs::File;
use std::io;

use parking_lot::Mutex;

const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// Descriptors for a WAL segment and its directory, and for a telemetry file and its directory. Without its next
/// segment the WAL rejects all writes.
const FOR_FILES: usize = 8;
/// Descriptors for connections of administrators, who must still be able to find the cause.
const FOR_ADMINISTRATORS: usize = 4;

static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());

pub fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

pub fn fill() {
    let mut reserved = RESERVED.lock();
    while reserved.len() < FOR_FILES + FOR_ADMINISTRATORS {
        match File::open("/dev/null") {
            Ok(file) => reserved.push(file),
            // No descriptor is free: a later call fills the rest.
            Err(_) => return,
        }
    }
}

/// Opens a file. If no descriptor is free, the reserve releases one.
pub(crate) fn open(attempt: impl Fn() -> io::Result<File>) -> io::Result<File> {
    loop {
        match attempt() {
            // Another thread may take the released descriptor; the loop then releases the next one.
            Err(error) if is_exhaustion(&error) && release(0) => {}
            other => return other,
        }
    }
}

/// Releases a descriptor for a connection of an administrator. Returns false if only those for files are left.
pub fn release_for_administrator() -> bool {
    release(FOR_FILES)
}

fn release(keep: usize) -> bool {
    let mut reserved = RESERVED.lock();
    reserved.len() > keep && reserved.pop().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_is_released_when_no_other_descriptor_is_left() {
        fill();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let failures = Mutex::new(2);
        open(|| {
            let mut failures = failures.lock();
            if *failures > 0 {
                *failures -= 1;
                return Err(io::Error::from_raw_os_error(EMFILE));
            }
            File::create(&path)
        })
        .unwrap();
        assert!(path.exists());
        fill();
        // Administrators leave the descriptors for files.
        let taken = (0..100).take_while(|_| release_for_administrator());
        assert_eq!(taken.count(), FOR_ADMINISTRATORS);
        // Without a reserve the caller gets the error.
        let error = open(|| Err(io::Error::from_raw_os_error(EMFILE))).unwrap_err();
        assert!(is_exhaustion(&error));
        fill();
    }
}
