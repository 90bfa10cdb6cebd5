//! For npm: `sarsen`, a launcher, and one package for each platform with the program. No script runs at installation: npm
//! chooses the platform by `os`, `cpu` and `libc` of the optional dependencies.

use std::path::PathBuf;

use super::entry::{Entry, tar, with_folders};
use super::release::{Program, Release};
use super::tools::{self, json};
use crate::places;

pub fn build(release: &Release) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for program in &release.programs {
        let name = package_of(release, program)?;
        let entries = vec![
            Entry::file("package.json", platform_manifest(release, program)?),
            Entry::file(
                "README.md",
                format!("# {name}\n\nThe program of `{}` for this platform.\n", launcher(release)?),
            ),
            Entry::program("bin/sarsen", program.bytes.clone()),
        ];
        files.push(pack(release, &name, entries)?);
    }
    let folder = places::root().join("packaging/npm");
    let entries = vec![
        Entry::file("package.json", manifest(release)?),
        Entry::file("README.md", release.fill(&tools::read_text(&folder.join("README.md"))?)?),
        Entry::program("bin/sarsen.js", tools::read(&folder.join("sarsen.js"))?),
    ];
    files.push(pack(release, launcher(release)?, entries)?);
    Ok(files)
}

fn launcher(release: &Release) -> Result<&str, String> {
    release.names.get("packages.npm")
}

/// `@sarsen/linux-x64`.
fn package_of(release: &Release, program: &Program) -> Result<String, String> {
    Ok(format!("{}/linux-{}", release.names.get("packages.npm_scope")?, program.target.node))
}

/// As `npm pack` names and lays it out.
fn pack(release: &Release, name: &str, mut entries: Vec<Entry>) -> Result<PathBuf, String> {
    entries.extend(release.licences());
    let archive = tools::gzip(&tar(&files_only(with_folders(entries)), "package/", release.time)?)?;
    let name = name.trim_start_matches('@').replace('/', "-");
    let file = release.folder.join(format!("{name}-{}.tgz", release.version));
    tools::write(&file, &archive, 0o644)?;
    Ok(file)
}

/// npm's own archives have no folders.
fn files_only(entries: Vec<Entry>) -> Vec<Entry> {
    entries.into_iter().filter(|entry| !entry.is_folder()).collect()
}

/// The lines that all packages have.
fn common(release: &Release, name: &str, description: &str) -> Result<Vec<String>, String> {
    let names = &release.names;
    Ok(vec![
        format!("\"name\": {}", json(name)),
        format!("\"version\": {}", json(&release.version)),
        format!("\"description\": {}", json(description)),
        format!("\"license\": {}", json(names.get("project.license")?)),
        format!("\"homepage\": {}", json(names.get("addresses.home")?)),
        format!(
            "\"repository\": {{ \"type\": \"git\", \"url\": {} }}",
            json(&format!("git+{}.git", names.get("addresses.source")?))
        ),
        // A name with a scope is private otherwise.
        "\"publishConfig\": { \"access\": \"public\" }".into(),
        format!("\"bugs\": {{ \"url\": {} }}", json(names.get("addresses.issues")?)),
    ])
}

fn manifest(release: &Release) -> Result<String, String> {
    let mut lines = common(release, launcher(release)?, release.names.get("project.summary")?)?;
    let platform =
        |program| Ok(format!("{}: {}", json(&package_of(release, program)?), json(&release.version)));
    let platforms: Result<Vec<String>, String> = release.programs.iter().map(platform).collect();
    lines.push("\"bin\": { \"sarsen\": \"bin/sarsen.js\" }".into());
    lines.push("\"files\": [\"bin\"]".into());
    lines.push("\"engines\": { \"node\": \">=18\" }".into());
    // Exactly this version: a launcher starts the program of its own release.
    lines.push(format!("\"optionalDependencies\": {{ {} }}", platforms?.join(", ")));
    Ok(object(&lines))
}

fn platform_manifest(release: &Release, program: &Program) -> Result<String, String> {
    let name = package_of(release, program)?;
    let text = format!("The program of {} for Linux on {}", launcher(release)?, program.target.node);
    let mut lines = common(release, &name, &text)?;
    lines.push("\"files\": [\"bin\"]".into());
    lines.push("\"os\": [\"linux\"]".into());
    lines.push(format!("\"cpu\": [{}]", json(program.target.node)));
    lines.push("\"libc\": [\"glibc\"]".into());
    // A program must be a file of its own, also where packages stay in archives.
    lines.push("\"preferUnplugged\": true".into());
    Ok(object(&lines))
}

fn object(lines: &[String]) -> String {
    format!("{{\n  {}\n}}\n", lines.join(",\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::tests::release;

    #[test]
    fn one_package_for_each_platform_and_a_launcher() {
        let (release, _folder) = release();
        let files = build(&release).expect("is built");
        let name =
            |file: &PathBuf| file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let names: Vec<String> = files.iter().map(name).collect();
        assert_eq!(names, ["sarsen-linux-x64-1.2.3.tgz", "sarsen-linux-arm64-1.2.3.tgz", "sarsen-1.2.3.tgz"]);
        let read = |file: &PathBuf, member: &str| {
            let archive = file.to_string_lossy();
            tools::output("tar", &["-xzOf", &archive, member]).expect("is there")
        };
        let [x64, _, launcher] = files.as_slice() else { panic!("three files") };
        let manifest = read(x64, "package/package.json");
        for line in [
            "\"name\": \"@sarsen/linux-x64\"",
            "\"cpu\": [\"x64\"]",
            "\"os\": [\"linux\"]",
            "\"libc\": [\"glibc\"]",
        ] {
            assert!(manifest.contains(line), "{line} is not in {manifest}");
        }
        assert_eq!(read(x64, "package/bin/sarsen"), "x86_64 program");
        let manifest = read(launcher, "package/package.json");
        let wanted = "\"optionalDependencies\": { \"@sarsen/linux-x64\": \"1.2.3\", \"@sarsen/linux-arm64\": \"1.2.3\" }";
        assert!(manifest.contains(wanted) && !manifest.contains("scripts"), "{manifest}");

        let first: Vec<_> = files.iter().map(|file| tools::read(file).expect("is read")).collect();
        let again = build(&release).expect("is built");
        let second: Vec<_> = again.iter().map(|file| tools::read(file).expect("is read")).collect();
        assert!(first == second, "the same bytes each time");
    }
}
