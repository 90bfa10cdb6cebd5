-- The scopes with which a machine client administers its organization; null for none.
ALTER TABLE clients ADD COLUMN administration_scope {text};
