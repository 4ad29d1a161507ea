"""A store in PostgreSQL: for many replicas of a gateway on many machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import LiteralString

import numpy as np
from numpy.typing import NDArray

from modelkeep.guard.store import bucket, rows
from modelkeep.guard.store.postgres_database import Connection, PostgresDatabase, Row
from modelkeep.guard.store.store import (
    Event,
    Lease,
    Principal,
    check_admission,
    key_taken_error,
    unknown_principal_error,
)


class PostgresStore:
    """A `Store` in the schema `modelkeep` of a PostgreSQL database, which is made where it does not exist.

    `dsn` is a connection string of libpq, such as `postgresql://user@host/database`. Every method is one transaction
    and, but for leases and the administration, one round trip. A connection that broke is tried once more on a new one.
    """

    def __init__(self, dsn: str) -> None:
        self._database = PostgresDatabase(dsn)

    def centroids(self, epoch: str, label: int, after: int) -> NDArray[np.int32]:
        found = self._database.ask(
            "SELECT position, units, seal, classes FROM modelkeep.epochs LEFT JOIN modelkeep.centroids "
            "ON epoch = id AND label = %s AND position >= %s WHERE name = %s ORDER BY position",
            (label, after, epoch),
        )
        classes = found[0][3] if found else 0
        return rows.log([row[:3] for row in found if row[0] is not None], classes, epoch, label, after)

    def append(self, epoch: str, label: int, position: int, centroid: NDArray[np.int32]) -> bool:
        content, seal = rows.pack_row(centroid, epoch, label, position)
        rows.check_place(epoch, label, position, len(centroid))

        # A concurrent append to the same position waits for ours at the primary key, and then does nothing. Nobody can
        # follow an append that is not committed, since `length` counts what is committed: so there are no holes.
        length, appended = self._in_epoch(
            epoch,
            len(centroid),
            """
            WITH place AS (
                SELECT id, classes, (SELECT coalesce(max(position) + 1, 0) FROM modelkeep.centroids
                                     WHERE epoch = id AND label = %(label)s) AS length
                FROM modelkeep.epochs WHERE name = %(epoch)s
            ), appended AS (
                INSERT INTO modelkeep.centroids
                SELECT id, %(label)s, length, %(content)b, %(seal)b FROM place
                WHERE length = %(position)s AND classes = %(classes)s
                ON CONFLICT DO NOTHING RETURNING 1
            )
            SELECT classes, length, (SELECT count(*) FROM appended) FROM place
            """,
            {"label": label, "position": position, "content": content, "seal": seal},
        )
        if position > length:
            raise rows.hole_error(epoch, label, position, length)
        return bool(appended)

    def recall(self, epoch: str, queries: Sequence[bytes]) -> dict[bytes, NDArray[np.int32]]:
        found = self._database.ask(
            "SELECT query, units, seal, classes FROM modelkeep.answers JOIN modelkeep.epochs ON epoch = id "
            "WHERE name = %s AND query = ANY(%b)",
            (epoch, list(queries)),
        )
        return {query: rows.unpack_row((units, seal), classes, epoch, query) for query, units, seal, classes in found}

    def remember(self, epoch: str, answers: Mapping[bytes, NDArray[np.int32]]) -> dict[bytes, NDArray[np.int32]]:
        if not answers:
            return {}
        ordered = sorted(answers)  # two transactions that insert in one order never wait for each other in a circle
        sealed = [rows.pack_row(answers[query], epoch, query) for query in ordered]
        classes, *others = {len(units) for units in answers.values()}
        if others:
            raise rows.classes_error(epoch, classes, others[0])
        (kept,) = self._in_epoch(
            epoch,
            classes,
            """
            WITH place AS (
                SELECT id, classes FROM modelkeep.epochs WHERE name = %(epoch)s
            ), kept AS (
                INSERT INTO modelkeep.answers
                SELECT id, query, units, seal
                FROM place, unnest(%(queries)b::bytea[], %(units)b::bytea[], %(seals)b::bytea[])
                     WITH ORDINALITY AS given (query, units, seal, number)
                WHERE classes = %(classes)s ORDER BY number
                ON CONFLICT DO NOTHING RETURNING query
            )
            SELECT classes, (SELECT array_agg(query) FROM kept) FROM place
            """,
            {"queries": ordered, "units": [row[0] for row in sealed], "seals": [row[1] for row in sealed]},
        )
        new = set(kept or ())
        held = {query: units for query, units in answers.items() if query in new}
        return held if len(held) == len(answers) else held | self.recall(epoch, [q for q in ordered if q not in new])

    def principal(self, key: bytes) -> Principal | None:
        found = self._database.ask(
            "SELECT name, queries, rate, revoked FROM modelkeep.keys JOIN modelkeep.principals USING (name) "
            "WHERE key = %s",
            (key,),
        )
        return Principal(*found[0]) if found else None

    def principals(self) -> list[Principal]:
        found = self._database.ask(
            "SELECT name, queries, rate, bool_and(revoked) FROM modelkeep.keys JOIN modelkeep.principals USING (name) "
            'GROUP BY name, queries, rate ORDER BY name COLLATE "C"'
        )
        return [Principal(*row) for row in found]

    def admit(self, principal: Principal, key: bytes) -> None:
        check_admission(principal, key)

        def work(db: Connection) -> None:
            with db.transaction():
                db.execute(
                    "INSERT INTO modelkeep.principals (name, queries, rate) VALUES (%s, %s, %s) "
                    "ON CONFLICT (name) DO UPDATE SET queries = excluded.queries, rate = excluded.rate",
                    (principal.name, principal.queries, principal.rate),
                )
                db.execute(
                    "INSERT INTO modelkeep.keys (key, name) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                    (key, principal.name),
                )
                owner = db.execute("SELECT name, revoked FROM modelkeep.keys WHERE key = %s", (key,)).fetchone()
                if owner != (principal.name, False):
                    raise key_taken_error(principal)

        self._database.run(work)

    def revoke(self, name: str, *, keep: bytes | None = None) -> int:
        found = self._database.ask(
            "UPDATE modelkeep.keys SET revoked = true WHERE name = %s AND NOT revoked "
            "AND key IS DISTINCT FROM %s::bytea RETURNING 1",
            (name, keep),
        )
        return len(found)

    def lease(self, name: str, wanted: int, now: float) -> Lease:
        def work(db: Connection) -> Lease:
            with db.transaction():
                found = db.execute(
                    "SELECT queries, rate, spent, tokens, refilled FROM modelkeep.principals "
                    "WHERE name = %s FOR UPDATE",
                    (name,),
                ).fetchone()
                if found is None:
                    raise unknown_principal_error(name)
                account = bucket.Account(*found)
                lease, after = bucket.lease(account, wanted, now)
                if after is not account:
                    db.execute(
                        "UPDATE modelkeep.principals SET spent = %s, tokens = %s, refilled = %s WHERE name = %s",
                        (after.spent, after.tokens, after.refilled, name),
                    )
                return lease

        return self._database.run(work)

    def spent(self) -> dict[str, int]:
        return dict(self._database.ask("SELECT name, spent FROM modelkeep.principals"))

    def sizes(self, epoch: str) -> dict[int, int]:
        return dict(
            self._database.ask(
                "SELECT label, count(*) FROM modelkeep.centroids JOIN modelkeep.epochs ON epoch = id "
                "WHERE name = %s GROUP BY label",
                (epoch,),
            )
        )

    def write(self, events: Sequence[Event]) -> None:
        self._database.ask(
            "INSERT INTO modelkeep.events (at, principal, action, detail) "
            "SELECT * FROM unnest(%s::float8[], %s::text[], %s::text[], %s::text[]) RETURNING 1",
            (
                [e.at for e in events],
                [e.principal for e in events],
                [e.action for e in events],
                [e.detail for e in events],
            ),
        )

    def events(self, limit: int = 100) -> list[Event]:
        found = self._database.ask(
            "SELECT at, principal, action, detail FROM modelkeep.events ORDER BY id DESC LIMIT %s", (limit,)
        )
        return [Event(*row) for row in found]

    def close(self) -> None:
        self._database.close()

    def _in_epoch(self, epoch: str, classes: int, statement: LiteralString, values: dict[str, object]) -> Row:
        """Run a statement that gives no row where the epoch is new (then it begins), else its classes and more."""
        values = values | {"epoch": epoch, "classes": classes}
        found = self._database.ask(statement, values)
        if not found:
            self._database.ask(
                "INSERT INTO modelkeep.epochs (name, classes) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING 1",
                (epoch, classes),
            )
            found = self._database.ask(statement, values)
        known, *rest = found[0]
        if known != classes:
            raise rows.classes_error(epoch, known, classes)
        return tuple(rest)
