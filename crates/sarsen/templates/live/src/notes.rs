//! The notes of each user: a live query and a mutation. Both are called with the access token of the signed-in user.

use live::{Given, Mutation, Problem, Query, Subject};
use serde::{Deserialize, Serialize};
use store::{Key, Snapshot, Tx, args, sql, statements};
use utoipa::ToSchema;

statements! {
    static INSERT = sql("INSERT INTO notes (id, user_id, text) VALUES (?1, ?2, ?3)");
    static NEWEST = sql("SELECT id, text FROM notes WHERE user_id = ?1 ORDER BY id DESC LIMIT 50");
}

/// What the query depends on and the mutation changes: the notes of one user.
fn notes_of(user: &str) -> Key {
    Key::row("notes", "user_id", user)
}

/// A note.
#[derive(Serialize, ToSchema)]
pub struct Note {
    id: String,
    text: String,
}

/// The newest fifty notes of the user who asks.
#[derive(Deserialize, ToSchema)]
pub struct ListNotes {}

impl Query for ListNotes {
    const NAME: &'static str = "list_notes";
    type Claims = Subject;
    type Value = Vec<Note>;

    fn run(
        &self,
        snapshot: &mut Snapshot<'_>,
        Subject(user): &Subject,
    ) -> Result<Vec<Note>, Problem> {
        snapshot.depends(|| [notes_of(user)]);
        Ok(snapshot.all(&NEWEST, args![user], |row| {
            Ok(Note {
                id: row.get(0)?,
                text: row.get(1)?,
            })
        })?)
    }
}

/// Writes a note.
#[derive(Deserialize, ToSchema)]
pub struct WriteNote {
    text: String,
}

impl Mutation for WriteNote {
    const NAME: &'static str = "write_note";
    type Claims = Subject;
    type Value = Note;

    fn validate(&self) -> Result<(), Problem> {
        match (1..=1000).contains(&self.text.trim().chars().count()) {
            true => Ok(()),
            false => Err(Problem::invalid(
                "text",
                "`text` must have 1 to 1000 characters.",
            )),
        }
    }

    fn run(
        &self,
        tx: &mut Tx<'_>,
        Subject(user): &Subject,
        given: &Given,
    ) -> Result<Note, Problem> {
        let note = Note {
            id: given.id("note"),
            text: self.text.trim().to_owned(),
        };
        tx.exec(&INSERT, args![&note.id, user, &note.text])?;
        tx.changed(notes_of(user));
        Ok(note)
    }
}
