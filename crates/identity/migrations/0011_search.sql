-- What administrators search users by: the e-mail address, and the name from each of its words on, in lower case. A step
-- that is repeated on MySQL finds its rows and adds none.
CREATE TABLE user_terms (
    organization_id {key} NOT NULL,
    term {key255} NOT NULL,
    user_id {key} NOT NULL,
    PRIMARY KEY (organization_id, term, user_id),
    INDEX user_terms_user (user_id, term)
) {table};

INSERT INTO user_terms (organization_id, term, user_id)
SELECT u.organization_id, u.email, u.id FROM users u
LEFT JOIN user_deletions d ON d.user_id = u.id
LEFT JOIN user_terms o ON o.organization_id = u.organization_id AND o.term = u.email AND o.user_id = u.id
WHERE d.user_id IS NULL AND o.user_id IS NULL;

INSERT INTO user_terms (organization_id, term, user_id)
SELECT u.organization_id, LOWER(u.name), u.id FROM users u
LEFT JOIN user_deletions d ON d.user_id = u.id
LEFT JOIN user_terms o ON o.organization_id = u.organization_id AND o.term = LOWER(u.name) AND o.user_id = u.id
WHERE d.user_id IS NULL AND u.name <> '' AND o.user_id IS NULL;

-- Each statement adds the names without one more of their first words. The server indexes up to six words of a name.
INSERT INTO user_terms (organization_id, term, user_id)
SELECT DISTINCT t.organization_id, LTRIM(SUBSTR(t.term, {position}(t.term, ' ') + 1)), t.user_id FROM user_terms t
LEFT JOIN user_terms o ON o.organization_id = t.organization_id AND o.user_id = t.user_id
    AND o.term = LTRIM(SUBSTR(t.term, {position}(t.term, ' ') + 1))
WHERE {position}(t.term, ' ') > 0 AND o.user_id IS NULL;

INSERT INTO user_terms (organization_id, term, user_id)
SELECT DISTINCT t.organization_id, LTRIM(SUBSTR(t.term, {position}(t.term, ' ') + 1)), t.user_id FROM user_terms t
LEFT JOIN user_terms o ON o.organization_id = t.organization_id AND o.user_id = t.user_id
    AND o.term = LTRIM(SUBSTR(t.term, {position}(t.term, ' ') + 1))
WHERE {position}(t.term, ' ') > 0 AND o.user_id IS NULL;

INSERT INTO user_terms (organization_id, term, user_id)
SELECT DISTINCT t.organization_id, LTRIM(SUBSTR(t.term, {position}(t.term, ' ') + 1)), t.user_id FROM user_terms t
LEFT JOIN user_terms o ON o.organization_id = t.organization_id AND o.user_id = t.user_id
    AND o.term = LTRIM(SUBSTR(t.term, {position}(t.term, ' ') + 1))
WHERE {position}(t.term, ' ') > 0 AND o.user_id IS NULL;

INSERT INTO user_terms (organization_id, term, user_id)
SELECT DISTINCT t.organization_id, LTRIM(SUBSTR(t.term, {position}(t.term, ' ') + 1)), t.user_id FROM user_terms t
LEFT JOIN user_terms o ON o.organization_id = t.organization_id AND o.user_id = t.user_id
    AND o.term = LTRIM(SUBSTR(t.term, {position}(t.term, ' ') + 1))
WHERE {position}(t.term, ' ') > 0 AND o.user_id IS NULL;

INSERT INTO user_terms (organization_id, term, user_id)
SELECT DISTINCT t.organization_id, LTRIM(SUBSTR(t.term, {position}(t.term, ' ') + 1)), t.user_id FROM user_terms t
LEFT JOIN user_terms o ON o.organization_id = t.organization_id AND o.user_id = t.user_id
    AND o.term = LTRIM(SUBSTR(t.term, {position}(t.term, ' ') + 1))
WHERE {position}(t.term, ' ') > 0 AND o.user_id IS NULL;

-- MySQL cannot read a page in order from an index on the beginning of a text.
-- only mysql
ALTER TABLE audit MODIFY actor VARCHAR(64) NOT NULL, MODIFY action VARCHAR(64) NOT NULL;
-- all
CREATE INDEX audit_actor ON audit (organization_id, actor, id);
CREATE INDEX audit_action ON audit (organization_id, action, id);
