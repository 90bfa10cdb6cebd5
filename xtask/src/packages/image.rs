//! The image: files of the OCI layout (image-spec 1.1) in one tar archive. It has the program, the libraries of glibc that
//! the program loads, and a user; there is no shell, no package manager and no other program.
//!
//! The libraries are those of Debian's package, in the newest version of the release that builds the image; a label names
//! it. A layer of their own carries them, so that a new version of the program is a layer of its own too.

use std::path::PathBuf;

use super::entry::{Entry, tar, with_folders};
use super::glibc;
use super::release::{Program, Release};
use super::tools::{self, json};

/// The user of the image; a folder for data that is mounted belongs to it.
const USER: u32 = 10001;

pub fn build(release: &Release) -> Result<Vec<PathBuf>, String> {
    let mut layout = Layout::default();
    let mut manifests = Vec::new();
    for program in &release.programs {
        let manifest = manifest(release, program, &mut layout)?;
        let platform = format!("{{ \"architecture\": {}, \"os\": \"linux\" }}", json(program.target.debian));
        manifests.push((format!("{}-{}", release.version, program.target.debian), manifest, platform));
    }
    // One name for all platforms, and one for each.
    let list = manifests.iter().map(|(_, manifest, platform)| manifest.with("platform", platform));
    let list = format!(
        "{{ \"schemaVersion\": 2, \"mediaType\": \"{INDEX}\", \"manifests\": [{}] }}\n",
        list.collect::<Vec<_>>().join(", ")
    );
    let mut named = vec![layout.add(INDEX, list.into_bytes())?.with("annotations", &name(&release.version))];
    named.extend(manifests.iter().map(|(tag, manifest, _)| manifest.with("annotations", &name(tag))));
    let index = format!("{{ \"schemaVersion\": 2, \"manifests\": [{}] }}\n", named.join(", "));

    let mut files = layout.blobs;
    files.push(Entry::file("oci-layout", "{ \"imageLayoutVersion\": \"1.0.0\" }\n"));
    files.push(Entry::file("index.json", index));
    let file = release.folder.join(format!("sarsen-{}-image.tar", release.version));
    tools::write(&file, &tar(&with_folders(files), "", release.time)?, 0o644)?;
    Ok(vec![file])
}

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

fn name(tag: &str) -> String {
    format!("{{ \"org.opencontainers.image.ref.name\": {} }}", json(tag))
}

/// Files by their sums.
#[derive(Default)]
struct Layout {
    blobs: Vec<Entry>,
}

impl Layout {
    fn add(&mut self, media: &'static str, bytes: Vec<u8>) -> Result<Descriptor, String> {
        let descriptor = Descriptor { media, sum: tools::sha256(&bytes)?, size: bytes.len() };
        let path = format!("blobs/sha256/{}", descriptor.sum);
        if !self.blobs.iter().any(|entry| entry.path == path) {
            self.blobs.push(Entry::file(&path, bytes));
        }
        Ok(descriptor)
    }
}

/// How one file names another.
struct Descriptor {
    media: &'static str,
    sum: String,
    size: usize,
}

impl Descriptor {
    fn text(&self) -> String {
        let Descriptor { media, sum, size } = self;
        format!("{{ \"mediaType\": \"{media}\", \"digest\": \"sha256:{sum}\", \"size\": {size} }}")
    }

    fn with(&self, name: &str, value: &str) -> String {
        let text = self.text();
        format!("{}, \"{name}\": {value} }}", text.strip_suffix(" }").unwrap_or(&text))
    }
}

fn manifest(release: &Release, program: &Program, layout: &mut Layout) -> Result<Descriptor, String> {
    let glibc = glibc::files(program)?;
    let mut base = glibc.files;
    base.extend(system());
    let own = vec![Entry::program("usr/bin/sarsen", program.bytes.clone())];
    let licences = release.licences().into_iter();
    let licences = licences.map(|file| Entry { path: format!("usr/share/doc/sarsen/{}", file.path), ..file });
    let mut layers = Vec::new();
    let mut sums = Vec::new();
    for entries in [base, own.into_iter().chain(licences).collect()] {
        let archive = tar(&with_folders(entries), "", release.time)?;
        sums.push(json(&format!("sha256:{}", tools::sha256(&archive)?)));
        layers.push(layout.add(LAYER, tools::gzip(&archive)?)?.text());
    }
    let config =
        layout.add(CONFIG, config(release, program, &glibc.version, &sums.join(", "))?.into_bytes())?;
    let text = format!(
        "{{ \"schemaVersion\": 2, \"mediaType\": \"{MANIFEST}\", \"config\": {}, \"layers\": [{}] }}\n",
        config.text(),
        layers.join(", ")
    );
    layout.add(MANIFEST, text.into_bytes())
}

/// What a program expects of a system, beside its libraries.
fn system() -> Vec<Entry> {
    let user = format!(
        "root:x:0:0:root:/:/nonexistent\nsarsen:x:{USER}:{USER}:Sarsen:/var/lib/sarsen:/nonexistent\n"
    );
    vec![
        Entry::file("etc/passwd", user),
        Entry::file("etc/group", format!("root:x:0:\nsarsen:x:{USER}:\n")),
        Entry::file("etc/nsswitch.conf", "hosts: files dns\n"),
        Entry { mode: 0o1777, ..Entry::folder("tmp") },
        Entry { mode: 0o700, owner: USER, ..Entry::folder("var/lib/sarsen") },
    ]
}

/// `Healthcheck` is Docker's; others leave it out, and are told the command.
fn config(release: &Release, program: &Program, glibc: &str, sums: &str) -> Result<String, String> {
    let names = &release.names;
    let created =
        tools::output("date", &["--utc", &format!("--date=@{}", release.time), "+%Y-%m-%dT%H:%M:%SZ"])?;
    let labels = [
        ("org.opencontainers.image.title", names.get("project.title")?),
        ("org.opencontainers.image.description", names.get("project.summary")?),
        ("org.opencontainers.image.version", &release.version),
        ("org.opencontainers.image.licenses", names.get("project.license")?),
        ("org.opencontainers.image.url", names.get("addresses.home")?),
        ("org.opencontainers.image.source", names.get("addresses.source")?),
        ("sarsen.glibc", glibc),
    ];
    let labels = labels.map(|(label, value)| format!("{}: {}", json(label), json(value))).join(", ");
    const SECOND: u64 = 1_000_000_000;
    let settings = [
        format!("\"User\": \"{USER}:{USER}\""),
        "\"ExposedPorts\": { \"7070/tcp\": {} }".into(),
        "\"Env\": [\"PATH=/usr/bin\", \"SARSEN_LISTEN=0.0.0.0:7070\"]".into(),
        "\"Entrypoint\": [\"/usr/bin/sarsen\"]".into(),
        "\"Cmd\": [\"serve\"]".into(),
        "\"Volumes\": { \"/var/lib/sarsen\": {} }".into(),
        "\"WorkingDir\": \"/var/lib/sarsen\"".into(),
        format!("\"Labels\": {{ {labels} }}"),
        "\"StopSignal\": \"SIGTERM\"".into(),
        format!(
            "\"Healthcheck\": {{ \"Test\": [\"CMD\", \"/usr/bin/sarsen\", \"health\"], \"Interval\": {}, \
             \"Timeout\": {}, \"StartPeriod\": {} }}",
            10 * SECOND,
            5 * SECOND,
            10 * SECOND
        ),
    ];
    Ok(format!(
        "{{ \"created\": {}, \"architecture\": {}, \"os\": \"linux\", \"config\": {{ {} }}, \"rootfs\": {{ \"type\": \
         \"layers\", \"diff_ids\": [{sums}] }} }}\n",
        json(created.trim()),
        json(program.target.debian),
        settings.join(", ")
    ))
}

#[test]
fn a_descriptor_names_a_file_by_its_sum() {
    let mut layout = Layout::default();
    let one = layout.add(LAYER, b"text".to_vec()).expect("is added");
    layout.add(LAYER, b"text".to_vec()).expect("is there");
    let names: Vec<&str> = layout.blobs.iter().map(|entry| entry.path.as_str()).collect();
    let sum = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1";
    assert_eq!(names, [format!("blobs/sha256/{sum}")]);
    let text =
        format!("{{ \"mediaType\": \"{LAYER}\", \"digest\": \"sha256:{sum}\", \"size\": 4, \"a\": 1 }}");
    assert_eq!(one.with("a", "1"), text);
}

#[test]
fn the_system_has_one_user_and_a_folder_for_its_data() {
    let entries = with_folders(system());
    let data = entries.iter().find(|entry| entry.path == "var/lib/sarsen").expect("is there");
    assert_eq!((data.mode, data.owner, data.is_folder()), (0o700, USER, true));
    assert!(entries.iter().all(|entry| entry.is_folder() || entry.mode == 0o644));
}
