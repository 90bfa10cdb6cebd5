-- How the user authenticated, in words: the time, the level and the methods, like "1800000000000 1 pwd". Null is not known.
-- The words count only where their time is the `authenticated_at` of the row, which an earlier release moves without them.
ALTER TABLE sessions ADD COLUMN authentication {text};
ALTER TABLE grants ADD COLUMN authentication {text};

-- Of the session, as the code was made.
ALTER TABLE authorization_codes ADD COLUMN authentication {text};

-- Of the session that decided, as it decided.
ALTER TABLE device_authorizations ADD COLUMN authentication {text};
