-- The browser that used a sign-in link, as a hash, and the session that it got.
ALTER TABLE links ADD COLUMN used_by {hash};
ALTER TABLE links ADD COLUMN session_id {key};
