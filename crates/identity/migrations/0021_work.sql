-- Work that is not a request, as the crate `live` has it.

-- Commands that run later.
CREATE TABLE live_tasks (
    due_ms BIGINT NOT NULL,
    id {key} NOT NULL,
    name {key} NOT NULL,
    args {text} NOT NULL,
    attempts BIGINT NOT NULL,
    PRIMARY KEY (name, due_ms, id)
) {table};

-- When work that is repeated has its next turn, or until when an instance has the turn.
CREATE TABLE live_schedules (
    name {key} NOT NULL PRIMARY KEY,
    next_ms BIGINT NOT NULL
) {table};

-- What is to happen outside of the database.
CREATE TABLE live_effects (
    number {serial},
    reader {key} NOT NULL,
    receiver {key} NOT NULL,
    subject {key} NOT NULL,
    id {key} NOT NULL,
    args {long_text} NOT NULL,
    attempts BIGINT NOT NULL,
    queued_ms BIGINT NOT NULL,
    due_ms BIGINT NOT NULL,
    UNIQUE (reader, receiver, due_ms, number),
    UNIQUE (reader, subject, number)
) {rowid_table};
