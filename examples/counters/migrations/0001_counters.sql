CREATE TABLE users (
    id {key} NOT NULL PRIMARY KEY,
    name {key} NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE INDEX users_name (name)
) {table};

CREATE TABLE counters (
    id BIGINT NOT NULL PRIMARY KEY,
    name {key} NOT NULL,
    owner_id {key} NOT NULL,
    value BIGINT NOT NULL,
    FOREIGN KEY (owner_id) REFERENCES users (id)
) {table};

-- One row: the id of the newest counter. Ids are numbers without gaps.
CREATE TABLE newest_counter (
    singleton BIGINT NOT NULL PRIMARY KEY,
    id BIGINT NOT NULL
) {table};

INSERT INTO newest_counter (singleton, id) VALUES (1, 0);
