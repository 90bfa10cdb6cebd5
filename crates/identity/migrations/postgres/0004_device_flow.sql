-- What an organization has set for its own clients. No row: nothing was ever set.

CREATE TABLE organization_rules (
    organization_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES organizations (id),
    device_flow TEXT COLLATE "C" NOT NULL
);
