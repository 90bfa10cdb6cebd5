//! Tables and records as text.

use super::{Cell, Field, Record, print, tell};
use crate::error::Result;
use std::io::IsTerminal as _;

/// A column is not made narrower than this.
const WIDTH_MIN: usize = 8;
/// A dispensable column is left out before it is made narrower than this.
const DISPENSABLE_WIDTH_MIN: usize = 16;
const GAP: &str = "  ";

/// Writes a table, or `nothing` to stderr when it would have no rows.
pub(crate) fn print_table(rows: &[impl Record], nothing: &str) -> Result<()> {
    if rows.is_empty() {
        tell(nothing);
        return Ok(());
    }
    print(&table(rows, terminal_width()))
}

/// Writes one object, a line a field.
pub(crate) fn print_record(object: &impl Record) -> Result<()> {
    print(&record(object))
}

/// The columns of the terminal that stdout is; none in a pipe or a file.
fn terminal_width() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

fn table(rows: &[impl Record], width: Option<usize>) -> String {
    let mut rows: Vec<Vec<Field>> =
        rows.iter().map(|row| row.fields().into_iter().filter(|field| field.in_table).collect()).collect();
    while let Some(at) = width.and_then(|width| column_to_leave_out(&rows, width)) {
        for row in &mut rows {
            row.remove(at);
        }
    }
    let head: Vec<String> =
        rows.first().into_iter().flatten().map(|field| field.label.to_uppercase()).collect();
    let lines = |shown: fn(&Cell) -> String| {
        let cells = rows.iter().map(|row| row.iter().map(|field| shown(&field.cell)).collect());
        let lines: Vec<Vec<String>> = std::iter::once(head.clone()).chain(cells).collect();
        lines
    };
    let mut shown = lines(Cell::whole);
    if let Some(width) = width {
        let fits = |lines: &[Vec<String>]| total(&widths_of(lines)) <= width;
        if !fits(&shown) {
            shown = lines(Cell::without_id);
        }
        if !fits(&shown) {
            shown = lines(Cell::short);
        }
        let dispensable =
            rows.first().into_iter().flatten().map(|field| field.is_dispensable).collect::<Vec<_>>();
        truncate(&mut shown, &dispensable, width);
    }
    let widths = widths_of(&shown);
    shown.iter().map(|line| line_of(line, &widths)).collect()
}

/// The last dispensable column of a table that does not fit into `width`, even if its ids are short and its dispensable columns
/// have [`DISPENSABLE_WIDTH_MIN`] letters.
fn column_to_leave_out(rows: &[Vec<Field>], width: usize) -> Option<usize> {
    let first = rows.first()?;
    let wide = |(at, field): (usize, &Field)| {
        let letters = |row: &Vec<Field>| row.get(at).map_or(0, |field| field.cell.short().chars().count());
        let longest = rows.iter().map(letters).max().unwrap_or_default().max(field.label.chars().count());
        if field.is_dispensable { longest.min(DISPENSABLE_WIDTH_MIN) } else { longest }
    };
    let widths: Vec<usize> = first.iter().enumerate().map(wide).collect();
    let last = first.iter().rposition(|field| field.is_dispensable)?;
    (total(&widths) > width).then_some(last)
}

fn widths_of(lines: &[Vec<String>]) -> Vec<usize> {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    (0..columns).map(|column| width(column).unwrap_or_default()).collect()
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
}

/// Makes the widest columns narrower until the lines fit, or no column can be narrower: first the dispensable ones.
fn truncate(lines: &mut [Vec<String>], dispensable: &[bool], width: usize) {
    let mut widths = widths_of(lines);
    while total(&widths) > width {
        let widest = |kind: bool| {
            let columns = (0..widths.len()).filter(|at| dispensable[*at] == kind && widths[*at] > WIDTH_MIN);
            columns.max_by_key(|at| widths[*at])
        };
        let Some(at) = widest(true).or_else(|| widest(false)) else { break };
        widths[at] -= 1;
    }
    for line in lines {
        for (cell, width) in line.iter_mut().zip(&widths) {
            if cell.chars().count() > *width {
                *cell = cell.chars().take(width.saturating_sub(1)).chain(['…']).collect();
            }
        }
    }
}

fn line_of(cells: &[String], widths: &[usize]) -> String {
    let padded: Vec<String> =
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
    format!("{}\n", padded.join(GAP).trim_end())
}

fn record(object: &impl Record) -> String {
    let fields = object.fields();
    let shown: Vec<&Field> = fields.iter().filter(|field| field.cell != Cell::Absent).collect();
    let width = shown.iter().map(|field| field.label.chars().count()).max().unwrap_or_default();
    shown.iter().map(|field| format!("{:width$}{GAP}{}\n", field.label, field.cell.whole())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{column, detail};
    use super::*;

    struct Client {
        id: &'static str,
        name: &'static str,
        seats: Option<i64>,
        secret: Option<&'static str>,
    }

    impl Record for Client {
        fn fields(&self) -> Vec<Field> {
            vec![
                column("owner", Cell::named(Some(self.name), self.id)),
                detail("secret", Cell::optional(self.secret)),
                column("seats", Cell::nullable(self.seats)),
                column("id", Cell::id(self.id)),
            ]
        }
    }

    const CLIENTS: [Client; 2] = [
        Client {
            id: "client_01kapj7yqfexr8qpb6jyk3m9q2", name: "Ärger\u{1b}[2J", seats: None, secret: None
        },
        Client { id: "system", name: "", seats: Some(5), secret: Some("x") },
    ];

    #[test]
    fn a_table_has_a_column_for_each_field_and_no_control_characters() {
        insta::assert_snapshot!(table(&CLIENTS, None), @r"
        OWNER                                          SEATS  ID
        Ärger�[2J (client_01kapj7yqfexr8qpb6jyk3m9q2)  -      client_01kapj7yqfexr8qpb6jyk3m9q2
        system                                         5      system
        ");
    }

    #[test]
    fn a_table_fits_the_terminal_by_shorter_ids_and_then_shorter_text() {
        insta::assert_snapshot!(table(&CLIENTS, Some(60)), @r"
        OWNER      SEATS  ID
        Ärger�[2J  -      client_01kapj7yqfexr8qpb6jyk3m9q2
        system     5      system
        ");
        insta::assert_snapshot!(table(&CLIENTS, Some(40)), @r"
        OWNER      SEATS  ID
        Ärger�[2J  -      client_…k3m9q2
        system     5      system
        ");
        insta::assert_snapshot!(table(&CLIENTS, Some(28)), @r"
        OWNER      SEATS  ID
        Ärger�[2J  -      client_…k…
        system     5      system
        ");
        assert_eq!(table(&CLIENTS, Some(200)), table(&CLIENTS, None));
    }

    struct Entry {
        actor: &'static str,
        action: &'static str,
        details: &'static str,
    }

    impl Record for Entry {
        fn fields(&self) -> Vec<Field> {
            vec![
                column("time", "2026-11-28 02:35:57Z"),
                column("actor", self.actor),
                column("action", self.action),
                column("target", "grace@example.com").dispensable(),
                column("details", self.details).dispensable(),
                column("address", "2001:db8::1").dispensable(),
            ]
        }
    }

    #[test]
    fn a_narrow_table_leaves_out_what_is_dispensable_and_keeps_the_rest_whole() {
        let entries = [
            Entry { actor: "olga@example.com", action: "user.created", details: "" },
            Entry { actor: "olga@example.com", action: "user.suspended", details: "the invoice is not paid" },
        ];
        insta::assert_snapshot!(table(&entries, Some(80)), @r"
        TIME                  ACTOR             ACTION          TARGET
        2026-11-28 02:35:57Z  olga@example.com  user.created    grace@example.com
        2026-11-28 02:35:57Z  olga@example.com  user.suspended  grace@example.com
        ");
        insta::assert_snapshot!(table(&entries, Some(100)), @r"
        TIME                  ACTOR             ACTION          TARGET             DETAILS
        2026-11-28 02:35:57Z  olga@example.com  user.created    grace@example.com  -
        2026-11-28 02:35:57Z  olga@example.com  user.suspended  grace@example.com  the invoice is not paid
        ");
        let long = [Entry {
            actor: "long.names.of@people.example.com",
            action: "client.secret_deleted",
            details: "x",
        }];
        insta::assert_snapshot!(table(&long, Some(80)), @r"
        TIME                  ACTOR                             ACTION
        2026-11-28 02:35:57Z  long.names.of@people.example.com  client.secret_deleted
        ");
        insta::assert_snapshot!(table(&long, Some(60)), @r"
        TIME                 ACTOR                ACTION
        2026-11-28 02:35:5…  long.names.of@peop…  client.secret_del…
        ");
        assert_eq!(table(&long, Some(300)), table(&long, None));
    }

    #[test]
    fn a_record_leaves_absent_fields_out() {
        insta::assert_snapshot!(record(&CLIENTS[0]), @r"
        owner  Ärger�[2J (client_01kapj7yqfexr8qpb6jyk3m9q2)
        seats  -
        id     client_01kapj7yqfexr8qpb6jyk3m9q2
        ");
        insta::assert_snapshot!(record(&CLIENTS[1]), @r"
        owner   system
        secret  x
        seats   5
        id      system
        ");
    }
}
