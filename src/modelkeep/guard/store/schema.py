"""The tables of a store, for SQLite and for PostgreSQL. Logs are append-only, and the database enforces it."""

from __future__ import annotations

from modelkeep.core.errors import GuardError

VERSION = 1
_APPEND_ONLY = ("epochs", "centroids", "answers", "events")

SQLITE = f"""
CREATE TABLE version (version INTEGER NOT NULL);
INSERT INTO version VALUES ({VERSION});
CREATE TABLE epochs (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, classes INTEGER NOT NULL);
CREATE TABLE centroids (
    epoch INTEGER NOT NULL REFERENCES epochs, label INTEGER NOT NULL, position INTEGER NOT NULL,
    units BLOB NOT NULL, seal BLOB NOT NULL, PRIMARY KEY (epoch, label, position));
CREATE TABLE answers (
    epoch INTEGER NOT NULL REFERENCES epochs, query BLOB NOT NULL,
    units BLOB NOT NULL, seal BLOB NOT NULL, PRIMARY KEY (epoch, query));
CREATE TABLE principals (
    name TEXT PRIMARY KEY NOT NULL, queries INTEGER, rate REAL,
    spent INTEGER NOT NULL DEFAULT 0, tokens REAL, refilled REAL NOT NULL DEFAULT 0);
CREATE TABLE keys (
    key BLOB PRIMARY KEY NOT NULL, name TEXT NOT NULL REFERENCES principals, revoked INTEGER NOT NULL DEFAULT 0);
CREATE TABLE events (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, principal TEXT NOT NULL, action TEXT NOT NULL, detail TEXT NOT NULL);
-- These also stop INSERT OR REPLACE, which deletes without asking the other triggers.
CREATE TRIGGER centroids_dense BEFORE INSERT ON centroids
WHEN NEW.position <> (
    SELECT coalesce(max(position) + 1, 0) FROM centroids WHERE epoch = NEW.epoch AND label = NEW.label)
BEGIN SELECT RAISE(ABORT, 'centroids are appended one after the other'); END;
CREATE TRIGGER answers_first BEFORE INSERT ON answers
WHEN EXISTS (SELECT 1 FROM answers WHERE epoch = NEW.epoch AND query = NEW.query)
BEGIN SELECT RAISE(IGNORE); END;
""" + "".join(
    f"CREATE TRIGGER {table}_{change.lower()} BEFORE {change} ON {table} "
    f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;\n"
    for table in _APPEND_ONLY
    for change in ("UPDATE", "DELETE")
)

# Without foreign keys to epochs: each row would lock the one row of its epoch, which all replicas share.
POSTGRES = f"""
CREATE SCHEMA IF NOT EXISTS modelkeep;
CREATE TABLE modelkeep.epochs (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE, classes integer NOT NULL);
CREATE TABLE modelkeep.centroids (
    epoch integer NOT NULL, label integer NOT NULL, position bigint NOT NULL,
    units bytea NOT NULL, seal bytea NOT NULL, PRIMARY KEY (epoch, label, position));
CREATE TABLE modelkeep.answers (
    epoch integer NOT NULL, query bytea NOT NULL,
    units bytea NOT NULL, seal bytea NOT NULL, PRIMARY KEY (epoch, query));
CREATE TABLE modelkeep.principals (
    name text PRIMARY KEY, queries bigint, rate double precision,
    spent bigint NOT NULL DEFAULT 0, tokens double precision, refilled double precision NOT NULL DEFAULT 0);
CREATE TABLE modelkeep.keys (
    key bytea PRIMARY KEY, name text NOT NULL REFERENCES modelkeep.principals, revoked boolean NOT NULL DEFAULT false);
CREATE TABLE modelkeep.events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at double precision NOT NULL, principal text NOT NULL, action text NOT NULL, detail text NOT NULL);
CREATE FUNCTION modelkeep.refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;
CREATE TABLE modelkeep.version (version integer NOT NULL);
INSERT INTO modelkeep.version VALUES ({VERSION});
""" + "".join(
    f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON modelkeep.{table} "
    "EXECUTE FUNCTION modelkeep.refuse();\n"
    for table in _APPEND_ONLY
)


def check_version(found: int, where: str) -> None:
    """Refuse state that another version of ModelKeep wrote."""
    if found != VERSION:
        raise GuardError(
            f"{where} has version {found} of the store's tables; this ModelKeep knows version {VERSION}. "
            "Start the ModelKeep that wrote it, or a newer one."
        )
