//! The templates: which files each has. They are whole projects in the folder `templates` of this crate; only the name of the
//! product is put in.

/// The name in the files of a template, as in the name of a package.
const NAME: &str = "my-product";
/// The same on pages.
const TITLE: &str = "My product";

/// What a product is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Template {
    /// Node.js with Next.js and openid-client
    Next,
    /// Node.js with Express and express-openid-connect
    Express,
    /// Python with FastAPI and Authlib
    Fastapi,
    /// Rust with sarsen-live, and oidc-client-ts in the page
    Live,
}

/// The path of a file in the new folder, and its text.
type File = (&'static str, &'static str);

/// The files of a folder of `templates`, each under its own name.
macro_rules! files {
    ($folder:literal: $($path:literal),+ $(,)?) => {
        [$(($path, include_str!(concat!("../../../templates/", $folder, "/", $path)))),+]
    };
}

/// The look of the pages, and the script that keeps an open one up to date.
const STYLE: &str = include_str!("../../../templates/shared/site.css");
const SCRIPT: &str = include_str!("../../../templates/shared/plan.js");
const PUBLIC: &[File] = &[("public/site.css", STYLE), ("public/plan.js", SCRIPT)];

const EXPRESS: &[File] = &files!("express":
    ".gitignore",
    "README.md",
    "package.json",
    "package-lock.json",
    "pages.js",
    "sarsen.js",
    "sarsen.yaml",
    "settings.js",
    "site.js",
);

const FASTAPI: &[File] = &files!("fastapi":
    ".gitignore",
    "README.md",
    "main.py",
    "pages/error.html",
    "pages/home.html",
    "pages/page.html",
    "pages/welcome.html",
    "requirements.in",
    "requirements.txt",
    "sarsen.py",
    "sarsen.yaml",
    "sessions.py",
    "settings.py",
);

const NEXT: &[File] = &files!("next":
    ".gitignore",
    "README.md",
    "app/callback/route.ts",
    "app/error.tsx",
    "app/events/route.ts",
    "app/export/route.ts",
    "app/layout.tsx",
    "app/login/route.ts",
    "app/logout/route.ts",
    "app/not-found.tsx",
    "app/page.tsx",
    "app/plan.tsx",
    "app/sign-in-failed/page.tsx",
    "lib/cookies.ts",
    "lib/openid.ts",
    "lib/sarsen.ts",
    "lib/session.ts",
    "lib/settings.ts",
    "next.config.ts",
    "package-lock.json",
    "package.json",
    "proxy.ts",
    "sarsen.yaml",
    "tsconfig.json",
);

const LIVE: &[File] = &files!("live":
    ".cargo/config.toml",
    ".gitignore",
    "Cargo.lock",
    "README.md",
    "package-lock.json",
    "package.json",
    "page/index.html",
    "page/main.js",
    "sarsen.yaml",
    "src/export.rs",
    "src/main.rs",
    "src/notes.rs",
    "src/notes.sql",
    "src/settings.rs",
);
/// A folder with a `Cargo.toml` would not be a part of this package.
const LIVE_MANIFEST: &str = include_str!("../../../templates/live/Cargo.toml.in");

impl Template {
    /// The files of a product of this name: path and text.
    pub fn files(self, name: &str) -> Vec<(&'static str, String)> {
        let (own, shared) = self.texts();
        let title = title_of(name);
        let named = |text: &str| text.replace(NAME, name).replace(TITLE, &title);
        own.iter().chain(shared).map(|(path, text)| (*path, named(text))).collect()
    }

    /// Its own files, and those that templates share.
    fn texts(self) -> (&'static [File], &'static [File]) {
        match self {
            Template::Next => (NEXT, &[("app/site.css", STYLE)]),
            Template::Express => (EXPRESS, PUBLIC),
            Template::Fastapi => (FASTAPI, PUBLIC),
            Template::Live => (LIVE, &[("page/site.css", STYLE), ("Cargo.toml", LIVE_MANIFEST)]),
        }
    }

    /// The packages that it depends on: a package cannot have the name of one of these.
    pub fn packages(self) -> &'static [&'static str] {
        match self {
            Template::Next => &["next", "react", "react-dom", "openid-client", "jose", "typescript"],
            Template::Express => &["express", "express-openid-connect"],
            // No package: the name is only a folder.
            Template::Fastapi => &[],
            Template::Live => &["axum", "live", "store", "serde", "tokio", "ureq", "rustls", "utoipa"],
        }
    }

    /// What installs its packages, in the new folder.
    pub fn install_line(self) -> &'static str {
        match self {
            Template::Next | Template::Express => "npm ci --ignore-scripts",
            Template::Live => "npm ci --ignore-scripts && cargo fetch",
            Template::Fastapi => {
                "python3 -m venv .venv && .venv/bin/pip install --only-binary :all: --require-hashes -r requirements.txt"
            }
        }
    }

    /// What starts it with its server, in the new folder.
    pub fn start_line(self) -> &'static str {
        match self {
            Template::Next | Template::Express => "sarsen dev -- npm run dev",
            Template::Fastapi => "sarsen dev -- .venv/bin/python main.py",
            Template::Live => "sarsen dev -- cargo run",
        }
    }
}

/// `my-shop` is `My shop`.
fn title_of(name: &str) -> String {
    let words = name.replace('-', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    /// What running a template in its folder leaves there.
    const LEFT: [&str; 7] =
        ["node_modules", ".next", ".venv", "__pycache__", "target", ".sarsen", ".env.local"];

    #[test]
    fn every_file_of_a_template_is_written() {
        for template in Template::value_variants() {
            let value = template.to_possible_value().expect("a name");
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates").join(value.get_name());
            let mut there = BTreeSet::new();
            collect(&folder, &folder, &mut there);
            let own = template.texts().0.iter().map(|(path, _)| (*path).to_owned());
            there.remove("Cargo.toml.in");
            assert_eq!(own.collect::<BTreeSet<_>>(), there, "{template:?}");
        }
    }

    fn collect(root: &Path, folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if LEFT.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                collect(root, &path, found);
            } else {
                found.insert(path.strip_prefix(root).expect("inside").to_string_lossy().into_owned());
            }
        }
    }

    #[test]
    fn the_name_is_put_in() {
        for template in Template::value_variants() {
            let files = template.files("corner-shop");
            assert!(files.iter().any(|(_, text)| text.contains("corner-shop")), "{template:?}");
            for (path, text) in &files {
                assert!(!text.contains(NAME) && !text.contains(TITLE), "{path}");
            }
            let pages = files.iter().filter(|(_, text)| text.contains("Corner shop")).count();
            assert!(pages > 0, "{template:?}");
        }
    }
}
