-- A deleted user keeps the row in `users`, without personal data. `erased_at` is set when the rows that may be many
-- (sessions, audit) are blanked too.
CREATE TABLE user_deletions (
    user_id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    deleted_by {text},
    deleted_at BIGINT NOT NULL,
    erased_at BIGINT,
    INDEX user_deletions_erased (erased_at, user_id),
    FOREIGN KEY (user_id) REFERENCES users (id)
) {table};

-- A deleted organization can be restored until `final_at`. Then its data is deleted, and `erased_at` is set. Its own row
-- stays, so that nobody else gets the slug.
CREATE TABLE organization_deletions (
    organization_id {key} NOT NULL PRIMARY KEY,
    was_suspended BIGINT NOT NULL,
    deleted_by {text},
    deleted_at BIGINT NOT NULL,
    final_at BIGINT NOT NULL,
    erased_at BIGINT,
    INDEX organization_deletions_final (erased_at, final_at),
    FOREIGN KEY (organization_id) REFERENCES organizations (id)
) {table};
