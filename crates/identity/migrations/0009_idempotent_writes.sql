-- Writes of the API that carried an Idempotency-Key. A row is in the transaction of its write; the answer follows.

CREATE TABLE idempotent_writes (
    id {key} NOT NULL PRIMARY KEY,
    caller {key} NOT NULL,
    name {key} NOT NULL,
    fingerprint {hash} NOT NULL,
    created_at BIGINT NOT NULL,
    status BIGINT,
    answer {long_bytes},
    UNIQUE INDEX idempotent_writes_name (caller, name)
) {table};
