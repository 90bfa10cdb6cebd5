-- What an organization has set for its own clients. No row: nothing was ever set. A table, because a column cannot be
-- added twice here, and a statement may have to run again.

CREATE TABLE IF NOT EXISTS organization_rules (
    organization_id VARCHAR(64) NOT NULL PRIMARY KEY,
    device_flow TEXT NOT NULL,
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
