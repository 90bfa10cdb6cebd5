//! The test programs of the workspace, built once by cargo and then started from here: each as often as the databases
//! want it, and none of them built again for another choice of packages.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::counts::{Counts, of_cargo};
use crate::{places, process};

/// No program may hang for ever.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// What one build of the workspace made.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Programs {
    tests: Vec<TestProgram>,
    /// The binaries, as they are beside the tests: `sarsen` among them.
    binaries: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TestProgram {
    package: String,
    /// In the folder `tests` of its package; otherwise beside the code.
    is_integration: bool,
    file: PathBuf,
    /// Where cargo would start it.
    folder: PathBuf,
}

/// Which tests of which package run.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    pub package: &'static str,
    /// Beginnings of the names of its integration tests; none means all of them.
    pub modules: &'static [&'static str],
}

impl Programs {
    /// Builds the tests of all packages but this one, with their binaries.
    pub fn build() -> Result<Programs, String> {
        let mut cargo = places::cargo(&["test", "--workspace", "--exclude", "xtask", "--no-run"]);
        cargo.arg("--message-format=json-render-diagnostics");
        let outcome = process::run_unseen(&mut cargo, LIMIT)?;
        let programs = Programs::read(&outcome.stdout);
        match outcome.success && !programs.tests.is_empty() {
            true => Ok(programs),
            false => Err("the tests do not build".into()),
        }
    }

    /// From cargo's messages, one JSON object a line.
    fn read(messages: &str) -> Programs {
        let mut programs = Programs::default();
        for line in messages.lines().filter(|line| line.contains(r#""reason":"compiler-artifact""#)) {
            let (Some(file), Some(manifest)) = (text(line, "executable"), text(line, "manifest_path")) else {
                continue;
            };
            let Some(folder) = Path::new(manifest).parent() else { continue };
            // The target has a field of the same name, which says whether it can be tested.
            let profile = line.split_once(r#""profile":{"#).map_or("", |(_, profile)| profile);
            if !profile.contains(r#""test":true"#) {
                programs.binaries.push(file.into());
                continue;
            }
            programs.tests.push(TestProgram {
                package: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                is_integration: line.contains(r#""kind":["test"]"#),
                file: file.into(),
                folder: folder.to_path_buf(),
            });
        }
        programs.tests.sort_by(|one, other| one.file.cmp(&other.file));
        programs
    }

    /// Runs every test, but for those that are marked to be left out.
    pub fn run_all(&self, variables: &[(&str, String)]) -> Result<Counts, String> {
        let mut counts = Counts::default();
        for program in &self.tests {
            counts += program.run(&[], variables)?;
        }
        Ok(counts)
    }

    /// Runs the integration tests that are selected. A name that selects nothing is a failure: its tests would be
    /// lost without anybody seeing it.
    pub fn run(&self, selection: &[Selection], variables: &[(&str, String)]) -> Result<Counts, String> {
        let mut counts = Counts::default();
        for Selection { package, modules } in selection {
            let program = self.tests.iter().find(|one| one.is_integration && one.package == *package);
            let program = program.ok_or_else(|| format!("`{package}` has no integration tests"))?;
            counts += program.run(modules, variables)?;
        }
        Ok(counts)
    }

    /// A binary of the workspace by its name.
    pub fn binary(&self, name: &str) -> Option<&Path> {
        self.binaries
            .iter()
            .map(PathBuf::as_path)
            .find(|file| file.file_stem().is_some_and(|stem| stem == name))
    }
}

impl TestProgram {
    fn run(&self, modules: &[&str], variables: &[(&str, String)]) -> Result<Counts, String> {
        let kind = if self.is_integration { "tests" } else { "src" };
        println!("\n{}/{kind} {}", self.package, modules.join(" "));
        let mut command = Command::new(&self.file);
        command.args(modules).current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let before = process::cpu_seconds();
        let outcome = process::run(&mut command, LIMIT)?;
        if let Some((after, before)) = process::cpu_seconds().zip(before) {
            println!("{}/{kind}: {:.1} s of CPU", self.package, after - before);
        }
        for module in modules {
            let begins = format!("test {module}");
            if !outcome.stdout.lines().any(|line| line.starts_with(&begins)) {
                return Err(format!("`{}` has no test that begins with `{module}`", self.package));
            }
        }
        let counts = of_cargo(&outcome.stdout);
        // A package may have no test beside its code.
        let has_none = outcome.success && counts == Counts::default();
        Ok(if has_none { counts } else { counts.with_status(outcome.success) })
    }
}

/// The text of a field. Paths that need escaping in JSON are not found, and so is nothing that was not built.
fn text<'l>(line: &'l str, field: &str) -> Option<&'l str> {
    let (_, rest) = line.split_once(&format!("\"{field}\":\""))?;
    rest.split('"').next()
}

#[test]
fn what_cargo_built_is_known_by_package() {
    let artifact = |package: &str, kind: &str, test: bool, executable: &str| {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/t/crates/{package}/Cargo.toml","target":{{"kind":["{kind}"],"test":true}},"profile":{{"test":{test}}},"executable":{executable}}}"#
        )
    };
    let messages = [
        artifact("store", "lib", false, "null"),
        artifact("store", "test", true, "\"/t/target/it-2\""),
        artifact("store", "lib", true, "\"/t/target/a-1\""),
        artifact("sarsen", "bin", false, "\"/t/target/debug/sarsen\""),
        r#"{"reason":"build-finished","success":true}"#.to_owned(),
    ];
    let programs = Programs::read(&messages.join("\n"));
    let seen: Vec<_> = programs.tests.iter().map(|one| (&*one.package, one.is_integration)).collect();
    assert_eq!(seen, [("store", false), ("store", true)]);
    assert_eq!(programs.tests[0].folder, Path::new("/t/crates/store"));
    assert_eq!(programs.binary("sarsen"), Some(Path::new("/t/target/debug/sarsen")));
    assert_eq!(programs.binary("other"), None);
}
