-- What only one instance may do at a time.

CREATE TABLE leases (
    name TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    ends_at BIGINT NOT NULL
) WITHOUT ROWID;
