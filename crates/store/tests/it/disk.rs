//! A disk that is really full, and one that has really become read-only: a small file system in memory.
//! Mounting one needs root; elsewhere these tests say that they are skipped.

use crate::support::{MIGRATIONS, add};
use std::path::Path;
use std::process::Command;
use store::{Error, Options, Store};

struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = mount(&["-t", "tmpfs", "-o", "size=4m", "tmpfs"], folder.path());
        if !mounted {
            eprintln!("skipped: a file system cannot be mounted here");
        }
        mounted.then_some(SmallDisk { folder })
    }

    fn open(&self) -> Store {
        let url = format!("sqlite:{}", self.folder.path().join("test.db").display());
        Store::open(Options::new(url, MIGRATIONS)).expect("opens")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: files may still be open when a test has failed.
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
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
    let filled = std::fs::write(&filler, vec![0; 8 << 20]);
    assert!(filled.is_err(), "the disk is full now");
    let big = "x".repeat(200_000);
    let refused = add(&store, "big", "ada", &big).await.expect_err("no room");
    assert!(matches!(&refused, Error::Unavailable { what, .. } if what.contains("full")), "{refused:?}");
    assert_eq!(body(&store, "before").await.as_deref(), Some("before"));
    assert_eq!(body(&store, "big").await, None, "nothing of it was kept");
    std::fs::remove_file(&filler).expect("room again");
    add(&store, "big", "ada", &big).await.expect("writes resume");
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
    assert!(mount(&["-o", "remount,bind,ro"], &folder), "becomes read-only");
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
