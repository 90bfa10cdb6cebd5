-- A user code leads to the row's id by a computation: no column and no index hold it. On MySQL the table is made anew,
-- because the first version of this migration did so there; its rows live for a quarter of an hour.

-- only mysql
DROP TABLE device_authorizations;

CREATE TABLE device_authorizations (
    id {key} NOT NULL PRIMARY KEY,
    hash {hash} NOT NULL,
    client_id {key} NOT NULL,
    scope {text} NOT NULL,
    address {text} NOT NULL,
    agent {text} NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decision {text},
    decided_by {text},
    decided_at BIGINT,
    redeemed_at BIGINT
) {table};

-- not mysql
DROP INDEX device_authorizations_user_code;
ALTER TABLE device_authorizations DROP COLUMN user_code;
