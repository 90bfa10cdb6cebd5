-- What only one instance may do at a time.

CREATE TABLE leases (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    holder TEXT COLLATE "C" NOT NULL,
    ends_at BIGINT NOT NULL
);
