-- The text of the questions, which the student's page shows, and how many minutes an attempt has; without it any time.
ALTER TABLE exams ADD COLUMN sheet {long_text};
ALTER TABLE exams ADD COLUMN minutes BIGINT;

-- The client counts its saves. When an attempt has to be submitted, if its exam has a time.
ALTER TABLE attempts ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN ends_at BIGINT;
