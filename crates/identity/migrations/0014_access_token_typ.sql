-- The type of access tokens is a setting of the service that accepts them. Without a value it is at+jwt. A service gets
-- the other type if one of its clients had it.
ALTER TABLE services ADD COLUMN access_token_typ {text};
UPDATE services SET access_token_typ = 'JWT'
 WHERE id IN (SELECT service_id FROM clients WHERE access_token_typ = 'JWT');
ALTER TABLE clients DROP COLUMN access_token_typ;
