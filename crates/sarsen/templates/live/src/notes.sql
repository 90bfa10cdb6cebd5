CREATE TABLE notes (
    id {key} NOT NULL PRIMARY KEY,
    user_id {key} NOT NULL,
    text {text} NOT NULL
) {table};

CREATE INDEX notes_of_user ON notes (user_id, id);
