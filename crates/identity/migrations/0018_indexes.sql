-- The clients of a session are found one by one, and a later grant at the same client, without a look at the other
-- grants, of which a session may have any number.
CREATE INDEX grants_session_client ON grants (session_id, client_id, id);
-- only mysql
DROP INDEX grants_session ON grants;
-- not mysql
DROP INDEX grants_session;

-- The clients of a service, also for the foreign key: to delete a service, the clients of all tenants were read.
CREATE INDEX clients_service ON clients (service_id);

-- The live sessions of a user, without a look at those that have ended, which are kept for a week.
CREATE INDEX sessions_user_ended ON sessions (user_id, ended_at, id);
