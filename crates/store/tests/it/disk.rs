//! A disk that is really full, and one that has really become read-only: a small file system in memory.
//! Mounting one needs root; elsewhere these tests say that they are skipped.

use crate::support::{MIGRATIONS, add, metric};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use store::testing::say_skipped;
use store::{Error, Options, Store};

struct SmallDisk {
    folder: MountPoint,
}

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let folder = MountPoint(tempfile::tempdir().expect("a folder"));
        let mounted = mount(&["-t", "tmpfs", "-o", "size=4m", "tmpfs"], folder.path());
        if !mounted {
            say_skipped("a full disk and a read-only one: a file system cannot be mounted here");
        }
        mounted.then_some(SmallDisk { folder })
    }

    fn open(&self) -> Store {
        let url = format!("sqlite:{}", self.folder.path().join("test.db").display());
        Store::open(Options::new(url, MIGRATIONS)).expect("opens")
    }
}

/// A failing disk: its file system detects damage and allows no more writes, also to open files.
struct FailingDisk {
    image: tempfile::NamedTempFile,
    folder: MountPoint,
}

impl FailingDisk {
    fn mount() -> Option<FailingDisk> {
        let image = tempfile::NamedTempFile::new().expect("a file");
        let folder = MountPoint(tempfile::tempdir().expect("a folder"));
        image.as_file().set_len(16 << 20).expect("room");
        let made = Command::new("mkfs.ext4").args(["-q", "-O", "^has_journal"]).arg(image.path()).output();
        let disk = FailingDisk { image, folder };
        let usable = made.is_ok_and(|made| made.status.success())
            && disk.mount_again()
            && std::fs::File::options().write(true).open(disk.switch()).is_ok();
        if !usable {
            say_skipped(
                "a disk that fails: an ext4 file system cannot be mounted, or not be told to fail, here",
            );
        }
        usable.then_some(disk)
    }

    fn mount_again(&self) -> bool {
        let image = self.image.path().to_str().expect("text");
        mount(&["-o", "loop,errors=remount-ro", image], self.folder.path())
    }

    /// What is written there makes the kernel find an error on it.
    fn switch(&self) -> PathBuf {
        let device = Command::new("findmnt").args(["-no", "SOURCE"]).arg(self.folder.path()).output();
        let device = device.map(|found| String::from_utf8_lossy(&found.stdout).trim().replace("/dev/", ""));
        Path::new("/sys/fs/ext4").join(device.unwrap_or_default()).join("trigger_fs_error")
    }

    fn fail(&self) {
        std::fs::write(self.switch(), "by a test").expect("fails");
    }

    /// Unmounted, put in order, and there again.
    fn repair(&self) {
        let run = |program: &str, args: &[&str], at: &Path| {
            let output = Command::new(program).args(args).arg(at).output().expect("runs");
            // e2fsck says 1 when it has mended something.
            assert!(matches!(output.status.code(), Some(0 | 1)), "{program}: {output:?}");
        };
        run("umount", &[], self.folder.path());
        run("e2fsck", &["-fy"], self.image.path());
        assert!(self.mount_again());
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.folder.path().join("test.db").display())
    }
}

/// A folder on which a file system is mounted while this lives.
struct MountPoint(tempfile::TempDir);

impl MountPoint {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        // Lazily: files may still be open when a test has failed.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn mount(args: &[&str], at: &Path) -> bool {
    Command::new("mount").args(args).arg(at).output().is_ok_and(|output| output.status.success())
}

async fn body(store: &Store, id: &'static str) -> Option<String> {
    let read =
        store.point(move |snapshot| snapshot.one(&crate::support::BODY, store::args![id], |row| row.get(0)));
    read.await.map_err(|error: Error| error).expect("reads go on")
}

#[tokio::test]
async fn a_full_disk_refuses_writes_clearly_and_they_resume_when_there_is_room() {
    let Some(disk) = SmallDisk::mount() else { return };
    let store = disk.open();
    add(&store, "before", "ada", "before").await.expect("writes");
    let filler = disk.folder.path().join("filler");
    let free = metric(&store, "store_disk_free_bytes");
    let filled = std::fs::write(&filler, vec![0; 8 << 20]);
    assert!(filled.is_err(), "the disk is full now");
    assert!(free > 1e6 && metric(&store, "store_disk_free_bytes") < 1e5, "{free}");
    let big = "x".repeat(200_000);
    let refused = add(&store, "big", "ada", &big).await.expect_err("no room");
    assert!(matches!(&refused, Error::Unavailable { what, .. } if what.contains("full")), "{refused:?}");
    // Two at once, which share a commit: the second is not told of a row of the first, which is lost.
    let both = tokio::join!(add(&store, "big", "ada", &big), add(&store, "big", "ada", &big));
    for refused in <[_; 2]>::from(both) {
        assert!(matches!(&refused, Err(Error::Unavailable { .. })), "{refused:?}");
    }
    assert_eq!(body(&store, "before").await.as_deref(), Some("before"));
    assert_eq!(body(&store, "big").await, None, "nothing of it was kept");
    std::fs::remove_file(&filler).expect("room again");
    // A program that another test starts at this moment has the file open until it is itself.
    let began = Instant::now();
    while let Err(error) = add(&store, "big", "ada", &big).await {
        assert!(matches!(&error, Error::Unavailable { .. }), "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "writes resume: {error:?}");
    }
    assert_eq!(body(&store, "big").await, Some(big));
    store.close();
}

#[tokio::test]
async fn a_read_only_disk_is_said_at_the_start_and_nothing_is_lost() {
    let Some(disk) = SmallDisk::mount() else { return };
    let folder = disk.folder.path().join("inner");
    std::fs::create_dir(&folder).expect("a folder");
    // A bind mount becomes read-only also while files are open for writing.
    assert!(Command::new("mount").arg("--bind").args([&folder, &folder]).status().expect("mounts").success());
    let url = format!("sqlite:{}", folder.join("test.db").display());
    let store = Store::open(Options::new(url.clone(), MIGRATIONS)).expect("opens");
    add(&store, "before", "ada", "before").await.expect("writes");
    store.close();
    // The kernel refuses while a file is open for writing: a program that another test starts in this moment has a copy of
    // this one's files until it is itself.
    let began = Instant::now();
    while !mount(&["-o", "remount,bind,ro"], &folder) {
        assert!(began.elapsed() < Duration::from_secs(20), "becomes read-only");
    }
    let refused =
        Store::open(Options::new(url.clone(), MIGRATIONS)).map(|_| ()).expect_err("cannot be opened");
    assert!(matches!(&refused, Error::Open(_) | Error::Unavailable { .. }), "{refused:?}");
    assert!(
        refused.to_string().contains("test.db") || refused.to_string().contains("read-only"),
        "{refused}"
    );
    assert!(mount(&["-o", "remount,bind,rw"], &folder), "becomes writable");
    let store = Store::open(Options::new(url, MIGRATIONS)).expect("opens again");
    assert_eq!(body(&store, "before").await.as_deref(), Some("before"));
    add(&store, "after", "ada", "after").await.expect("writes resume");
    store.close();
    let _ = Command::new("umount").arg("-l").arg(&folder).status();
}

#[tokio::test]
async fn a_disk_that_becomes_read_only_refuses_writes_clearly_and_reads_go_on() {
    let Some(disk) = FailingDisk::mount() else { return };
    let store = Store::open(Options::new(disk.url(), MIGRATIONS)).expect("opens");
    add(&store, "before", "ada", "before").await.expect("writes");
    disk.fail();
    for id in ["during", "still"] {
        let refused = add(&store, id, "ada", "during").await.expect_err("cannot be written");
        assert!(
            matches!(&refused, Error::Unavailable { what, .. } if what.contains("cannot be written")),
            "{refused:?}"
        );
        assert_eq!(body(&store, "before").await.as_deref(), Some("before"));
        assert_eq!(body(&store, "during").await, None, "nothing of it was kept");
    }
    store.close();
    disk.repair();
    let store = Store::open(Options::new(disk.url(), MIGRATIONS)).expect("opens again");
    assert_eq!(body(&store, "before").await.as_deref(), Some("before"));
    assert_eq!(body(&store, "during").await, None);
    add(&store, "after", "ada", "after").await.expect("writes resume");
    store.close();
}
