//! `sarsen new`: what it writes and what it refuses. The templates are followed with their frameworks by
//! `cargo xtask soak templates`.

use crate::support::Place;
use std::fs;
use std::os::unix::fs::symlink;

const EXPRESS: [&str; 3] = ["--template", "express", "--no-install"];

fn new<'a>(name: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    [&["new", name], options].concat()
}

#[test]
fn a_product_is_written_whole_and_says_what_to_do_next() {
    let place = Place::new();
    let ended = place.run(&new("corner-shop", &EXPRESS));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("files to corner-shop/."), "{}", ended.stderr);
    assert!(ended.stdout.contains("cd corner-shop\n    npm ci"), "{}", ended.stdout);
    let text = |name: &str| fs::read_to_string(place.path("corner-shop").join(name)).expect(name);
    assert!(text("package.json").contains("\"name\": \"corner-shop\""));
    assert!(text("package-lock.json").contains("\"name\": \"corner-shop\""));
    assert!(text("sarsen.yaml").contains("slug: corner-shop"));
    assert!(text("public/plan.js").contains("EventSource"));
    for private in [".env.local", ".sarsen/"] {
        assert!(text(".gitignore").lines().any(|line| line == private), "{private}");
    }
}

#[test]
fn versions_are_exact_and_locked() {
    for template in ["express", "next"] {
        let place = Place::new();
        assert_eq!(place.run(&new("shop", &["--template", template, "--no-install"])).code, 0);
        let json = |name: &str| -> serde_json::Value {
            let text = fs::read_to_string(place.path("shop").join(name)).expect(name);
            serde_json::from_str(&text).expect("JSON")
        };
        let package = json("package.json");
        let locked = json("package-lock.json");
        for list in ["dependencies", "devDependencies"] {
            for (name, version) in package[list].as_object().into_iter().flatten() {
                let lock = &locked["packages"][format!("node_modules/{name}")];
                assert_eq!(lock["version"], *version, "{template}: {name}");
            }
        }
        for (name, lock) in locked["packages"].as_object().expect("packages") {
            assert!(name.is_empty() || lock["integrity"].is_string(), "{template}: {name} has no hash");
        }
    }
}

#[test]
fn python_packages_have_versions_and_hashes() {
    let place = Place::new();
    let ended = place.run(&new("shop", &["--template", "fastapi", "--no-install"]));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let text = |name: &str| fs::read_to_string(place.path("shop").join(name)).expect(name);
    let locked = text("requirements.txt");
    let packages: Vec<&str> = locked.lines().filter(|line| !line.starts_with([' ', '#'])).collect();
    for package in text("requirements.in").lines().filter(|line| !line.starts_with('#')) {
        assert!(packages.iter().any(|line| line.starts_with(&format!("{package}=="))), "{package}");
    }
    for package in packages {
        let after = locked.split(package).nth(1).unwrap_or_default();
        assert!(package.contains("==") && after.trim_start().starts_with("--hash=sha256:"), "{package}");
    }
}

/// Crates as in the repository, with the manifests alone.
fn crates(place: &Place) {
    for name in ["browser", "endpoint", "live", "metrics", "store", "web", "text"] {
        fs::create_dir_all(place.path("our crates").join(name)).expect("a folder");
        let manifest = format!("[package]\nname = \"sarsen-{name}\"\nversion.workspace = true\n");
        fs::write(place.path("our crates").join(name).join("Cargo.toml"), manifest).expect("a file");
    }
}

#[test]
fn a_back_end_in_rust_is_built_from_the_crates_of_a_folder() {
    let place = Place::new();
    crates(&place);
    let ended = place.run(&new("shop", &["--template", "live", "--no-install", "--crates", "our crates"]));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let manifest = fs::read_to_string(place.path("shop/Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    assert_eq!(manifest["package"]["name"].as_str(), Some("shop"));
    let patch = manifest["patch"]["crates-io"].as_table().expect("a patch");
    let names: Vec<&str> = patch.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["sarsen-browser", "sarsen-endpoint", "sarsen-live", "sarsen-metrics", "sarsen-store", "sarsen-web"]
    );
    let store = patch["sarsen-store"]["path"].as_str().expect("a path");
    assert!(store.ends_with("/our crates/store") && store.starts_with('/'), "{store}");
    let flags = fs::read_to_string(place.path("shop/.cargo/config.toml")).expect("the flags");
    let ours = include_str!("../../../../.cargo/config.toml");
    let setting =
        |text: &str| text.lines().find(|line| line.starts_with("LIBSQLITE3_FLAGS")).map(str::to_owned);
    assert_eq!(setting(&flags), setting(ours));
}

#[test]
fn packed_crates_are_unpacked_into_the_product() {
    let place = Place::new();
    fs::create_dir(place.path("packed")).expect("a folder");
    for name in ["browser", "endpoint", "live", "metrics", "store", "web"] {
        let folder = format!("sarsen-{name}-0.1.0");
        fs::create_dir(place.path(&folder)).expect("a folder");
        let manifest = format!("[package]\nname = \"sarsen-{name}\"\n");
        fs::write(place.path(&folder).join("Cargo.toml"), manifest).expect("a file");
        let mut tar = std::process::Command::new("tar");
        tar.args(["-czf", &format!("packed/{folder}.crate"), &folder]).current_dir(place.root());
        assert!(tar.status().expect("tar").success());
    }
    let ended = place.run(&new("shop", &["--template", "live", "--no-install", "--crates", "packed"]));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let manifest = fs::read_to_string(place.path("shop/Cargo.toml")).expect("a manifest");
    assert!(manifest.contains("sarsen-live = { path = \"crates/sarsen-live-0.1.0\" }"), "{manifest}");
    assert!(place.path("shop/crates/sarsen-live-0.1.0/Cargo.toml").is_file());
}

#[test]
fn without_the_crates_nothing_is_written() {
    let place = Place::new();
    crates(&place);
    fs::remove_dir_all(place.path("our crates/store")).expect("a folder");
    for (options, rule) in [
        (&["--template", "live"][..], "in no registry yet; give --crates DIR"),
        (&["--template", "live", "--crates", "our crates"], "does not have sarsen-store;"),
        (&["--template", "express", "--crates", "our crates"], "--crates goes with --template live only"),
    ] {
        let ended = place.run(&new("shop", options));
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        assert!(ended.stderr.contains(rule), "{}", ended.stderr);
        assert!(!place.path("shop").exists());
    }
}

#[test]
fn nothing_is_overwritten() {
    let place = Place::new();
    fs::create_dir(place.path("shop")).expect("a folder");
    fs::write(place.path("shop/notes.txt"), "mine").expect("a file");
    fs::write(place.path("store"), "mine").expect("a file");
    fs::create_dir(place.path("elsewhere")).expect("a folder");
    symlink(place.path("elsewhere"), place.path("link")).expect("a link");
    for name in ["shop", "store", "link"] {
        let ended = place.run(&new(name, &EXPRESS));
        assert_eq!(ended.code, 1, "{}", ended.stderr);
        assert!(ended.stderr.contains("is not an empty folder; nothing was written"), "{}", ended.stderr);
    }
    assert_eq!(fs::read_dir(place.path("shop")).expect("a folder").count(), 1);
    assert_eq!(fs::read_dir(place.path("elsewhere")).expect("a folder").count(), 0);
}

#[test]
fn an_empty_folder_is_filled() {
    let place = Place::new();
    fs::create_dir(place.path("shop")).expect("a folder");
    assert_eq!(place.run(&new("shop", &EXPRESS)).code, 0);
    assert!(place.path("shop/package.json").is_file());
}

#[test]
fn a_name_that_is_none_writes_nothing() {
    let place = Place::new();
    for name in ["../shop", "a/b", "Shop", ".", "", "express", "platform"] {
        let ended = place.run(&new(name, &EXPRESS));
        assert_eq!(ended.code, 2, "{name}: {}", ended.stderr);
        assert!(ended.stderr.contains(&format!("{name:?} is ")), "{}", ended.stderr);
    }
    let ended = place.run(&new("shop", &["--template", "cobol", "--no-install"]));
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("possible values: "), "{}", ended.stderr);
    assert_eq!(fs::read_dir(place.root()).expect("a folder").count(), 0);
}

#[test]
fn without_the_package_manager_the_files_stay() {
    let place = Place::new();
    let mut command = place.sarsen(&["new", "shop", "--template", "express"]);
    let output = command.env("PATH", place.root()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("npm is not on the search path; install Node.js"), "{said}");
    assert!(said.contains("in shop"), "{said}");
    assert!(place.path("shop/site.js").is_file());
}
