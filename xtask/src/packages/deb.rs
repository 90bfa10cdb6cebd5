//! Debian packages, written without Debian's tools: two tar archives in an `ar` archive.

use std::path::PathBuf;

use super::entry::{Entry, tar, with_folders};
use super::release::{Program, Release};
use super::{elf, tools};
use crate::places;

pub fn build(release: &Release) -> Result<Vec<PathBuf>, String> {
    release.programs.iter().map(|program| package(release, program)).collect()
}

fn package(release: &Release, program: &Program) -> Result<PathBuf, String> {
    let name = release.names.get("packages.debian")?;
    let data = with_folders(data(release, program)?);
    let control = control(release, program, &data)?;
    let parts = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.xz", tools::xz(&tar(&control, "./", release.time)?)?),
        ("data.tar.xz", tools::xz(&tar(&data, "./", release.time)?)?),
    ];
    let file = format!("{name}_{}_{}.deb", debian_version(&release.version), program.target.debian);
    let file = release.folder.join(file);
    tools::write(&file, &ar(&parts, release.time), 0o644)?;
    Ok(file)
}

/// `0.2.0-rc.1` is `0.2.0~rc.1` there: older than 0.2.0.
fn debian_version(version: &str) -> String {
    version.replacen('-', "~", 1)
}

/// The files that are installed.
fn data(release: &Release, program: &Program) -> Result<Vec<Entry>, String> {
    let name = release.names.get("packages.debian")?;
    let doc = |file: &str| format!("usr/share/doc/{name}/{file}");
    let changes = tools::gzip(changelog(release)?.as_bytes())?;
    let page = tools::gzip(text(release, "sarsen.1")?.as_bytes())?;
    let others = release.licences().into_iter().filter(|file| file.path.ends_with("OTHERS"));
    let others = others.map(|file| Entry { path: doc(&file.path), ..file });
    let files = vec![
        Entry::program("usr/bin/sarsen", program.bytes.clone()),
        Entry::file("usr/lib/systemd/system/sarsen.service", service(release)?),
        Entry::file("usr/share/man/man1/sarsen.1.gz", page),
        Entry::file(&doc("changelog.gz"), changes),
        Entry::file(&doc("copyright"), text(release, "copyright")?),
        Entry::file(&doc("README.Debian"), text(release, "README.Debian")?),
    ];
    Ok(files.into_iter().chain(others).collect())
}

/// What `dpkg` reads and runs.
fn control(release: &Release, program: &Program, data: &[Entry]) -> Result<Vec<Entry>, String> {
    let kibibytes: usize = data.iter().map(|entry| entry.bytes().len().div_ceil(1024).max(1)).sum();
    let libraries = libraries(program)?;
    let control = text(release, "control")?;
    let values = [
        ("ARCHITECTURE", program.target.debian),
        ("SIZE", &kibibytes.to_string()),
        ("LIBRARIES", &libraries),
    ];
    let mut sums = String::new();
    for entry in data.iter().filter(|entry| !entry.is_folder()) {
        sums.push_str(&format!("{}  {}\n", tools::md5(entry.bytes())?, entry.path));
    }
    let mut files =
        vec![Entry::file("control", tools::fill(&control, &values)?), Entry::file("md5sums", sums)];
    for script in ["postinst", "postrm", "prerm"] {
        files.push(Entry::program(script, text(release, script)?));
    }
    Ok(files)
}

/// The packages with the libraries that the program loads.
fn libraries(program: &Program) -> Result<String, String> {
    let mut packages = vec![format!("libc6 (>= {})", program.target.glibc)];
    let mut gcc = false;
    for library in elf::needed(&program.bytes)? {
        gcc |= library.starts_with("libgcc_s.");
        if !elf::IN_LIBC.contains(&library.as_str()) && !library.starts_with("libgcc_s.") {
            return Err(format!("the program needs {library}, and no package is known that has it"));
        }
    }
    if gcc {
        packages.push("libgcc-s1 (>= 4.2)".into());
    }
    Ok(packages.join(", "))
}

/// That of `deploy`, for the program of the package, and with what a package needs.
fn service(release: &Release) -> Result<String, String> {
    let unit = tools::read_text(&places::root().join("deploy/sarsen.service"))?;
    let start = unit.find("[Unit]").ok_or("deploy/sarsen.service has no [Unit]")?;
    let unit = unit.get(start..).unwrap_or_default().replace("/usr/local/bin/", "/usr/bin/");
    // Enabled too early, it waits for its settings.
    let added = "[Unit]\nDocumentation=man:sarsen(1)\nConditionPathExists=/var/lib/sarsen/sarsen.toml\n";
    Ok(format!("{}{}", text(release, "service-header")?, unit.replacen("[Unit]\n", added, 1)))
}

fn changelog(release: &Release) -> Result<String, String> {
    let date = tools::output("date", &["--utc", "-R", &format!("--date=@{}", release.time)])?;
    Ok(format!(
        "{} ({}) unstable; urgency=medium\n\n  * Version {}. What has changed: {}\n\n -- {}  {date}",
        release.names.get("packages.debian")?,
        debian_version(&release.version),
        release.version,
        release.names.get("addresses.home")?,
        maintainer(release)?,
    ))
}

fn maintainer(release: &Release) -> Result<String, String> {
    Ok(format!("{} <{}>", release.names.get("maintainer.name")?, release.names.get("maintainer.email")?))
}

/// A file of `packaging/debian` with the values of this release. Some of `control` are filled in later.
fn text(release: &Release, file: &str) -> Result<String, String> {
    let template = tools::read_text(&places::root().join("packaging/debian").join(file))?;
    let date = tools::output("date", &["--utc", &format!("--date=@{}", release.time), "+%Y-%m-%d"])?;
    let licence = tools::read_text(&places::root().join("LICENSE-MIT"))?;
    let indented = licence.lines().map(|line| if line.is_empty() { " .".into() } else { format!(" {line}") });
    let values = [
        ("DEBIAN", release.names.get("packages.debian")?.to_owned()),
        ("VERSION", debian_version(&release.version)),
        ("MAINTAINER", maintainer(release)?),
        ("HOME", release.names.get("addresses.home")?.to_owned()),
        ("SOURCE", release.names.get("addresses.source")?.to_owned()),
        ("TITLE", release.names.get("project.title")?.to_owned()),
        ("DATE", date.trim().to_owned()),
        ("MIT", indented.collect::<Vec<String>>().join("\n")),
    ];
    Ok(values.iter().fold(template, |text, (name, value)| text.replace(&format!("@{name}@"), value)))
}

/// An archive of `ar`: a header of 60 bytes before each member, at an even place.
fn ar(parts: &[(&str, Vec<u8>)], time: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in parts {
        let mode = 0o100_644;
        let header = format!("{name:<16}{time:<12}{:<6}{:<6}{mode:<8o}{:<10}`\n", 0, 0, bytes.len());
        archive.extend(header.as_bytes());
        archive.extend(bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ar_reads_what_it_wrote() {
        let archive = ar(&[("debian-binary", b"2.0\n".to_vec()), ("odd", b"x".to_vec())], 1_700_000_000);
        assert_eq!(archive.len(), 8 + 60 + 4 + 60 + 2);
        let text = String::from_utf8(archive).expect("text");
        let header = "debian-binary   1700000000  0     0     100644  4         `\n2.0\n";
        assert!(text.starts_with(&format!("!<arch>\n{header}odd ")), "{text}");
    }

    #[test]
    fn versions_are_those_of_debian() {
        assert_eq!(debian_version("0.1.0"), "0.1.0");
        assert_eq!(debian_version("0.2.0-rc.1"), "0.2.0~rc.1");
    }

    #[test]
    fn the_unit_is_that_of_deploy_for_the_program_of_the_package() {
        let (release, _folder) = crate::packages::tests::release();
        let unit = service(&release).expect("is made");
        assert!(unit.contains("\nExecStart=/usr/bin/sarsen serve"), "{unit}");
        assert!(unit.contains("\nConditionPathExists=/var/lib/sarsen/sarsen.toml\n"), "{unit}");
        assert!(
            !unit.contains("/usr/local") && !unit.contains('@') || unit.contains("@system-service"),
            "{unit}"
        );
    }
}
