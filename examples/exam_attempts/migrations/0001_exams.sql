CREATE TABLE exams (
    id BIGINT NOT NULL PRIMARY KEY,
    title {key255} NOT NULL,
    questions BIGINT NOT NULL
) {table};

-- `answers` is a JSON object: the number of a question, and the choices. `answered` is how many of them have a choice.
CREATE TABLE attempts (
    id BIGINT NOT NULL PRIMARY KEY,
    exam_id BIGINT NOT NULL,
    student {key255} NOT NULL,
    answers {long_text} NOT NULL,
    answered BIGINT NOT NULL,
    saved_at BIGINT NOT NULL,
    submitted_at BIGINT,
    INDEX attempts_exam (exam_id, id)
) {table};

-- The last id of each table. Ids are numbers without gaps.
CREATE TABLE last_ids (
    table_name {key} NOT NULL PRIMARY KEY,
    id BIGINT NOT NULL
) {table};

INSERT INTO last_ids (table_name, id) VALUES ('exams', 0), ('attempts', 0);
