-- What only one instance may do at a time.

CREATE TABLE IF NOT EXISTS leases (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    holder VARCHAR(64) NOT NULL,
    ends_at BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
