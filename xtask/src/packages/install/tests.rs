//! The script is run by `sh`, with archives in a folder and a HOME of its own. The key is a real one of openssl.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::names::FILE;
use super::*;

const VERSION: &str = "1.2.3";

/// A folder for one test, removed at its end.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

impl Place {
    /// With a release of one archive, whose program prints its version.
    fn new(test: &str) -> Place {
        let folder = std::env::temp_dir().join(format!("sarsen-install-{}-{test}", std::process::id()));
        let place = Place(folder);
        for name in ["release", "home", "tmp", "bin"] {
            fs::create_dir_all(place.at(name)).expect("made");
        }
        place.make_release("#!/bin/sh\necho sarsen 1.2.3\n");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn program(&self) -> PathBuf {
        self.at("home/.local/bin/sarsen")
    }

    /// Archives of both platforms, their sums, and a signature by a new key.
    fn make_release(&self, program: &str) {
        let names: Vec<String> = super::super::TARGETS
            .iter()
            .map(|target| format!("sarsen-{VERSION}-{}", target.triple))
            .collect();
        for name in &names {
            fs::create_dir_all(self.at(name)).expect("made");
            tools::write(&self.at(&format!("{name}/sarsen")), program.as_bytes(), 0o755).expect("written");
            self.sh(&format!("tar -czf release/{name}.tar.gz {name}"));
        }
        self.sh("cd release && sha256sum *.tar.gz >SHA256SUMS");
        self.sh("openssl genpkey -algorithm ed25519 -out key.pem");
        self.sh(
            "openssl pkeyutl -sign -inkey key.pem -rawin -in release/SHA256SUMS -out release/SHA256SUMS.sig",
        );
    }

    fn sh(&self, line: &str) -> String {
        let output = Command::new("sh").args(["-ec", line]).current_dir(&self.0).output().expect("sh runs");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// The script of this release, as it is published.
    fn script(&self) -> String {
        let names = places::root().join(FILE);
        let mut text = fs::read_to_string(&names).expect("is read");
        let key = self.sh("openssl pkey -in key.pem -pubout | sed -n 2p");
        text = text.replace("public_key = \"\"", &format!("public_key = \"{}\"", key.trim()));
        let file = self.at("names.toml");
        fs::write(&file, text).expect("written");
        script(&Names::read(&file).expect("is read"), VERSION).expect("is filled")
    }

    /// Runs a script with arguments: what it prints, and whether it succeeded.
    fn run(&self, script: &str, args: &[&str]) -> (String, bool) {
        let file = self.at("install.sh");
        fs::write(&file, script).expect("written");
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.at("bin").display());
        let mut sh = Command::new("sh");
        sh.arg(&file).args(args).env_clear().env("PATH", path);
        sh.env("HOME", self.at("home")).env("TMPDIR", self.at("tmp")).current_dir(&self.0);
        let output = sh.output().expect("sh runs");
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8(text).expect("text"), output.status.success())
    }

    /// Installs from the folder of the release.
    fn install(&self, args: &[&str]) -> (String, bool) {
        self.run(&self.script(), &[&["--from", "./release"], args].concat())
    }

    /// A program that is found before the system's own.
    fn shadow(&self, name: &str, text: &str) {
        tools::write(&self.at("bin").join(name), text.as_bytes(), 0o755).expect("written");
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let list = self.sh(&format!("cd {folder} && find . -mindepth 1 | sort"));
        list.lines().map(str::to_owned).collect()
    }
}

#[test]
fn it_verifies_and_installs_one_file() {
    let place = Place::new("good");
    let (text, done) = place.install(&[]);
    assert!(done, "{text}");
    for line in [
        "verified:   the signature of SHA256SUMS",
        "verified:   the SHA-256 of sarsen-1.2.3-",
        "(sarsen 1.2.3)",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    assert!(!text.contains("NOT verified"), "{text}");
    assert_eq!(place.files("home"), ["./.local", "./.local/bin", "./.local/bin/sarsen"]);
    assert_eq!(mode(&place.program()), 0o755);
    assert!(place.files("tmp").is_empty(), "temporary files stay");
    let line =
        text.lines().find(|line| line.contains("export PATH=")).expect("how to extend the search path");
    assert_eq!(
        place.sh(&format!("HOME={}; {line}; sarsen --version", place.at("home").display())),
        "sarsen 1.2.3\n"
    );

    let (text, done) = place.install(&[]);
    assert!(done, "once more, over itself: {text}");
    let (text, done) = place.run(&place.script(), &["--uninstall"]);
    assert!(done && text.contains("removed:"), "{text}");
    assert_eq!(place.files("home"), ["./.local", "./.local/bin"]);
    assert!(place.run(&place.script(), &["--uninstall"]).0.contains("nothing was removed"));
}

#[test]
fn an_exchanged_archive_is_not_installed() {
    let place = Place::new("exchanged");
    let published = place.script();
    place.sh("echo more >>release/sarsen-1.2.3-x86_64-unknown-linux-gnu.tar.gz");
    place.sh("echo more >>release/sarsen-1.2.3-aarch64-unknown-linux-gnu.tar.gz");
    let (text, done) = place.run(&published, &["--from", "./release"]);
    assert!(!done && text.contains("is damaged") && text.contains("nothing was installed"), "{text}");

    // Sums that fit, signed by somebody else.
    place.make_release("#!/bin/sh\necho sarsen 6.6.6\n");
    let (text, done) = place.run(&published, &["--from", "./release"]);
    assert!(!done && text.contains("the signature of ./release/SHA256SUMS is wrong"), "{text}");
    place.sh("rm release/SHA256SUMS.sig");
    let (text, done) = place.run(&published, &["--from", "./release"]);
    assert!(!done && text.contains("there is no SHA256SUMS.sig"), "{text}");
    assert!(place.files("home").is_empty() && place.files("tmp").is_empty());
}

#[test]
fn what_was_not_verified_is_said() {
    let place = Place::new("unsigned");
    let published = place.script();
    // As openssl before version 3 does.
    place.shadow("openssl", "#!/bin/sh\necho 'Usage: pkeyutl [options]'\n");
    let (text, done) = place.run(&published, &["--from", "./release"]);
    assert!(
        done && text.contains("NOT verified: the signature of SHA256SUMS (that takes openssl 3"),
        "{text}"
    );
    assert!(text.contains("verified:   the SHA-256"), "{text}");
    let (text, done) = place.run(&published, &["--from", "./release", "--require-signature"]);
    assert!(!done && text.contains("the signature cannot be verified"), "{text}");

    let names = Names::read(&places::root().join(FILE)).expect("is read");
    let keyless = script(&names, VERSION).expect("is filled");
    let (text, done) = place.run(&keyless, &["--from", "./release"]);
    assert_eq!(done, public_key(&names).is_empty(), "{text}");
}

#[test]
fn half_a_script_does_nothing() {
    let place = Place::new("cut");
    place.shadow("curl", "#!/bin/sh\nexit 1\n");
    let whole = place.script();
    // At every line, and within the last one, which starts it all.
    let last = whole.trim_end().rfind('\n').expect("lines");
    let lines = whole.match_indices('\n').map(|(at, _)| at).filter(|at| at % 11 == 0);
    for at in lines.chain(last..whole.trim_end().len()) {
        let (text, _) = place.run(whole.get(..at).expect("ASCII"), &["--help"]);
        let did = ["Installs sarsen", "sarsen 1.2.3 for"].iter().any(|line| text.contains(line));
        assert!(!did, "cut at {at}: {text}");
    }
    assert!(place.run(&whole, &["--help"]).0.contains("Installs sarsen"));
}

#[test]
fn a_platform_without_a_program_is_refused() {
    let place = Place::new("platforms");
    let refused = |place: &Place, what: &str| {
        let (text, done) = place.install(&[]);
        assert!(!done && text.contains(what), "{what} is not in:\n{text}");
    };
    let uname = |system: &str, machine: &str| {
        format!("#!/bin/sh\ncase $1 in -s) echo {system} ;; -m) echo {machine} ;; esac\n")
    };
    place.shadow("uname", &uname("Darwin", "arm64"));
    refused(&place, "there is no program for Darwin");
    place.shadow("uname", &uname("Linux", "riscv64"));
    refused(&place, "there is no program for riscv64");
    place.shadow("uname", &uname("Linux", "x86_64"));
    place.shadow("getconf", "#!/bin/sh\nexit 1\n");
    place.shadow("ldd", "#!/bin/sh\necho 'musl libc (x86_64)' >&2\nexit 1\n");
    refused(&place, "has musl");
    place.shadow("getconf", "#!/bin/sh\necho glibc 2.12\n");
    refused(&place, "has glibc 2.12; the program needs glibc 2.17");
    place.shadow("uname", &uname("Linux", "aarch64"));
    place.shadow("getconf", "#!/bin/sh\necho glibc 2.27\n");
    refused(&place, "needs glibc 2.28");
    place.shadow("getconf", "#!/bin/sh\necho glibc 2.28\n");
    assert!(place.install(&[]).1);
}

#[test]
fn a_file_of_somebody_else_is_left_alone() {
    let place = Place::new("foreign");
    fs::create_dir_all(place.at("home/.local/bin")).expect("made");
    for args in [&["--from", "./release"][..], &["--uninstall"]] {
        symlink("/nowhere/sarsen", place.program()).expect("linked");
        let (text, done) = place.run(&place.script(), args);
        assert!(!done && text.contains("is a link"), "{text}");
        fs::remove_file(place.program()).expect("removed");
        tools::write(&place.program(), b"#!/bin/sh\necho another\n", 0o755).expect("written");
        let (text, done) = place.run(&place.script(), args);
        assert!(!done && text.contains("is another program"), "{text}");
        assert!(fs::read_to_string(place.program()).is_ok_and(|text| text.contains("another")));
        fs::remove_file(place.program()).expect("removed");
    }
}

#[test]
fn a_program_that_does_not_start_replaces_nothing() {
    let place = Place::new("broken");
    assert!(place.install(&[]).1);
    place.make_release("#!/bin/sh\necho no such library >&2\nexit 127\n");
    let (text, done) = place.install(&[]);
    assert!(!done && text.contains("does not run on this machine: no such library"), "{text}");
    assert!(fs::read_to_string(place.program()).is_ok_and(|text| text.contains("1.2.3")));
    assert_eq!(place.files("home"), ["./.local", "./.local/bin", "./.local/bin/sarsen"]);
}

#[test]
fn only_https_and_this_machine_are_asked() {
    let place = Place::new("addresses");
    place.shadow("curl", "#!/bin/sh\necho asked with \"$@\"\nexit 1\n");
    let from = |address: &str| place.run(&place.script(), &["--from", address]).0;
    assert!(from("http://mirror.test/x").contains("--from takes https://"));
    assert!(from("http://localhost.mirror.test/x").contains("--from takes https://"));
    assert!(from("https://mirror.test/x/").contains("asked with -fsSL --proto =https --tlsv1.2"));
    assert!(from("http://127.0.0.1:8000/x").contains("asked with -fsSL --retry"));
    let names = Names::read(&places::root().join(FILE)).expect("is read");
    assert!(place.run(&place.script(), &[]).0.contains(&names.release(VERSION).expect("is there")));
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).expect("is there").permissions().mode() & 0o777
}
