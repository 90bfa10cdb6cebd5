//! A wheel for each platform: the program inside a Python package, and two commands that start it.

use std::path::PathBuf;

use super::entry::Entry;
use super::release::{Program, Release};
use super::tools;
use super::zip::zip;
use crate::places;

pub fn build(release: &Release) -> Result<Vec<PathBuf>, String> {
    release.programs.iter().map(|program| wheel(release, program)).collect()
}

fn wheel(release: &Release, program: &Program) -> Result<PathBuf, String> {
    let name = release.names.get("packages.wheel")?;
    let module = name.replace('-', "_");
    let version = python_version(&release.version);
    let source = places::root().join("packaging/wheel");
    let about = format!("{module}-{version}.dist-info");
    let mut entries = vec![
        Entry::file(&format!("{module}/__init__.py"), tools::read(&source.join("__init__.py"))?),
        Entry::file(&format!("{module}/__main__.py"), tools::read(&source.join("__main__.py"))?),
        Entry::program(&format!("{module}/sarsen"), program.bytes.clone()),
        Entry::file(&format!("{about}/METADATA"), metadata(release, &version)?),
        Entry::file(&format!("{about}/WHEEL"), tags(program)),
        Entry::file(
            &format!("{about}/entry_points.txt"),
            format!("[console_scripts]\n{name} = {module}:main\nsarsen = {module}:main\n"),
        ),
    ];
    for licence in release.licences() {
        entries.push(Entry { path: format!("{about}/licenses/{}", licence.path), ..licence });
    }
    let list = format!("{about}/RECORD");
    entries.push(Entry::file(&list, record(&entries, &list)?));
    let file = release.folder.join(format!("{module}-{version}-py3-none-{}.whl", program.target.wheel));
    tools::write(&file, &zip(&entries, release.time)?, 0o644)?;
    Ok(file)
}

/// `0.2.0-rc.1` is `0.2.0rc1` there.
fn python_version(version: &str) -> String {
    match version.split_once('-') {
        Some((release, early)) => format!("{release}{}", early.replace('.', "")),
        None => version.to_owned(),
    }
}

fn metadata(release: &Release, version: &str) -> Result<String, String> {
    let names = &release.names;
    let readme = release.fill(&tools::read_text(&places::root().join("packaging/wheel/README.md"))?)?;
    let mut lines = vec![
        "Metadata-Version: 2.4".to_owned(),
        format!("Name: {}", names.get("packages.wheel")?),
        format!("Version: {version}"),
        format!("Summary: {}", names.get("project.summary")?),
        format!("Project-URL: Homepage, {}", names.get("addresses.home")?),
        format!("Project-URL: Source, {}", names.get("addresses.source")?),
        format!("Project-URL: Issues, {}", names.get("addresses.issues")?),
        format!("Author-email: {} <{}>", names.get("maintainer.name")?, names.get("maintainer.email")?),
        format!("License-Expression: {}", names.get("project.license")?),
    ];
    lines.extend(release.licences().iter().map(|licence| format!("License-File: {}", licence.path)));
    lines.push("Classifier: Operating System :: POSIX :: Linux".into());
    lines.push("Requires-Python: >=3.8".into());
    lines.push("Description-Content-Type: text/markdown".into());
    Ok(format!("{}\n\n{readme}", lines.join("\n")))
}

/// It is no pure library, and each platform tag has a line of its own.
fn tags(program: &Program) -> String {
    let tags = program.target.wheel.split('.').map(|platform| format!("Tag: py3-none-{platform}\n"));
    format!(
        "Wheel-Version: 1.0\nGenerator: cargo xtask packages\nRoot-Is-Purelib: false\n{}",
        tags.collect::<String>()
    )
}

/// The sum and the size of every file; none of the list itself.
fn record(entries: &[Entry], list: &str) -> Result<String, String> {
    let mut text = String::new();
    for entry in entries {
        let sum = base64url(&tools::sha256(entry.bytes())?);
        text.push_str(&format!("{},sha256={sum},{}\n", entry.path, entry.bytes().len()));
    }
    text.push_str(&format!("{list},,\n"));
    Ok(text)
}

/// Of hexadecimal digits, without padding.
fn base64url(hex: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits: String = hex.chars().filter_map(|c| Some(format!("{:04b}", c.to_digit(16)?))).collect();
    let groups = bits.as_bytes().chunks(6);
    let digit = |group: &[u8]| {
        let number = group.iter().fold(0, |number, bit| (number << 1) | usize::from(*bit == b'1'));
        DIGITS.get(number << (6 - group.len())).map_or('?', |digit| char::from(*digit))
    };
    groups.map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::tests::release;

    #[test]
    fn a_wheel_for_each_platform_with_its_sums() {
        let (release, _folder) = release();
        let files = build(&release).expect("is built");
        let names: Vec<_> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        assert_eq!(
            names,
            [
                "sarsen_server-1.2.3-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
                "sarsen_server-1.2.3-py3-none-manylinux_2_28_aarch64.whl"
            ]
        );
        // As pip checks it: every file but the list itself has its sum in the list.
        let script = "import sys, zipfile, hashlib, base64\n\
            z = zipfile.ZipFile(sys.argv[1]); lines = z.read('sarsen_server-1.2.3.dist-info/RECORD').decode().split()\n\
            rows = {l.split(',')[0]: l.split(',')[1] for l in lines}; assert set(rows) == set(z.namelist())\n\
            for n, s in rows.items():\n  d = base64.urlsafe_b64encode(hashlib.sha256(z.read(n)).digest()).decode()\n\
            \x20 assert n.endswith('RECORD') or s == 'sha256=' + d.rstrip('='), n\n\
            print(z.read('sarsen_server/sarsen').decode(), oct(z.getinfo('sarsen_server/sarsen').external_attr >> 16))";
        let read = tools::output("python3", &["-c", script, &files.first().expect("one").to_string_lossy()]);
        assert_eq!(read.as_deref(), Ok("x86_64 program 0o100755\n"));
        let bytes = |file: &PathBuf| tools::read(file).expect("is read");
        let first: Vec<_> = files.iter().map(bytes).collect();
        assert!(first == build(&release).expect("is built").iter().map(bytes).collect::<Vec<_>>());
    }

    #[test]
    fn versions_are_those_of_python() {
        assert_eq!(python_version("0.1.0"), "0.1.0");
        assert_eq!(python_version("0.2.0-rc.1"), "0.2.0rc1");
    }

    #[test]
    fn sums_are_in_base64() {
        assert_eq!(base64url("00"), "AA");
        assert_eq!(base64url("fbff"), "-_8");
        assert_eq!(base64url("666f6f"), "Zm9v");
    }
}
