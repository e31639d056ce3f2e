"""The measuring side of the index-design task: real SQLite, real virtual-machine steps, hostile candidates.

How a candidate is measured:

1. It is applied to an empty table of the presented schema in a fresh connection, under an authorizer that
   allows nothing but index creation on that table, and under step, size and count limits. SQLite is the
   only judge.
2. SQLite's EXPLAIN gives the program of every workload query with the candidate's indexes. Without
   statistics (which the authorizer keeps out) the planner never looks at rows, so this is the program that
   runs on the full table.
3. The same program over the same pages with the same parameter takes the same number of steps. What has
   been measured is looked up by that key; whatever differs is run, in a fresh copy of the database that is
   thrown away afterwards.

So a lookup never changes a result, and no candidate can leave anything behind: it never meets a connection
that is used again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from dcpflow.tasks.base import CandidateInvalid, Engine
from dcpflow.tasks.chance import Stream
from dcpflow.tasks.sqlite_index import (
    CANDIDATE_CHARACTERS,
    UNIT,
    Sizes,
    index_sql,
    query_sql,
    reply,
    table_sql,
    values_in_use,
)

# A usual index over the default table takes 220,000 steps and 90 pages.
STATEMENT_STEPS = 4_000_000
STATEMENT_PAGES = 1_500
# Longest string, stored row or index entry: bounds what a statement can make SQLite hold (rows times this).
VALUE_BYTES = 2_000
_PROGRESS_STEPS = 10_000
# Characters of a reason: SQLite's messages repeat names, which may be as long as the candidate.
_REASON = 200

_LIMITS = {
    apsw.SQLITE_LIMIT_SQL_LENGTH: CANDIDATE_CHARACTERS,
    apsw.SQLITE_LIMIT_LENGTH: VALUE_BYTES,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 100,
    apsw.SQLITE_LIMIT_COLUMN: 70,
    apsw.SQLITE_LIMIT_VDBE_OP: 10_000,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: 1,
}

# Opcodes of a program that fills an index with copies of columns for rows that pass NULL tests. EXPLAIN
# shows all that such a program does; a program with any other opcode (constants, expressions, uniqueness)
# is never looked up.
_COPYING = frozenset(
    (
        *("SorterOpen", "OpenRead", "Rewind", "Column", "IsNull", "NotNull", "Rowid", "MakeRecord"),
        *("SorterInsert", "Next", "OpenWrite", "SorterSort", "SorterData", "SeekEnd", "IdxInsert"),
        *("SorterNext", "Close", "SetCookie", "ParseSchema", "Expire", "Halt", "Transaction", "Goto"),
    )
)

Operation = tuple[object, ...]
Program = tuple[Operation, ...]


class Names(NamedTuple):
    """The names under which SQLite sees the table."""

    table: str
    measure: str
    columns: tuple[str, ...]

    def schema(self) -> str:
        """Return the CREATE TABLE statement, columns in stored order."""
        return table_sql(self.table, [*self.columns, self.measure])

    def query(self, family: int) -> str:
        """Return a family's query."""
        return query_sql(self.table, self.columns[family], self.measure)


def stored_names(families: int) -> Names:
    """Return the names in the database file; no agent sees them."""
    return Names("facts", "measure", tuple(f"c{number:02d}" for number in range(families)))


def build_database(sizes: Sizes, public_seed: str) -> bytes:
    """Build the database file.

    Args:
        sizes: The task's settings.
        public_seed: The public seed.

    Returns:
        The file's bytes: one table without index. Every column holds each of the values 1 to
        ``distinct_values`` equally often, in an order of its own; the measure is random. The bytes depend
        on the arguments and on the SQLite version, which its file format records.
    """
    seed = public_seed.encode("utf-8")
    names = stored_names(sizes.families)
    values = [1 + row % sizes.distinct_values for row in range(sizes.rows)]
    columns = [Stream(seed, f"column {number}").shuffled(values) for number in range(sizes.families)]
    amounts = Stream(seed, "measure")
    columns.append([amounts.below(1_000) for _ in range(sizes.rows)])
    db = apsw.Connection(":memory:")
    with db:
        db.execute(names.schema())
        slots = ", ".join("?" * (sizes.families + 1))
        insert = f"INSERT INTO {names.table} ({', '.join([*names.columns, names.measure])}) VALUES ({slots})"
        db.executemany(insert, zip(*columns, strict=True))
    return db.serialize("main")


class SqliteIndexEngine(Engine):
    """Experiments and scoring over one database file."""

    def __init__(self, database: bytes, sizes: Sizes, public_seed: str) -> None:
        """Load the database.

        Args:
            database: What ``build_database`` returned.
            sizes: The task's settings.
            public_seed: The public seed.

        Raises:
            ValueError: The bytes are not this task's database.
        """
        self._families = sizes.families
        self._max_indexes = sizes.max_indexes
        self._stored = stored_names(self._families)
        self._rows = _load(database, self._stored, sizes.rows)
        open_values, _ = values_in_use(sizes.distinct_values, public_seed)
        stream = Stream(public_seed.encode("utf-8"), "experiment parameters")
        self._parameters = [[open_values[stream.below(len(open_values))]] for _ in range(self._families)]
        empty = _empty(self._stored)
        roots = {_root(empty, self._stored.table): ()}
        self._scans = [_query_program(empty, self._stored.query(n), 0, roots) for n in range(self._families)]
        self._built: set[Program] = set()
        self._steps: dict[tuple[Program | None, int], int] = {}

    def warm(self, sealed: dict[str, Any] | None = None) -> None:
        """Measure every family without index and with the usual one; see ``Engine.warm``."""
        parameters = self._parameters if sealed is None else sealed["parameters"]
        every = "\n".join(index_sql(self._stored.table, column) for column in self._stored.columns)
        self._without_index(parameters)
        self._with_candidate(self._stored, every, parameters, self._families)

    def experiment(self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any]) -> dict[str, Any]:
        """Reply with each family's share of the truly weighted steps, and their total; see ``Engine``."""
        return self._answer(presentation, candidate, hidden)

    def neutral(self, presentation: dict[str, Any], candidate: str) -> dict[str, Any]:
        """Reply with the same numbers for uniform traffic; see ``Engine``."""
        return self._answer(presentation, candidate, None)

    def _answer(self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any] | None) -> dict[str, Any]:
        """Measure with the experiment parameters and weigh the steps, uniformly if ``hidden`` is None."""
        steps = self._measure(presentation, candidate, self._parameters)
        weights = [1] * self._families if hidden is None else hidden["weights"]
        work = [weight * sum(own) for weight, own in zip(weights, steps, strict=True)]
        before = self._without_index(self._parameters)
        return reply(presentation, work, _weighted(weights, before))

    def score(
        self, presentation: dict[str, Any], candidate: str, hidden: dict[str, Any], sealed: dict[str, Any]
    ) -> dict[str, float]:
        """Return 1 - weighted steps / the same without index, on the sealed parameters; see ``Engine``."""
        after = _weighted(hidden["weights"], self._measure(presentation, candidate, sealed["parameters"]))
        before = _weighted(hidden["weights"], self._without_index(sealed["parameters"]))
        # Integers divide with one rounding; a plan that makes queries slower is worth nothing, not less.
        return {UNIT: max(0, before - after) / before}

    def _measure(
        self, presentation: dict[str, Any], candidate: str, parameters: Sequence[Sequence[int]]
    ) -> list[list[int]]:
        """Return the steps of every query under the candidate; see ``_with_candidate``."""
        names = Names(presentation["table"], presentation["measure"], tuple(presentation["columns"]))
        return self._with_candidate(names, candidate, parameters, self._max_indexes)

    def _without_index(self, parameters: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return the steps of every query without any index, by family number and parameter."""
        for number, values in enumerate(parameters):
            query, program = self._stored.query(number), self._scans[number]
            for value in values:
                if (program, value) not in self._steps:
                    self._steps[program, value] = _count_steps(self._rows, query, value)
        return [[self._steps[self._scans[n], value] for value in own] for n, own in enumerate(parameters)]

    def _with_candidate(
        self, names: Names, candidate: str, parameters: Sequence[Sequence[int]], max_indexes: int
    ) -> list[list[int]]:
        """Return the steps of every query with the candidate's indexes.

        Args:
            names: The names that the candidate uses.
            candidate: SQL text.
            parameters: By family number the parameters to run its query with.
            max_indexes: How many statements are allowed.

        Returns:
            Steps by family number and parameter.

        Raises:
            CandidateInvalid: The candidate breaks a rule.
        """
        self._without_index(parameters)
        planned = _empty(names)
        statements = _apply(planned, names.table, candidate, max_indexes)
        bare = _empty(names)
        contents = [_index_program(bare, sql) for _, sql in statements]
        roots: dict[int, Program | None] = {_root(planned, names.table): ()}
        roots.update({root: content for (root, _), content in zip(statements, contents, strict=True)})
        programs = {
            (number, value): _query_program(planned, names.query(number), value, roots)
            for number, own in enumerate(parameters)
            for value in own
        }
        steps = {
            query: self._steps[program, query[1]]
            for query, program in programs.items()
            if (program, query[1]) in self._steps
        }
        if len(steps) < len(programs) or any(content not in self._built for content in contents):
            full = self._copy(names)
            for _, sql in statements:
                _create(full, names.table, sql)
            self._built.update(content for content in contents if content is not None)
            for (number, value), program in programs.items():
                if (number, value) not in steps:
                    steps[number, value] = _count_steps(full, names.query(number), value)
                    if program is not None:
                        self._steps[program, value] = steps[number, value]
        return [[steps[number, value] for value in own] for number, own in enumerate(parameters)]

    def _copy(self, names: Names) -> apsw.Connection:
        """Return a fresh copy of the database in which table and columns carry the given names."""
        db = _connection()
        with db.backup("main", self._rows, "main") as backup:
            backup.step(-1)
        db.execute("PRAGMA writable_schema = ON")
        db.execute(
            "UPDATE sqlite_schema SET name = ?, tbl_name = ?, sql = ?",
            (names.table, names.table, names.schema()),
        )
        db.execute("PRAGMA writable_schema = RESET")
        _restrict(db)
        return db


def _weighted(weights: Sequence[int], steps: Iterable[Sequence[int]]) -> int:
    """Return the weighted sum of all steps."""
    return sum(weight * sum(own) for weight, own in zip(weights, steps, strict=True))


def _connection() -> apsw.Connection:
    """Return a connection to an empty in-memory database, without a statement cache."""
    db = apsw.Connection(":memory:", statementcachesize=0)
    # Sorters then have one block of memory, and need no temporary file for what the other limits let through.
    db.execute("PRAGMA cache_size = -65536")
    return db


def _restrict(db: apsw.Connection) -> None:
    """Switch off what no candidate needs, and set SQLite's size limits."""
    for option, value in (
        (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
        (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
        # Otherwise a misspelt column in double quotes would silently become a constant.
        (apsw.SQLITE_DBCONFIG_DQS_DDL, 0),
    ):
        db.config(option, value)
    for limit, bound in _LIMITS.items():
        db.limit(limit, bound)


def _load(database: bytes, names: Names, rows: int) -> apsw.Connection:
    """Return the stored database in memory, after a check that it is this task's.

    Raises:
        ValueError: It is not.
    """
    source, db = apsw.Connection(":memory:"), _connection()
    try:
        source.deserialize("main", database)
        # Pages of a plain in-memory database are read in place, those of a deserialized one through a cache.
        with db.backup("main", source, "main") as backup:
            backup.step(-1)
        schema = db.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
        fits = schema == [("table", names.table, names.schema())]
        fits = fits and db.execute(f"SELECT count(*) FROM {names.table}").get == rows
    except apsw.Error as error:
        raise ValueError(f"the database file is not readable: {error}") from error
    finally:
        source.close()
    if not fits:
        raise ValueError("the database file does not belong to these settings")
    return db


def _empty(names: Names) -> apsw.Connection:
    """Return a fresh database with the table but no rows."""
    db = _connection()
    db.execute(names.schema())
    _restrict(db)
    return db


def _root(db: apsw.Connection, table: str) -> int:
    """Return the root page of the table."""
    root = db.execute("SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,)).get
    return int(root)


class _Guard:
    """Lets through index creation on one table and nothing else, statement by statement.

    SQLite asks the authorizer while it prepares a statement, and the tracer before it runs one. A statement
    that prepares without creating an index (VACUUM asks nobody, REINDEX asks for its index alone) ends at
    the tracer.
    """

    def __init__(self, db: apsw.Connection, table: str, most: int) -> None:
        """Keep the rules: at most ``most`` statements on ``table``."""
        self._db, self._table, self._most = db, table, most
        self._created = 0
        self._ticks = 0
        self.statements = 0
        self.reason = ""

    def __enter__(self) -> _Guard:
        self._db.authorizer = self._authorize
        self._db.exec_trace = self._trace
        self._db.set_progress_handler(self._tick, _PROGRESS_STEPS)
        return self

    def __exit__(self, *_: object) -> None:
        self._db.authorizer = None
        self._db.exec_trace = None
        self._db.set_progress_handler(None)

    def _authorize(self, action: int, one: str | None, two: str | None, base: str | None, _: str | None) -> int:
        """Allow the actions of a CREATE INDEX on the table."""
        allowed = base == "main" and (
            (action == apsw.SQLITE_CREATE_INDEX and two == self._table)
            or (action == apsw.SQLITE_READ and one == self._table)
            or (action == apsw.SQLITE_INSERT and one == "sqlite_master")
            or action == apsw.SQLITE_REINDEX
        )
        if action == apsw.SQLITE_CREATE_INDEX and allowed:
            self._created += 1
        return apsw.SQLITE_OK if allowed else apsw.SQLITE_DENY

    def _trace(self, cursor: apsw.Cursor, _: str, __: object) -> bool:
        """Let a prepared statement run if it creates one index and the count allows it."""
        if not cursor.has_vdbe:
            return True
        created, self._created, self._ticks = self._created, 0, 0
        self.statements += 1
        if created != 1 or cursor.is_explain:
            self.reason = f"statement {self.statements} does not create an index"
        elif self.statements > self._most:
            self.reason = f"there are more than {self._most} statements"
        return not self.reason

    def _tick(self) -> bool:
        """Count steps of the running statement; true stops it."""
        self._ticks += 1
        return self._ticks * _PROGRESS_STEPS > STATEMENT_STEPS

    def run(self, sql: str) -> None:
        """Run SQL text under the rules.

        Raises:
            CandidateInvalid: SQLite or the rules refuse it.
        """
        try:
            with self:
                self._db.execute(sql)
        except apsw.ExecTraceAbort:
            raise CandidateInvalid(self.reason) from None
        except apsw.AuthError as error:
            raise CandidateInvalid(f"only CREATE INDEX on {self._table} is allowed: {error}"[:_REASON]) from None
        except apsw.InterruptError:
            raise CandidateInvalid(f"a statement takes more than {STATEMENT_STEPS} steps") from None
        except apsw.FullError:
            raise CandidateInvalid(f"an index takes more than {STATEMENT_PAGES} pages") from None
        except (apsw.Error, ValueError) as error:
            raise CandidateInvalid(f"SQLite refuses the candidate: {error}"[:_REASON]) from None


def _apply(db: apsw.Connection, table: str, candidate: str, most: int) -> list[tuple[int, str]]:
    """Create the candidate's indexes in an empty database.

    Args:
        db: The empty database.
        table: Its table.
        candidate: SQL text.
        most: How many statements are allowed.

    Returns:
        Root page and statement, as SQLite stored it, of each index in the order of creation.

    Raises:
        CandidateInvalid: SQLite or the rules refuse it.
    """
    if not isinstance(candidate, str):
        raise CandidateInvalid("the candidate is not a string")
    if len(candidate) > CANDIDATE_CHARACTERS:
        raise CandidateInvalid(f"the candidate has more than {CANDIDATE_CHARACTERS} characters")
    guard = _Guard(db, table, most)
    guard.run(candidate)
    kinds = db.execute(f'PRAGMA index_list("{table}")').fetchall()
    if len(kinds) != guard.statements or not all(partial == 1 for *_, partial in kinds):
        raise CandidateInvalid("every statement must create a partial index (CREATE INDEX ... WHERE ...)")
    created = db.execute("SELECT rootpage, sql FROM sqlite_schema WHERE type = 'index' ORDER BY rowid")
    return [(int(str(root)), str(sql)) for root, sql in created]


def _create(db: apsw.Connection, table: str, sql: str) -> None:
    """Create one index over the full table, with a step limit and a space limit of its own.

    Raises:
        CandidateInvalid: The rows or the limits refuse it.
    """
    pages = db.execute("PRAGMA page_count").get
    db.execute(f"PRAGMA max_page_count = {pages + STATEMENT_PAGES}")
    _Guard(db, table, 1).run(sql)


def _index_program(db: apsw.Connection, sql: str) -> Program | None:
    """Return the program that fills an index, which determines its content.

    Args:
        db: An empty database with the table and no index.
        sql: The CREATE INDEX statement.

    Returns:
        The program without any name, or None if EXPLAIN may not show all that it does.
    """
    try:
        operations = db.execute("EXPLAIN " + sql).fetchall()
    except UnicodeDecodeError:
        # A blob constant, which EXPLAIN prints as if it were text.
        return None
    # What comes before the sorter writes the schema row: names and text, no content.
    start = next(place for place, operation in enumerate(operations) if operation[1] == "SorterOpen")
    if any(operation[1] not in _COPYING for operation in operations[start:]):
        return None
    # ParseSchema's last operands are the index's name.
    return tuple(operation[:5] if operation[1] == "ParseSchema" else operation for operation in operations[start:])


def _query_program(db: apsw.Connection, sql: str, value: int, roots: Mapping[int, Program | None]) -> Program | None:
    """Return the program of a query, with the content of what it reads in place of root pages.

    Args:
        db: The database with the candidate's indexes.
        sql: The query.
        value: Its parameter: SQLite may use an index for some parameters only.
        roots: For each root page the content's program; None where that is unknown.

    Returns:
        The program, or None if the query reads something whose content is unknown.
    """
    program: list[Operation] = []
    for address, opcode, p1, p2, p3, p4, p5, _ in db.execute("EXPLAIN " + sql, (value,)):
        if opcode == "OpenRead":
            content = roots[p2]
            if content is None:
                return None
            program.append((address, opcode, p1, content, p3, p4, p5))
        elif opcode == "Transaction":
            # Schema cookie and generation, in p3 and p4, count changes of the schema.
            program.append((address, opcode, p1, p2, p5))
        else:
            program.append((address, opcode, p1, p2, p3, p4, p5))
    return tuple(program)


def _count_steps(db: apsw.Connection, sql: str, value: int) -> int:
    """Run a query and return the virtual-machine steps that it took (SQLITE_STMTSTATUS_VM_STEP)."""
    counts: list[int] = []
    db.trace_v2(
        apsw.SQLITE_TRACE_PROFILE,
        lambda event: counts.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
    )
    db.execute(sql, (value,)).fetchall()
    db.trace_v2(0)
    return counts[0]
