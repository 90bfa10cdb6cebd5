-- What a person types leads to the row's id by a computation: no column and no index hold it. A column cannot be dropped
-- twice here, and a statement may have to run again: the table is made anew. What it holds lives for a quarter of an hour.

DROP TABLE IF EXISTS device_authorizations;

CREATE TABLE IF NOT EXISTS device_authorizations (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    hash VARBINARY(64) NOT NULL,
    client_id VARCHAR(64) NOT NULL,
    scope TEXT NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decision TEXT,
    decided_by TEXT,
    decided_at BIGINT,
    redeemed_at BIGINT
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
