//! The way from a program to a signed folder, with this test's own file as the program.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use super::source::{VERSION, done, names};
use super::*;
use crate::process;

/// A folder that is gone at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let folder = std::env::temp_dir().join(format!("sarsen-dist-{name}-{}", std::process::id()));
        fs::remove_dir_all(&folder).ok();
        fs::create_dir_all(&folder).expect("a folder");
        Place(folder)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn this_machine() -> &'static Target {
    let ours = |target: &&Target| target.triple.starts_with(std::env::consts::ARCH);
    target::ALL.iter().find(ours).expect("a target like this machine")
}

/// This test without what a debugger needs: the rest is enough, and is packed in a moment.
fn program(place: &Place) -> PathBuf {
    let (whole, small) = (std::env::current_exe().expect("this test"), place.0.join("program"));
    done(pack::objcopy().arg("--strip-debug").arg(whole).arg(&small)).expect("a smaller copy");
    small
}

fn source(commit: &str) -> Source {
    Source { commit: commit.into(), epoch: "1700000000".into(), time: "2023-11-14T22:13:20Z".into() }
}

fn shell(folder: &Path, script: &str) -> (bool, String) {
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", script]).current_dir(folder).output().expect("a shell");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = names(folder).expect("a folder").into_iter();
    let files = names.map(|name| (name.clone(), folder.join(name))).filter(|(_, path)| path.is_file());
    files.map(|(name, path)| (name, fs::read(path).expect("a file"))).collect()
}

#[test]
fn the_same_program_gives_the_same_files_whenever_and_wherever_they_are_made() {
    let [built, first, second] = ["built", "first", "second"].map(Place::new);
    let (program, target) = (program(&built), this_machine());
    for place in [&first, &second] {
        pack::archive(std::slice::from_ref(&program), target, &source("c0ffee"), &place.0)
            .expect("an archive");
        sbom::write(&source("c0ffee"), &place.0).expect("a bill of materials");
        sums::write(&place.0, None).expect("sums");
    }
    let (first_files, second_files) = (files(&first.0), files(&second.0));
    let stem = target.stem();
    let expected = [
        "SHA256SUMS".to_owned(),
        format!("{stem}.symbols.gz"),
        format!("{stem}.tar.gz"),
        format!("sarsen-{VERSION}.cdx.json"),
    ];
    assert_eq!(first_files.keys().cloned().collect::<Vec<_>>(), expected);
    for (name, bytes) in &first_files {
        assert!(second_files.get(name) == Some(bytes), "{name} differs");
    }

    let (_, list) = shell(&first.0, &format!("tar --numeric-owner -tvzf {stem}.tar.gz"));
    assert!(list.lines().all(|line| line.contains(" 0/0 ") && line.contains(" 2023-11-14 ")), "{list}");
    for (mode, name) in
        [("-rwxr-xr-x", "sarsen"), ("-rw-r--r--", "LICENSE-MIT"), ("-rw-r--r--", "LICENSES-OF-OTHERS")]
    {
        let is_there = |line: &str| line.starts_with(mode) && line.ends_with(&format!(" {stem}/{name}"));
        assert!(list.lines().any(is_there), "{mode} {name}:\n{list}");
    }
    let licences = fs::read_to_string(first.0.join(&stem).join("LICENSES-OF-OTHERS")).expect("licences");
    assert!(licences.contains("libsqlite3-sys") && licences.contains("aws-lc-sys"), "C is named too");

    // The symbols are in a file that the program names, and what is left still runs.
    let packed = first.0.join(&stem).join("sarsen");
    let (stripped, whole) = (fs::read(&packed).expect("a program"), fs::read(&program).expect("the same"));
    assert!(stripped.len() < whole.len(), "{} of {} bytes", stripped.len(), whole.len());
    let holds = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(holds(&stripped, &format!("{stem}.symbols")), "a debugger finds the file by this name");
    let (is_gzip, symbols) = shell(&first.0, &format!("gzip -dc {stem}.symbols.gz | wc -c"));
    let bytes: u64 = symbols.trim().parse().expect("a number");
    assert!(is_gzip && bytes > 100_000, "{bytes} bytes of symbols");
    assert!(process::quietly(Command::new(&packed).arg("--list")), "it does not run");
}

#[test]
fn a_changed_file_or_list_does_not_pass() {
    let place = Place::new("signature");
    let stem = this_machine().stem();
    fs::create_dir(place.0.join(&stem)).expect("a folder");
    fs::write(place.0.join(format!("{stem}.tar.gz")), "an archive").expect("a file");
    fs::write(place.0.join(&stem).join("sarsen"), "a program").expect("a file");
    let run = |script: &str| shell(&place.0, script).0;
    assert!(run("openssl genpkey -algorithm ed25519 -out ../$$.pem && mv ../$$.pem key.pem"));
    assert!(run("openssl genpkey -algorithm rsa -out rsa.pem 2>/dev/null"));
    let (key, rsa) = (place.0.join("key.pem"), place.0.join("rsa.pem"));
    assert!(sums::write(&place.0, Some(&rsa)).is_err_and(|text| text.contains("not an Ed25519")));
    sums::write(&place.0, Some(&key)).expect("signed");
    let sums = fs::read_to_string(place.0.join("SHA256SUMS")).expect("sums");
    assert!(sums.contains(&format!("  {stem}/sarsen\n")), "an installed program can be looked up: {sums}");

    let verify = "openssl pkey -in key.pem -pubout -out key.pub && openssl pkeyutl -verify -pubin -inkey key.pub \
                  -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig >/dev/null 2>&1";
    let check = "sha256sum --status -c SHA256SUMS";
    assert!(run(verify) && run(check));
    fs::write(place.0.join(format!("{stem}.tar.gz")), "another").expect("a file");
    assert!(run(verify) && !run(check), "the file was changed");
    assert!(run("sha256sum *.tar.gz >SHA256SUMS") && run(check) && !run(verify), "the list was changed");
    sums::write(&place.0, None).expect("sums");
    assert!(!place.0.join("SHA256SUMS.sig").exists(), "an old signature does not stay beside new sums");
}

#[test]
fn the_bill_of_materials_names_what_scanners_look_for() {
    let place = Place::new("bill");
    sbom::write(&source("c0ffee"), &place.0).expect("a bill of materials");
    let text = fs::read_to_string(place.0.join(format!("sarsen-{VERSION}.cdx.json"))).expect("a file");
    for expected in [
        "\"specVersion\": \"1.5\"",
        "\"value\": \"c0ffee\"",
        "pkg:cargo/rustls@",
        "cpe:2.3:a:sqlite:sqlite:3.",
        "\"purl\": \"pkg:generic/aws-lc@",
        "\"timestamp\": \"2023-11-14T22:13:20Z\"",
    ] {
        assert!(text.contains(expected), "{expected}");
    }
    let line = |name: &str| {
        text.lines().find(|line| line.contains(&format!("\"name\": \"{name}\""))).unwrap_or_default()
    };
    assert!(line("serde_json").contains("\"scope\": \"required\""), "{}", line("serde_json"));
    assert!(
        line("syn").contains("\"scope\": \"excluded\""),
        "it only takes part in building: {}",
        line("syn")
    );
    assert!(line("serde_json").contains("\"alg\": \"SHA-256\""), "the sum of its sources");
    assert_eq!(line("insta"), "", "a library of the tests is no part of a release");
}

#[test]
fn what_is_chosen_is_one_file_or_whole_targets() {
    let all = chosen(&[]).expect("everything");
    assert_eq!((all.targets.len(), all.key, all.from), (2, None, None));
    let one =
        chosen(&["--from", "x", "--target", "aarch64-unknown-linux-gnu", "--key", "k"]).expect("a file");
    assert_eq!((one.targets.len(), one.key, one.from), (1, Some("k"), Some("x")));
    for (wrong, said) in [
        (&["--from", "x"][..], "one --target"),
        (&["--target", "sparc"], "x86_64-unknown-linux-gnu, aarch64"),
        (&["--key"], "takes a value"),
        (&["--fast", "x"], "not --fast"),
    ] {
        assert!(chosen(wrong).is_err_and(|text| text.contains(said)), "{wrong:?}");
    }
}

#[test]
fn nothing_is_signed_that_nobody_can_look_at() {
    assert!(source("c0ffee-modified").may_be_signed(true).is_err());
    assert!(source("c0ffee-modified").may_be_signed(false).is_ok());
    assert!(source("c0ffee").may_be_signed(true).is_ok());
}
