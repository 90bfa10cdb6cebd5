-- How many rotations of a family of refresh tokens must come before one whose answer may be repeated late.
ALTER TABLE refresh_tokens ADD COLUMN late_repeat_after BIGINT NOT NULL DEFAULT 0;

-- Clients that a program made, or whose redirect URIs a program changed. Until an owner has accepted the last of these
-- changes, such a client asks for consent at each request.
CREATE TABLE client_reviews (
    client_id {key} NOT NULL PRIMARY KEY,
    changes BIGINT NOT NULL,
    changed_by {text} NOT NULL,
    changed_at BIGINT NOT NULL,
    accepted_by {text},
    accepted_at BIGINT,
    FOREIGN KEY (client_id) REFERENCES clients (id) ON DELETE CASCADE
) {table};

-- How many of these changes a consent knew. One that knew fewer has ended.
ALTER TABLE consents ADD COLUMN client_changes BIGINT NOT NULL DEFAULT 0;

-- The secrets that an administrator made, when the administrator leaves.
-- only mysql
CREATE INDEX client_secrets_maker ON client_secrets (created_by(64), id);
-- not mysql
CREATE INDEX client_secrets_maker ON client_secrets (created_by, id);
-- all

-- What happened to an object.
-- only mysql
ALTER TABLE audit MODIFY target VARCHAR(255) NOT NULL;
-- all
CREATE INDEX audit_target ON audit (organization_id, target, id);

-- What the pages of an organization show beside its name.
CREATE TABLE organization_branding (
    organization_id {key} NOT NULL PRIMARY KEY,
    contact {text},
    changed_by {text} NOT NULL,
    changed_at BIGINT NOT NULL,
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) {table};

-- Whether the provider's subscription has items that its event did not show; and the states that it had within the second
-- of the newest one, if these do not follow each other as their events came.
ALTER TABLE billing_subscriptions ADD COLUMN more_items BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_subscriptions ADD COLUMN same_second {long_text};

-- What an id of the provider stands for has changed, and is applied to the subscriptions after `last_id`. `kind` is `price`
-- or `customer`.
CREATE TABLE billing_walks (
    connection_id {key} NOT NULL,
    kind {key} NOT NULL,
    external_id {key255} NOT NULL,
    last_id {key255} NOT NULL,
    due_at BIGINT NOT NULL,
    PRIMARY KEY (connection_id, kind, external_id),
    INDEX billing_walks_due (due_at)
) {table};
