"""Who is signed in: the tokens of each session, in a SQLite file. The browser gets a random id, and the file its hash."""

import hashlib
import json
import os
import secrets
import sqlite3
import time

LIFE_S = 7 * 24 * 3600


class Sessions:
    def __init__(self, path):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # Only this user may read the tokens.
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, token TEXT NOT NULL, expires REAL NOT NULL)"
        )

    def begin(self, token):
        """Keeps the tokens of a new sign-in, and gives the id of the session."""
        self._database.execute("DELETE FROM sessions WHERE expires < ?", [time.time()])
        session = secrets.token_urlsafe(32)
        values = [_hash(session), json.dumps(token), time.time() + LIFE_S]
        self._database.execute("INSERT INTO sessions (id, token, expires) VALUES (?, ?, ?)", values)
        return session

    def token(self, session):
        """The tokens of a session. None when it has ended."""
        query = "SELECT token FROM sessions WHERE id = ? AND expires > ?"
        row = self._database.execute(query, [_hash(session), time.time()]).fetchone()
        return row and json.loads(row[0])

    def renew(self, session, token):
        """Replaces the tokens, unless the session has ended meanwhile."""
        self._database.execute("UPDATE sessions SET token = ? WHERE id = ?", [json.dumps(token), _hash(session)])

    def end(self, session):
        self._database.execute("DELETE FROM sessions WHERE id = ?", [_hash(session)])


def _hash(session):
    return hashlib.sha256(session.encode()).hexdigest()
