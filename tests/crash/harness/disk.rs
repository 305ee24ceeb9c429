//! File systems for tests: ext4 in a loop-mounted file, which can be cut off as by a power cut, and small tmpfs.
//! Dropping the value unmounts them, also after a panic.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

// `super`, because the fleet tests include this file too.
use super::process::InTime as _;

/// Sends the ext4 shutdown request without flushing the journal: what is not on the disk yet never gets there. Perl,
/// because every Debian has it and the request needs no `unsafe` code.
const SHUTDOWN: &str = r#"open my $top, "<", $ARGV[0] or die "open: $!\n";
my $without_flush = pack("L", 2);
ioctl($top, 0x8004587d, $without_flush) or die "shutdown: $!\n";"#;

pub struct Disk {
    kind: Kind,
    mount: PathBuf,
    mounted: bool,
    _folder: TempDir,
}

enum Kind {
    Image(PathBuf),
    Memory(String),
}

impl Disk {
    /// Mounts a new ext4 file system.
    pub fn ext4(mebibytes: u32) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let file = fs::File::create(&image).unwrap();
        file.set_len(u64::from(mebibytes) << 20).unwrap();
        drop(file);
        run(Command::new("mkfs.ext4").arg("-q").arg(&image))?;
        Self::new(Kind::Image(image), folder)
    }

    pub fn tmpfs(options: &str) -> Result<Self, String> {
        Self::new(
            Kind::Memory(options.to_owned()),
            tempfile::tempdir().unwrap(),
        )
    }

    fn new(kind: Kind, folder: TempDir) -> Result<Self, String> {
        let mount = folder.path().join("mnt");
        fs::create_dir(&mount).unwrap();
        let mut disk = Self {
            kind,
            mount,
            mounted: false,
            _folder: folder,
        };
        disk.mount()?;
        Ok(disk)
    }

    pub fn path(&self) -> &Path {
        &self.mount
    }

    pub fn mount(&mut self) -> Result<(), String> {
        let mut command = Command::new("mount");
        match &self.kind {
            Kind::Image(image) => command
                .args(["-t", "ext4", "-o", "loop,errors=remount-ro"])
                .arg(image),
            Kind::Memory(options) => command.args(["-t", "tmpfs", "-o", options, "tmpfs"]),
        };
        run(command.arg(&self.mount))?;
        self.mounted = true;
        Ok(())
    }

    /// Cuts the disk off: nothing reaches it any more, not even what the journal holds. A sync in progress may still
    /// report success, so stop the process first where that matters.
    pub fn cut(&self) {
        run(Command::new("perl").args(["-e", SHUTDOWN]).arg(&self.mount)).unwrap();
    }

    /// Unmounts the file system, which discards what was not on the disk.
    pub fn unmount(&mut self) {
        for _ in 0..100 {
            // A process that has just been killed may still hold a file for a moment.
            match run(Command::new("umount").arg(&self.mount)) {
                Ok(()) => {
                    self.mounted = false;
                    return self.wait_until_released();
                }
                Err(why) if why.contains("busy") => {
                    thread::park_timeout(Duration::from_millis(20));
                }
                Err(why) => panic!("{why}"),
            }
        }
        panic!("{} stays busy", self.mount.display());
    }

    /// Waits until the kernel has released the file system. A mount namespace that was created while it was mounted, as
    /// by `unshare --mount`, keeps it, and the next mount would use the one that was cut off.
    fn wait_until_released(&self) {
        let Kind::Image(image) = &self.kind else {
            return;
        };
        for _ in 0..500 {
            let mut devices = Command::new("losetup");
            let output = devices.arg("--associated").arg(image).output_in_time();
            if output.stdout.is_empty() {
                return;
            }
            thread::park_timeout(Duration::from_millis(20));
        }
        panic!("another mount namespace keeps {} mounted", image.display());
    }

    pub fn power_cycle(&mut self) {
        self.cut();
        self.unmount();
        self.mount().unwrap();
    }

    /// Remounts it as `ro` or `rw`, also while it is in use.
    pub fn remount(&self, mode: &str) -> Result<(), String> {
        let option = format!("remount,{mode}");
        run(Command::new("mount").args(["-o", &option]).arg(&self.mount))
    }

    /// Triggers an ext4 error, after which the kernel makes the file system read-only while it is in use.
    pub fn fail(&self) -> Result<(), String> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let here = self.mount.to_str().unwrap();
        let line = mounts.lines().find(|line| line.contains(here));
        let device = line.and_then(|line| line.strip_prefix("/dev/")?.split(' ').next());
        let device = device.ok_or("not mounted")?;
        let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
        fs::write(trigger, "on purpose").map_err(|error| error.to_string())
    }

    /// Copies the image to `place`, to examine a failure.
    pub fn keep(&self, place: &Path) {
        if let Kind::Image(image) = &self.kind {
            let _ = run(Command::new("cp")
                .arg("--sparse=always")
                .args([image.as_path(), place]));
        }
    }
}

impl Disk {
    /// Replaces the image, which must not be mounted, by one that was kept.
    #[allow(dead_code, reason = "of the campaign of the fleet")]
    pub fn put_back(&self, place: &Path) {
        if let Kind::Image(image) = &self.kind {
            run(Command::new("cp")
                .arg("--sparse=always")
                .args([place, image.as_path()]))
            .unwrap();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            // Lazily, because a test that panicked may have left a process behind for a moment.
            let _ = run(Command::new("umount").arg("-l").arg(&self.mount));
        }
    }
}

/// Runs a command. Returns its standard error if it failed.
pub fn run(command: &mut Command) -> Result<(), String> {
    let started = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let output = started
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?
        .output_in_time();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Writes until not a single byte fits.
pub fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    let mut size = 1 << 20;
    while size > 0 {
        // A failed write may have written part of its data.
        if file.write_all(&vec![1; size]).is_err() {
            size /= 2;
        }
    }
    let _ = file.sync_all();
}
