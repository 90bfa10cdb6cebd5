//! What the programs are made of, as CycloneDX 1.5: for scanners that look for known vulnerabilities.
//!
//! `cargo tree` knows what is compiled for a target and a set of features, Cargo.lock the sums of the sources, and the headers
//! of SQLite and AWS-LC their versions. Packages that only take part in building are `excluded`, as the format calls it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::source::{FEATURES, Source, VERSION, of, unpacked};
use super::target;
use crate::{places, process};

/// One crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// As its author wrote it.
    pub licence: String,
    pub is_ours: bool,
}

impl Package {
    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// C inside a crate: crate, name, maker and product as catalogues of vulnerabilities name it, header, macro.
const INSIDE: [(&str, &str, &str, &str, &str); 2] = [
    ("libsqlite3-sys", "SQLite", "sqlite:sqlite", "sqlite3/sqlite3.h", "SQLITE_VERSION"),
    (
        "aws-lc-sys",
        "AWS-LC",
        "amazon:aws_libcrypto",
        "aws-lc/include/openssl/base.h",
        "AWSLC_VERSION_NUMBER_STRING",
    ),
];

/// Crates, and which of them needs which.
#[derive(Default)]
struct Tree {
    packages: BTreeSet<Package>,
    needs: BTreeMap<String, BTreeSet<String>>,
}

/// Writes `sarsen-VERSION.cdx.json`.
pub fn write(source: &Source, folder: &Path) -> Result<(), String> {
    let built_in = packages()?;
    let all = tree("normal,build")?;
    let lock = places::root().join("Cargo.lock");
    let sums = sums(&fs::read_to_string(&lock).map_err(of(&lock))?);
    let mut components = Vec::new();
    let mut needs = all.needs;
    for package in &all.packages {
        if package.name == "sarsen" {
            continue;
        }
        let scope = if built_in.contains(package) { "required" } else { "excluded" };
        let sum = sums.get(&(package.name.clone(), package.version.clone()));
        components.push(component(package, scope, sum.map(String::as_str)));
        for (_, name, product, header, line) in INSIDE.iter().filter(|(inside, ..)| *inside == package.name) {
            let version = version_in(package, header, line)?;
            let purl = format!("pkg:generic/{}@{version}", name.to_lowercase());
            components.push(object(&[
                ("type", text("library")),
                ("bom-ref", text(&purl)),
                ("name", text(name)),
                ("version", text(&version)),
                ("cpe", text(&format!("cpe:2.3:a:{product}:{version}:*:*:*:*:*:*:*"))),
                ("purl", text(&purl)),
            ]));
            needs.entry(package.purl()).or_default().insert(purl);
        }
    }
    let file = folder.join(format!("sarsen-{VERSION}.cdx.json"));
    fs::write(&file, document(source, &components, &needs)).map_err(of(&file))?;
    println!(
        "{}: {} packages, {} of them in the program",
        file.display(),
        all.packages.len(),
        built_in.len()
    );
    Ok(())
}

/// The crates whose code is in the program.
pub fn packages() -> Result<Vec<Package>, String> {
    Ok(tree("normal,no-proc-macro")?.packages.into_iter().collect())
}

/// All targets together: there is one file for a release.
fn tree(edges: &str) -> Result<Tree, String> {
    let mut all = Tree::default();
    for target in &target::ALL {
        let mut command = places::cargo(&["tree", "--locked", "--package", "sarsen", "--features", FEATURES]);
        command.args([
            "--prefix",
            "depth",
            "--format",
            "{p}\t{l}",
            "--edges",
            edges,
            "--target",
            target.triple,
        ]);
        let text = process::output(&mut command).ok_or("`cargo tree` failed; Cargo.lock may not fit")?;
        add(&text, &mut all)?;
    }
    Ok(all)
}

/// `12serde v1.0.228<TAB>MIT OR Apache-2.0`: how deep, package, licence. What has been shown before ends with ` (*)`.
fn add(text: &str, tree: &mut Tree) -> Result<(), String> {
    let mut path: Vec<String> = Vec::new();
    for line in text.lines() {
        let strange = || format!("`cargo tree` wrote a line that dist does not know: {line}");
        let digits = line.chars().take_while(char::is_ascii_digit).count();
        let (depth, rest) = line.split_at(digits);
        let depth: usize = depth.parse().map_err(|_| strange())?;
        let (package, licence) = rest.split_once('\t').ok_or_else(strange)?;
        let mut words = package.split_whitespace();
        let (name, version) = words.next().zip(words.next()).ok_or_else(strange)?;
        let package = Package {
            name: name.to_owned(),
            version: version.trim_start_matches('v').to_owned(),
            // `MIT/Apache-2.0` is an older way to write it.
            licence: one_spaced(&licence.trim_end_matches(" (*)").replace('/', " OR ")),
            // A package of the registry is shown without its place.
            is_ours: words.any(|word| word.starts_with("(/")),
        };
        path.truncate(depth);
        if let Some(parent) = path.last() {
            tree.needs.entry(parent.clone()).or_default().insert(package.purl());
        }
        path.push(package.purl());
        tree.packages.insert(package);
    }
    Ok(())
}

fn one_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The sums of the sources in Cargo.lock, by name and version.
fn sums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut sums = BTreeMap::new();
    for block in lock.split("[[package]]") {
        let value = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
            line.map(|rest| rest.trim_end_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(sum)) = (value("name"), value("version"), value("checksum")) {
            sums.insert((name, version), sum);
        }
    }
    sums
}

/// The text of `#define MACRO "text"` in a header of a package.
fn version_in(package: &Package, header: &str, name: &str) -> Result<String, String> {
    let folder = unpacked(&package.name, &package.version);
    let file =
        folder.ok_or_else(|| format!("the sources of {} are not unpacked", package.name))?.join(header);
    let text = fs::read_to_string(&file).map_err(of(&file))?;
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let value = lines.find_map(|words| match words.as_slice() {
        ["#define", found, value, ..] if *found == name => Some(value.trim_matches('"').to_owned()),
        _ => None,
    });
    value.ok_or_else(|| format!("{}: has no {name}", file.display()))
}

fn component(package: &Package, scope: &str, sum: Option<&str>) -> String {
    let purl = package.purl();
    let mut fields = vec![
        ("type", text("library")),
        ("bom-ref", text(&purl)),
        ("name", text(&package.name)),
        ("version", text(&package.version)),
        ("scope", text(scope)),
    ];
    if let Some(sum) = sum {
        fields.push(("hashes", format!("[{}]", object(&[("alg", text("SHA-256")), ("content", text(sum))]))));
    }
    if !package.licence.is_empty() {
        fields.push(("licenses", format!("[{}]", object(&[("expression", text(&package.licence))]))));
    }
    fields.push(("purl", text(&purl)));
    object(&fields)
}

fn document(source: &Source, components: &[String], needs: &BTreeMap<String, BTreeSet<String>>) -> String {
    let ours = format!("pkg:cargo/sarsen@{VERSION}");
    let commit = [("name", text("sarsen:commit")), ("value", text(&source.commit))];
    let program = object(&[
        ("type", text("application")),
        ("bom-ref", text(&ours)),
        ("name", text("sarsen")),
        ("version", text(VERSION)),
        ("licenses", format!("[{}]", object(&[("expression", text("MIT OR Apache-2.0"))]))),
        ("purl", text(&ours)),
        ("properties", format!("[{}]", object(&commit))),
    ]);
    let needs = needs.iter().map(|(name, needed)| {
        let needed: Vec<String> = needed.iter().map(|name| text(name)).collect();
        object(&[("ref", text(name)), ("dependsOn", format!("[{}]", needed.join(", ")))])
    });
    let list = |items: Vec<String>| format!("[\n    {}\n  ]", items.join(",\n    "));
    format!(
        "{{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"version\": 1,\n  \"metadata\": {},\n  \
         \"components\": {},\n  \"dependencies\": {}\n}}\n",
        object(&[("timestamp", text(&source.time)), ("component", program)]),
        list(components.to_vec()),
        list(needs.collect())
    )
}

fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    format!("{{{}}}", fields.join(", "))
}

/// A string of JSON.
fn text(value: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in value.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\u{0}'..='\u{1f}' => quoted.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_of_cargo_is_read_with_what_it_leaves_out() {
        let shown = "0sarsen v0.1.0 (/a/crates/sarsen)\tMIT OR Apache-2.0\n1clap v4.6.0\tMIT / Apache-2.0\n\
                     2strsim v0.11.1\tMIT\n1text v0.1.0 (/a/crates/text)\tMIT OR Apache-2.0\n2strsim v0.11.1\tMIT (*)\n";
        let mut tree = Tree::default();
        add(shown, &mut tree).expect("is read");
        let names: Vec<(&str, bool)> =
            tree.packages.iter().map(|package| (package.name.as_str(), package.is_ours)).collect();
        assert_eq!(names, [("clap", false), ("sarsen", true), ("strsim", false), ("text", true)]);
        assert_eq!(tree.packages.first().map(|clap| clap.licence.as_str()), Some("MIT OR Apache-2.0"));
        let of = |name: &str| tree.needs.get(name).map(|needs| needs.iter().cloned().collect::<Vec<_>>());
        assert_eq!(of("pkg:cargo/text@0.1.0"), Some(vec!["pkg:cargo/strsim@0.11.1".to_owned()]));
        assert_eq!(
            of("pkg:cargo/sarsen@0.1.0"),
            Some(vec!["pkg:cargo/clap@4.6.0".to_owned(), "pkg:cargo/text@0.1.0".to_owned()])
        );
        assert!(add("├── serde", &mut tree).is_err_and(|text| text.contains("├── serde")));
    }

    #[test]
    fn sums_come_from_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"x\"\nchecksum = \"00ff\"\n\
                    \n[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        let sums = sums(lock);
        assert_eq!(sums.len(), 1);
        assert_eq!(sums.get(&("a".into(), "1.0.0".into())).map(String::as_str), Some("00ff"));
    }

    #[test]
    fn strings_are_strings_of_json() {
        assert_eq!(text("a\"b\\c\nü"), "\"a\\\"b\\\\c\\u000aü\"");
    }
}
