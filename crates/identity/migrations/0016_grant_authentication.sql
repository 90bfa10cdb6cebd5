-- When the user had authenticated as the grant was given: the auth_time of all its ID tokens. A session moves its own time
-- with each new sign-in. Null is the time of the session.
ALTER TABLE grants ADD COLUMN authenticated_at BIGINT;
UPDATE grants SET authenticated_at = (SELECT s.authenticated_at FROM sessions s WHERE s.id = grants.session_id);
