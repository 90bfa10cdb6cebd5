-- One row a request. A uid begins with its time, so inserts append and the newest rows lie together.
CREATE TABLE requests (
    uid {key} NOT NULL PRIMARY KEY,
    ip {key} NOT NULL,
    method {key} NOT NULL,
    url {text} NOT NULL,
    parameters {long_text} NOT NULL,
    logged_at BIGINT NOT NULL
) {table};
