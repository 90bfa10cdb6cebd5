-- What an organization has set for its own clients. No row: nothing was ever set.

CREATE TABLE organization_rules (
    organization_id TEXT NOT NULL PRIMARY KEY REFERENCES organizations (id),
    device_flow TEXT NOT NULL
) WITHOUT ROWID;
