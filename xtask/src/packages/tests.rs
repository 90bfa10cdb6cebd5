//! A release for the tests of the builders, and what the arguments mean.

use super::names::FILE;
use super::release::Target;
use super::*;

/// A folder that is removed at the end of a test.
pub struct Folder(pub PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Version 1.2.3 with two programs that are texts.
pub fn release() -> (Release, Folder) {
    let here = std::thread::current();
    let test = here.name().unwrap_or_default().replace("::", "-");
    let folder = std::env::temp_dir().join(format!("sarsen-packages-{}-{test}", std::process::id()));
    fs::create_dir_all(&folder).expect("made");
    let program = |target: &'static Target| {
        let machine = target.triple.split('-').next().unwrap_or_default();
        Program { target, bytes: format!("{machine} program").into_bytes() }
    };
    let release = Release {
        names: Names::read(&places::root().join(FILE)).expect("is read"),
        version: "1.2.3".into(),
        folder: folder.clone(),
        programs: TARGETS.iter().map(program).collect(),
        licences: licences_in(&places::root()).expect("are read"),
        time: 1_700_000_000,
    };
    (release, Folder(folder))
}

#[test]
fn arguments_choose_kinds_and_files() {
    let some = chosen(&["--only", "install", "--names", "/a/names.toml", "--dist", "/b"]).expect("is chosen");
    assert_eq!(some.only, ["install"]);
    assert_eq!((some.names, some.folder), ("/a/names.toml".into(), "/b".into()));
    assert!(chosen(&[]).is_ok_and(|all| all.only.is_empty() && all.folder.ends_with("dist")));
    assert!(chosen(&["--only", "snap"]).is_err_and(|why| why.contains("install")));
    assert!(chosen(&["--fast"]).is_err());
}
