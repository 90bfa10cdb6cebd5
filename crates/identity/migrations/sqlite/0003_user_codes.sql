-- What a person types leads to the row's id by a computation: no column and no index hold it.

DROP INDEX device_authorizations_user_code;
ALTER TABLE device_authorizations DROP COLUMN user_code;
