-- Mails that are sent or were. `sealed` has the link and the code until the relay has taken the mail.
CREATE TABLE mails (
    id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    user_id {key},
    address {key255} NOT NULL,
    purpose {key} NOT NULL,
    language {key} NOT NULL,
    state {key} NOT NULL,
    problem {text},
    subject {text},
    sealed {bytes},
    unproven BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT,
    INDEX mails_user (user_id, id),
    INDEX mails_organization (organization_id, unproven, id)
) {table};

-- What a form asked for. It has the same row whether the address has an account or not. `asker` says, sealed, which browser
-- asked, until it is decided what is sent; `code` is a keyed hash of the code in the mail.
CREATE TABLE mail_requests (
    id {key} NOT NULL PRIMARY KEY,
    organization_id {key} NOT NULL,
    address {key255} NOT NULL,
    purpose {key} NOT NULL,
    user_id {key},
    browser {hash} NOT NULL,
    network {key} NOT NULL,
    language {key} NOT NULL,
    asker {bytes},
    outcome {key} NOT NULL,
    link_id {key},
    code {text},
    tries BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    proved_at BIGINT,
    INDEX mail_requests_address (organization_id, address, outcome, id),
    INDEX mail_requests_link (link_id)
) {table};
