-- Invitations: a link with which a person becomes an administrator. And sign-up for each organization: without a value,
-- the configuration of the server decides.

CREATE TABLE invitations (
    id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    email {key255} NOT NULL,
    role {key} NOT NULL,
    hash {hash} NOT NULL,
    invited_by {key} NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT,
    used_by {key},
    revoked_at BIGINT,
    revoked_by {key},
    INDEX invitations_organization (organization_id, id),
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) {table};

ALTER TABLE organization_rules ADD COLUMN sign_up BIGINT;
