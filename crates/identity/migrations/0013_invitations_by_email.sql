-- The deletion of a user finds the invitations of their address.
CREATE INDEX invitations_email ON invitations (email);
