-- What an organization has set for its clients. Without a row, nothing was ever set.

CREATE TABLE organization_rules (
    organization_id {key} NOT NULL PRIMARY KEY,
    device_flow {text} NOT NULL,
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) {table};
