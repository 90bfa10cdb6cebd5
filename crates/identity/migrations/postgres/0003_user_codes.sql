-- What a person types leads to the row's id by a computation: no column and no index hold it. Device authorizations live
-- for a quarter of an hour, and those of before could not be found any more.

DROP TABLE IF EXISTS device_authorizations;

CREATE TABLE device_authorizations (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    hash BYTEA NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decision TEXT COLLATE "C",
    decided_by TEXT COLLATE "C",
    decided_at BIGINT,
    redeemed_at BIGINT
);
