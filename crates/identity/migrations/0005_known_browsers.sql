-- A browser in which a user has signed in holds a tag over itself, the user and this number. A higher number voids
-- the tags from before.

ALTER TABLE users ADD COLUMN known_browsers_epoch BIGINT NOT NULL DEFAULT 0;
