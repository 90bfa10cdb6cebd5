//! `cargo xtask soak`: the tests that are too long for every day.
//!
//! - `cross`: every test on every database server.
//! - `relying-parties`: stock programs with their defaults sign a user in, and the guides of `docs/guides` are followed to
//!   the letter (`tests/relying_parties`).
//! - `templates`: the templates of `sarsen new`, each from an empty folder to a plan that changes on the open page, with
//!   packages from the registries (`tests/templates`).
//! - `edge`: HTTP/2, TLS and the proxies of `deploy` with stock clients, and clients that attack (`tests/edge`).
//! - `packages`: what `cargo xtask packages` makes is installed where its users are (`tests/packages`).
//! - `cost`: the instructions of the worst requests, and what they do to others (`tests/cost`).
//! - `openid`: the certification plans of the OpenID Foundation (`tests/openid`), by a suite that was built in the folder of
//!   `--suite`; a counted skip without it.
//! - `archives`: what `cargo xtask dist` has made, in a bare Debian without a network (`tests/archives`); a counted skip where
//!   nothing was made.
//! - `schedules`: publication and caches in many orders of threads (`store/src/schedules.rs`).
//! - `fuzz-targets`: the targets of `cargo xtask fuzz`, which wants another compiler, are checked by this one.
//! - `long`: tests named `soak_…`, which run in a short form with everything else, at full length. They are built with
//!   optimisation and run one after another, so that none disturbs what another measures.
//!
//! A suite that takes minutes or wants what a contributor need not have is one more line of `STEPS`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::counts::{Counts, of_cargo, of_pytest};
use crate::databases::{self, Servers};
use crate::programs::Programs;
use crate::report::Report;
use crate::{needs, places, process, tiers};

type Step = fn(&mut Report, &Servers, &Chosen<'_>);

const STEPS: [(&str, Step); 11] = [
    ("cross", cross),
    ("relying-parties", relying_parties),
    ("templates", templates),
    ("edge", edge),
    ("packages", packages),
    ("cost", cost),
    ("openid", openid),
    ("archives", archives),
    ("schedules", schedules),
    ("fuzz-targets", fuzz_targets),
    ("long", long),
];

const LIMIT: Duration = Duration::from_secs(12 * 3600);

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
struct Chosen<'a> {
    /// The one step that is wanted.
    only: Option<&'a str>,
    /// What the names of the long tests hold.
    filter: &'a str,
    /// The folder where the suite of the OpenID Foundation was built.
    suite: Option<&'a str>,
}

pub fn run(args: &[&str]) -> Result<Report, String> {
    let chosen = chosen(args)?;
    let only = chosen.only;
    let mut report = Report::default();
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let is_alone = matches!(only, Some(step) if !matches!(step, "cross" | "long"));
    let databases = if is_alone { &[][..] } else { &databases::ALL };
    let mut needed: Vec<&needs::Need> = databases.iter().flat_map(|database| database.needs()).collect();
    if wanted("relying-parties") {
        needed.extend(needs::RELYING_PARTIES);
    }
    if wanted("templates") {
        needed.extend(needs::TEMPLATES);
    }
    if wanted("edge") {
        needed.extend(needs::EDGE);
    }
    if wanted("packages") {
        needed.extend(needs::PACKAGES);
    }
    if wanted("long") {
        needed.extend(needs::LONG);
    }
    if wanted("cost") {
        needed.extend(needs::COST);
    }
    if wanted("openid") && chosen.suite.is_some() {
        needed.extend(needs::OPENID);
    }
    if wanted("archives") && archives_that_can_run() {
        needed.extend(needs::ARCHIVES);
    }
    needs::meet(&mut report, &needed);
    let servers = Servers::start(&mut report, databases);
    for (_, step) in STEPS.iter().filter(|(name, _)| wanted(name)) {
        step(&mut report, &servers, &chosen);
    }
    Ok(report)
}

/// A filter means the long tests; the names of the steps `openid`, `templates` and `packages` may stand alone.
fn chosen<'a>(args: &[&'a str]) -> Result<Chosen<'a>, String> {
    let is_step = |name: &str| STEPS.iter().any(|(known, _)| *known == name);
    let of = |only, filter, suite| Ok(Chosen { only, filter, suite });
    let (args, suite) = match args {
        [rest @ .., "--suite", folder] => (rest, Some(*folder)),
        args => (args, None),
    };
    match args {
        [] => of(None, "soak_", suite),
        ["openid"] | ["--only", "openid"] => of(Some("openid"), "soak_", suite),
        [step @ ("templates" | "packages")] if suite.is_none() => of(Some(*step), "soak_", None),
        _ if suite.is_some() => Err("--suite DIR goes with all steps, or with openid".into()),
        ["--only", step] if is_step(step) => of(Some(*step), "soak_", None),
        ["--only", ..] => Err(format!("--only takes one of {}", STEPS.map(|(name, _)| name).join(", "))),
        [filter] if !filter.starts_with('-') => of(Some("long"), filter, None),
        _ => Err("soak takes --only STEP, openid --suite DIR, or one filter of the long tests".into()),
    }
}

fn cross(report: &mut Report, servers: &Servers, _: &Chosen<'_>) {
    let mut programs = None;
    report.check("build", || {
        programs = Some(Programs::build()?);
        Ok(true)
    });
    if let Some(programs) = programs {
        tiers::cross(report, &programs, servers);
    }
}

fn relying_parties(report: &mut Report, _servers: &Servers, _: &Chosen<'_>) {
    report.step("relying parties", || {
        let binary = built(&[], "debug")?;
        let mut python = pytest(places::relying_parties(), binary);
        python.env("SARSEN_NODE", needs::node(&[])?.get_program());
        counted(&mut python)
    });
}

/// Shows what each template printed, which has the time that it took.
fn templates(report: &mut Report, _servers: &Servers, _: &Chosen<'_>) {
    report.step("templates", || {
        let mut python = pytest(places::templates(), built(&[], "debug")?);
        counted(python.arg("-s").env("SARSEN_NODE", needs::node(&[])?.get_program()))
    });
}

fn edge(report: &mut Report, _servers: &Servers, _: &Chosen<'_>) {
    report.step("edge", || {
        let mut python = pytest(places::edge(), built(&["--features", "acme"], "debug")?);
        python.env("SARSEN_NODE", needs::node(&[])?.get_program()).env("SARSEN_GO", places::go_programs());
        counted(&mut python)
    });
}

fn packages(report: &mut Report, _servers: &Servers, _: &Chosen<'_>) {
    report.step("packages", || {
        let mut python = pytest(places::packages(), built(&[], "debug")?);
        let own = std::env::current_exe().map_err(|error| format!("this program's own file: {error}"))?;
        // How long each takes from one line to a user who is signed in is part of the output.
        python.arg("-rP").env("SARSEN_NODE", needs::node(&[])?.get_program()).env("SARSEN_XTASK", own);
        counted(&mut python)
    });
}

fn cost(report: &mut Report, _servers: &Servers, _: &Chosen<'_>) {
    report.step("cost", || counted(&mut pytest(places::cost(), built(&["--release"], "release")?)));
}

fn openid(report: &mut Report, _servers: &Servers, chosen: &Chosen<'_>) {
    report.step("openid", || {
        let Some(suite) = chosen.suite else {
            println!("SKIPPED openid: --suite DIR names a folder where the suite was built; see tests/openid/README.md");
            return Ok(Counts::ONE_SKIPPED);
        };
        let suite = std::path::absolute(suite).map_err(|error| format!("--suite {suite}: {error}"))?;
        for part in ["suite", "out", "libs"] {
            if !suite.join(part).is_dir() {
                return Err(format!("{} has no folder {part}; see tests/openid/README.md", suite.display()));
            }
        }
        let mut python = pytest(places::openid(), built(&[], "debug")?);
        counted(python.arg("-s").env("SARSEN_OPENID_SUITE", suite))
    });
}

fn archives(report: &mut Report, _servers: &Servers, _: &Chosen<'_>) {
    report.step("archives", || {
        if !archives_that_can_run() {
            println!(
                "SKIPPED archives: root runs what `cargo xtask dist` has made; see tests/archives/README.md"
            );
            return Ok(Counts::ONE_SKIPPED);
        }
        let bare = places::dist_tools();
        std::fs::create_dir_all(&bare).map_err(|error| format!("{}: {error}", bare.display()))?;
        for (kind, variant) in [("amd64", "minbase"), ("arm64", "extract")] {
            let system = bare.join(format!("bare-{kind}.tar"));
            let (kind, variant) = (format!("--architectures={kind}"), format!("--variant={variant}"));
            let mut make = places::at_root(
                "mmdebstrap",
                &["--mode=root", "--quiet", "--include=libc6", &kind, &variant],
            );
            if !system.is_file() && !process::run(make.arg("bookworm").arg(&system), LIMIT)?.success {
                return Err("mmdebstrap made no bare Debian".into());
            }
        }
        // A network with the loopback interface only, and mounts that nobody else sees.
        let mut python = places::at_root("unshare", &["--net", "--mount", "sh", "-c"]);
        python
            .arg("PATH=\"$PATH:/usr/sbin\" ip link set lo up && exec \"$@\"")
            .arg("sh")
            .arg(places::python());
        python.args(["-m", "pytest"]).current_dir(places::archives()).env("PYTHONDONTWRITEBYTECODE", "1");
        counted(python.env("SARSEN_DIST", places::dist()).env("SARSEN_BARE_DEBIANS", bare))
    });
}

/// Mounts and `chroot` are for root alone.
fn archives_that_can_run() -> bool {
    let entries = std::fs::read_dir(places::dist()).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.any(|name| name.starts_with("sarsen-") && name.ends_with(".tar.gz")) && needs::is_root()
}

/// Builds the program. Returns its path.
fn built(options: &[&str], folder: &str) -> Result<PathBuf, String> {
    let cargo = [&["build", "--package", "sarsen"], options].concat();
    match process::run(&mut places::cargo(&cargo), LIMIT)?.success {
        true => Ok(places::target().join(folder).join("sarsen")),
        false => Err("the binary `sarsen` does not build".into()),
    }
}

fn pytest(folder: PathBuf, binary: PathBuf) -> Command {
    let mut python = places::at_root(&places::python().to_string_lossy(), &["-m", "pytest"]);
    python.current_dir(folder).env("SARSEN_BIN", binary).env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

fn counted(python: &mut Command) -> Result<Counts, String> {
    let outcome = process::run(python, LIMIT)?;
    Ok(of_pytest(&outcome.stdout).with_status(outcome.success))
}

fn schedules(report: &mut Report, _servers: &Servers, _: &Chosen<'_>) {
    report.step("schedules", || {
        // A target folder of its own: the flag would have everything else built again.
        let mut command =
            places::cargo(&["test", "--release", "--package", "sarsen-store", "--no-default-features"]);
        command.args(["--lib", "schedules::", "--target-dir"]).arg(places::target().join("shuttle"));
        let outcome = process::run(command.env("RUSTFLAGS", "--cfg shuttle"), LIMIT)?;
        Ok(of_cargo(&outcome.stdout).with_status(outcome.success))
    });
}

fn fuzz_targets(report: &mut Report, _servers: &Servers, _: &Chosen<'_>) {
    report.check("fuzz targets", || {
        let manifest = places::root().join("fuzz/Cargo.toml");
        let mut command = places::cargo(&["check", "--manifest-path"]);
        command.arg(manifest).arg("--target-dir").arg(places::target());
        Ok(process::run(&mut command, LIMIT)?.success)
    });
}

fn long(report: &mut Report, servers: &Servers, chosen: &Chosen<'_>) {
    report.step("long", || {
        let mut command = places::cargo(&["test", "--release", "--no-fail-fast", "--workspace"]);
        command.args(["--exclude", "xtask", "--", "--include-ignored", "--nocapture", "--test-threads=1"]);
        command.arg(chosen.filter).env("SARSEN_SOAK", "1").env("SARSEN_CADDY", needs::caddy());
        command.env("SARSEN_NODE", needs::node(&[])?.get_program()).envs(servers.variables());
        let outcome = process::run(&mut command, LIMIT)?;
        Ok(of_cargo(&outcome.stdout).with_status(outcome.success))
    });
}

#[test]
fn a_filter_means_the_long_tests() {
    let of = |only, filter, suite| Ok(Chosen { only, filter, suite });
    assert_eq!(chosen(&[]), of(None, "soak_", None));
    for step in [
        "cross",
        "relying-parties",
        "templates",
        "edge",
        "cost",
        "openid",
        "archives",
        "schedules",
        "fuzz-targets",
    ] {
        assert_eq!(chosen(&["--only", step]), of(Some(step), "soak_", None));
    }
    assert_eq!(chosen(&["templates"]), of(Some("templates"), "soak_", None));
    assert_eq!(chosen(&["packages"]), of(Some("packages"), "soak_", None));
    assert_eq!(chosen(&["soak_moves"]), of(Some("long"), "soak_moves", None));
    assert!(chosen(&["--only", "everything"]).is_err_and(|text| {
        text.contains(
            "cross, relying-parties, templates, edge, packages, cost, openid, archives, schedules, fuzz-targets, long",
        )
    }));
    assert!(chosen(&["--fast"]).is_err());
}

#[test]
fn the_suite_of_the_openid_foundation_is_in_a_folder() {
    let of = |only, suite| Ok(Chosen { only, filter: "soak_", suite });
    assert_eq!(chosen(&["openid", "--suite", "x"]), of(Some("openid"), Some("x")));
    assert_eq!(chosen(&["--only", "openid", "--suite", "x"]), of(Some("openid"), Some("x")));
    assert_eq!(chosen(&["--suite", "x"]), of(None, Some("x")));
    assert_eq!(chosen(&["openid"]), of(Some("openid"), None), "a counted skip");
    for wrong in [&["openid", "--suite"][..], &["edge", "--suite", "x"], &["--only", "edge", "--suite", "x"]]
    {
        assert!(chosen(wrong).is_err(), "{wrong:?}");
    }
}
