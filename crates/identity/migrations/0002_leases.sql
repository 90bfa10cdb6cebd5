-- What only one instance may do at a time.

CREATE TABLE leases (
    name {key} NOT NULL PRIMARY KEY,
    holder {key} NOT NULL,
    ends_at BIGINT NOT NULL
) {table};
