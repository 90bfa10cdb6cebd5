//! As much of a Cargo.toml as the rules need: the package's name and the names of its dependencies.

/// The value of `name = "…"` in `[package]`.
pub fn package(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "[package]").skip(1);
    let line =
        lines.by_ref().take_while(|line| !line.starts_with('[')).find(|line| line.starts_with("name"))?;
    line.split('"').nth(1)
}

/// Every dependency in every section (normal, dev, build, per target), by the name of its package.
pub fn dependencies(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            inside = section.ends_with("dependencies");
            if let Some((_, name)) = section.split_once("dependencies.") {
                names.push(name);
            }
        } else if inside && let Some(name) = dependency(line) {
            names.push(name);
        }
    }
    names
}

/// `serde.workspace = true` is serde; `db = { package = "rusqlite", … }` is rusqlite.
fn dependency(line: &str) -> Option<&str> {
    let (key, value) = line.split_once('=')?;
    if let Some((_, rest)) = value.split_once("package = \"") {
        return rest.split('"').next();
    }
    let name = key.split('.').next()?.trim().trim_matches('"');
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    (is_name && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [package]
        name = "server"
        [dependencies]
        store.workspace = true
        axum = { version = "0.8", features = [
            "http1",
        ] }
        # hyper = "1"
        db = { package = "rusqlite", version = "0.41" }
        [target.'cfg(unix)'.dev-dependencies]
        libc = "0.2"
        [dependencies.tokio]
        version = "1"
        [lints]
        workspace = true
    "#;

    #[test]
    fn all_ways_to_write_a_dependency_are_seen() {
        assert_eq!(package(TEXT), Some("server"));
        assert_eq!(dependencies(TEXT), ["store", "axum", "rusqlite", "libc", "tokio"]);
    }
}
