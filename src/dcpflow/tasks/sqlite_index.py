"""The index-design task: which few partial indexes serve a workload whose traffic is hidden.

One real SQLite table, one query family for each of its columns, and all the traffic weight on a few
families that only experiments tell. The table is built so that families are exchangeable: in every column
each value occurs equally often, in an order of its own, so that no family can be told from another by
anything but its traffic. A relabelling per episode then makes any fixed strategy an independent random
choice.

This module is what an agent sees and what a record holds; ``sqlite_engine`` measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dcpflow.tasks.base import Task
from dcpflow.tasks.chance import Stream, secret_stream

if TYPE_CHECKING:
    from dcpflow.tasks.sqlite_engine import SqliteIndexEngine

DATABASE = "index_design.db"
UNIT = "sealed_workload"
CANDIDATE_CHARACTERS = 8_000


class Sizes(NamedTuple):
    """The task's settings.

    The defaults give the published figures: 36 of 20,412 rows match a query, so an index leaves .0038 of a
    full scan's steps, and with weights of 24 to 1 a plan with k hot families scores .0369 + .2122 k, up to
    .8855.

    Attributes:
        rows: Rows of the table, from 100 to 200,000; a multiple of ``distinct_values``.
        distinct_values: Values of each column, from 8; each occurs ``rows / distinct_values`` times.
        families: Query families, from 2 to 64; one column each.
        hot_families: Families with heavy traffic, from 1 to half of the families.
        hot_weight: Traffic of a hot family in units of a cold one's, from 2 to 1,000.
        max_indexes: Statements that an artifact may hold, from 1 to ``families``.
        sealed_parameters: Sealed parameters of each family, from 1 to the number of values kept for it.
    """

    rows: int = 20_412
    distinct_values: int = 567
    families: int = 16
    hot_families: int = 4
    hot_weight: int = 24
    max_indexes: int = 4
    sealed_parameters: int = 3


# Without g and t, so that no word is an SQL keyword (BEGIN, LIMIT).
_CONSONANTS = "bdfklmnprsvz"
_VOWELS = "aeiou"

_BACKGROUND = """\
Task: design indexes for one SQLite table of {rows} rows.

The workload has {families} query families. A family is a query template with one parameter; each family
filters on a column of its own. Families differ in traffic; what is known of it stands in the first
observations.

Artifact: SQL text with at most {max_indexes} statements of the form
  CREATE INDEX <name> ON <table> (<columns>) WHERE <predicate>
on the given table. SQLite itself checks it: every statement must create a partial index; functions, other
statements and other tables are refused, and statements that need too many steps or too much space are
refused. An artifact that breaks a rule is invalid and scores nothing. Text without any statement is valid
and scores 0.

Score: 1 - (traffic-weighted virtual-machine steps of the workload with the artifact) / (the same without
any index), measured by SQLite on a workload with parameters other than those of the experiments. Higher is
better.

Experiment: propose an artifact. The reply holds, for each family, its share of the weighted steps under the
proposal ("shares", they add up to 1), and all weighted steps relative to no index ("total"), as decimal
strings. Experiments use parameters of their own, the same in every experiment.

Commit: hand in the artifact that is to be scored. Use the names of the schema as it is given.
"""


def table_sql(table: str, columns: Sequence[str]) -> str:
    """Return the statement that creates the table.

    Columns allow NULL although none is stored: with NOT NULL, SQLite would fold ``IS NOT NULL`` to a
    constant, and the usual partial predicate would no longer be provable from an equality.

    Args:
        table: The table's name.
        columns: All columns but the row id, in the order to write them.
    """
    return f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {', '.join(f'{name} INTEGER' for name in columns)})"


def query_sql(table: str, column: str, measure: str) -> str:
    """Return a family's query template; ``?`` is the parameter."""
    return f"SELECT count(*), sum({measure}) FROM {table} WHERE {column} = ?"


def index_sql(table: str, column: str) -> str:
    """Return the usual partial index on one column."""
    return f"CREATE INDEX ix_{column} ON {table} ({column}) WHERE {column} IS NOT NULL;"


def values_in_use(distinct_values: int, public_seed: str) -> tuple[list[int], list[int]]:
    """Split the stored values into those that E0 and experiments may use and those for the sealed workload.

    The split is the same for all families: another one for each would tell families apart. The smallest and
    the largest value are in neither part, because an index seek that ends with the index takes one step
    less.

    Args:
        distinct_values: How many values a column has.
        public_seed: The public seed.

    Returns:
        The open and the sealed values, disjoint, in random order.
    """
    inner = range(2, distinct_values)
    values = Stream(public_seed.encode("utf-8"), "parameter values").shuffled(inner)
    return values[: len(values) // 2], values[len(values) // 2 :]


class SqliteIndexTask(Task):
    """Choose at most a few partial indexes for a workload with hidden traffic; ``Sizes`` are its settings."""

    name = "sqlite_index"

    def __init__(self, settings: Mapping[str, object], public_seed: str) -> None:
        """Check and keep the settings; see ``Task.__init__``."""
        if not public_seed:
            raise ValueError("public_seed is empty")
        defaults = self.default_settings()
        for key in settings:
            if key not in defaults:
                raise ValueError(f"unknown setting of task {self.name}: {key}")
        self.settings = {**defaults, **settings}
        self.public_seed = public_seed
        rows = self._integer("rows", 100, 200_000)
        distinct_values = self._integer("distinct_values", 8, rows)
        if rows % distinct_values:
            raise ValueError("setting rows must be a multiple of distinct_values")
        self._open_values, self._sealed_values = values_in_use(distinct_values, public_seed)
        families = self._integer("families", 2, 64)
        self._sizes = Sizes(
            rows=rows,
            distinct_values=distinct_values,
            families=families,
            hot_families=self._integer("hot_families", 1, families // 2),
            hot_weight=self._integer("hot_weight", 2, 1_000),
            max_indexes=self._integer("max_indexes", 1, families),
            sealed_parameters=self._integer("sealed_parameters", 1, len(self._sealed_values)),
        )

    def _integer(self, key: str, low: int, high: int) -> int:
        """Return a setting, checked to be an integer from ``low`` to ``high``."""
        value = self.settings[key]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"setting {key} must be an integer from {low} to {high}, not {value!r}")
        return value

    @staticmethod
    def default_settings() -> dict[str, object]:
        """Return every setting with its default; see ``Sizes`` for their meaning."""
        return dict(Sizes()._asdict())

    def engine_identity(self) -> dict[str, str]:
        """Return the SQLite version and source: step counts depend on both."""
        import apsw  # noqa: PLC0415  (a heavy import, kept out of jobs that only present the task)

        return {
            "apsw": apsw.apsw_version(),
            "sqlite": apsw.sqlite_lib_version(),
            "sqlite_source": apsw.sqlite3_sourceid(),
        }

    def action_schemas(self) -> dict[str, dict[str, Any]]:
        """Return the JSON Schemas of the ``experiment`` and ``commit`` payloads."""
        most = self._sizes.max_indexes
        candidate = {
            "type": "string",
            "maxLength": CANDIDATE_CHARACTERS,
            "description": f"SQL text with at most {most} CREATE INDEX ... WHERE ... statements",
        }
        quotes = {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "file name to exact text, for each file that the first observations ask to quote",
        }
        return {
            "experiment": {
                "type": "object",
                "properties": {"candidate": candidate},
                "required": ["candidate"],
                "additionalProperties": False,
            },
            "commit": {
                "type": "object",
                "properties": {"candidate": candidate, "quotes": quotes},
                "required": ["candidate"],
                "additionalProperties": False,
            },
        }

    def public_material(self) -> dict[str, bytes]:
        """Return the database file. It holds no workload: it is the same whatever is hidden or sealed."""
        from dcpflow.tasks.sqlite_engine import build_database  # noqa: PLC0415  (imports apsw)

        return {DATABASE: build_database(self._sizes, self.public_seed)}

    def hidden(self, secret: bytes) -> dict[str, Any]:
        """Draw the hot families.

        Returns:
            ``hot``, the sorted numbers of the hot families, and ``weights``, the traffic of every family.
        """
        return self._hidden_state(range(self._sizes.families), secret, "hidden")

    def decoy(self, hidden: dict[str, Any], secret: bytes) -> dict[str, Any]:
        """Draw hot families that are all cold in ``hidden``."""
        cold = [family for family in range(self._sizes.families) if family not in hidden["hot"]]
        return self._hidden_state(cold, secret, "decoy")

    def _hidden_state(self, pool: Sequence[int], secret: bytes, label: str) -> dict[str, Any]:
        """Draw the hot families from a pool of family numbers."""
        hot = sorted(secret_stream(secret, label).sample(pool, self._sizes.hot_families))
        weights = [self._sizes.hot_weight if family in hot else 1 for family in range(self._sizes.families)]
        return {"hot": hot, "weights": weights}

    def sealed(self, secret: bytes) -> dict[str, Any]:
        """Draw the sealed workload: for every family the parameters of its queries."""
        stream = secret_stream(secret, "sealed")
        draw = [
            sorted(stream.sample(self._sealed_values, self._sizes.sealed_parameters))
            for _ in range(self._sizes.families)
        ]
        return {"parameters": draw}

    def presentation(self, seed: bytes) -> dict[str, Any]:
        """Draw names, orders and example parameters.

        Returns:
            ``table`` and ``measure`` (names); by family number ``columns`` and ``families`` (names) and
            ``examples`` (parameters); ``family_order``, family numbers as they are listed;
            ``column_order``, places in ``columns`` plus the measure as the schema lists them.
        """
        stream = secret_stream(seed, "presentation")
        count = self._sizes.families
        words = _words(stream, 2 * count + 2)
        return {
            "table": words[0],
            "measure": words[1],
            "columns": words[2 : 2 + count],
            "families": words[2 + count :],
            "examples": [self._open_values[stream.below(len(self._open_values))] for _ in range(count)],
            "family_order": stream.shuffled(range(count)),
            "column_order": stream.shuffled(range(count + 1)),
        }

    def background(self) -> str:
        """Return K."""
        return _BACKGROUND.format(**self._sizes._asdict())

    def first_observations(
        self, presentation: dict[str, Any], reveal: dict[str, Any] | None = None, quote: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return E0: schema, templates, example parameters; with ``reveal`` the traffic table as well.

        Returns:
            ``schema`` (SQL text), ``families`` (a list of ``family``, ``template``, ``example``),
            ``max_indexes``, ``note``; with ``reveal`` also ``traffic`` (family name to relative traffic, an
            integer); with ``quote`` also ``quote``.
        """
        table, measure = presentation["table"], presentation["measure"]
        columns = [*presentation["columns"], measure]
        hot, families = self._sizes.hot_families, self._sizes.families
        result: dict[str, Any] = {
            "schema": table_sql(table, [columns[place] for place in presentation["column_order"]]),
            "families": [
                {
                    "family": presentation["families"][number],
                    "template": query_sql(table, columns[number], measure),
                    "example": presentation["examples"][number],
                }
                for number in presentation["family_order"]
            ],
            "max_indexes": self._sizes.max_indexes,
            "note": f"{hot} of the {families} families carry most of the traffic.",
        }
        if reveal is not None:
            result["traffic"] = {
                presentation["families"][number]: reveal["weights"][number] for number in presentation["family_order"]
            }
        if quote:
            result["quote"] = list(quote)
        return result

    def baseline(self, presentation: dict[str, Any]) -> str:
        """Return the artifact without any index."""
        return "-- no index\n"

    def known_solution(self, presentation: dict[str, Any], hidden: dict[str, Any]) -> str:
        """Return one usual partial index for each hot family, as many as an artifact may hold."""
        hot = [number for number in presentation["family_order"] if number in hidden["hot"]]
        table, columns = presentation["table"], presentation["columns"]
        return "".join(index_sql(table, columns[number]) + "\n" for number in hot[: self._sizes.max_indexes])

    def unit_ids(self) -> tuple[str, ...]:
        """Return the one exact aggregate unit."""
        return (UNIT,)

    def constant_reply(self, presentation: dict[str, Any]) -> dict[str, Any]:
        """Return equal shares and a total of one, whatever was proposed."""
        return reply(presentation, [1] * self._sizes.families, self._sizes.families)

    def open(self, public: Mapping[str, bytes]) -> SqliteIndexEngine:
        """Open an engine over the database file; see ``Task.open``."""
        from dcpflow.tasks.sqlite_engine import SqliteIndexEngine  # noqa: PLC0415  (imports apsw)

        if DATABASE not in public:
            raise ValueError(f"the public material lacks {DATABASE}")
        return SqliteIndexEngine(public[DATABASE], self._sizes, self.public_seed)


def reply(presentation: dict[str, Any], work: Sequence[int], whole: int) -> dict[str, Any]:
    """Return a reply: all replies of the channel are made here, so that they have one shape and length.

    Args:
        presentation: The episode's relabelling.
        work: The weighted steps of every family under the plan, by family number; positive sum.
        whole: The weighted steps of all families without any index; positive.

    Returns:
        ``shares``, family name to its part of all work, and ``total``, all work relative to no index; both as
        strings of eight characters with six decimals, rounded half up.
    """
    total = sum(work)
    shares = {presentation["families"][n]: _decimal(work[n], total) for n in presentation["family_order"]}
    return {"shares": shares, "total": _decimal(total, whole)}


def _decimal(numerator: int, denominator: int) -> str:
    """Return a ratio as text such as ``0.012345``, by integer arithmetic, capped at ``9.999999``."""
    millionths = min((2_000_000 * numerator + denominator) // (2 * denominator), 9_999_999)
    return f"{millionths // 1_000_000}.{millionths % 1_000_000:06d}"


def _words(stream: Stream, count: int) -> list[str]:
    """Draw different five-letter names without meaning."""
    letters = (_CONSONANTS, _VOWELS, _CONSONANTS, _VOWELS, _CONSONANTS)
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(kind[stream.below(len(kind))] for kind in letters)] = None
    return list(words)
