//! The error codes of the API with their texts, read from `docs/errors.md`: one list for the page and for programs.

use std::sync::LazyLock;

const PAGE: &str = include_str!("../../../../docs/errors.md");
/// The part of the page about the API begins and ends with these headings.
const BEGIN: &str = "## The API";
const END: &str = "\n## OAuth";
/// The status of codes in the table without a column for it.
const CONFLICT: u16 = 409;

/// An error code.
pub(crate) struct Code {
    /// The status of answers with it.
    pub(crate) status: u16,
    /// Stable, snake_case.
    pub(crate) code: &'static str,
    /// When it is answered and what to do, in Markdown.
    pub(crate) text: String,
}

/// Every code, in the order of the page.
pub(crate) static CODES: LazyLock<Vec<Code>> = LazyLock::new(|| {
    let rest = PAGE.split_once(BEGIN).map_or("", |(_, rest)| rest);
    let part = rest.split(END).next().unwrap_or_default();
    part.lines().filter_map(row).collect()
});

/// A row of a table: `| 404 | `code` | text |`, or `| `code` | when | what to do |`.
fn row(line: &'static str) -> Option<Code> {
    let line = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&'static str> = line.split('|').map(str::trim).collect();
    // The heading of the column is `code` itself.
    let named = |cell: &'static str| cell.strip_prefix('`')?.strip_suffix('`').filter(|code| *code != "code");
    match *cells.as_slice() {
        [status, code, text] if status.parse::<u16>().is_ok() => {
            Some(Code { status: status.parse().ok()?, code: named(code)?, text: text.to_owned() })
        }
        [code, when, advice] => {
            Some(Code { status: CONFLICT, code: named(code)?, text: format!("{when} {advice}") })
        }
        _ => None,
    }
}

/// The statuses of a code. A code may stand on the page with several.
pub(crate) fn statuses(code: &str) -> impl Iterator<Item = u16> {
    CODES.iter().filter(move |known| known.code == code).map(|known| known.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_read() {
        for (code, status) in [("not_found", 404), ("taken", 409), ("invalid", 422), ("unavailable", 503)] {
            assert_eq!(statuses(code).collect::<Vec<_>>(), [status], "{code}");
        }
        assert_eq!(statuses("invalid_grant").count(), 0, "codes of OAuth are not codes of the API");
        let taken = CODES.iter().find(|code| code.code == "taken").map(|code| code.text.as_str());
        assert!(taken.is_some_and(|text| text.ends_with("Choose another.")), "{taken:?}");
    }
}
