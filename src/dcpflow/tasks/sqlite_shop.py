"""The index-design task in the words of an online shop: which few indexes serve its hidden hot look-ups.

One table of order lines with 24 columns to look up by, six of which carry heavy traffic. What is measured, how, and
under which rules is that of ``sqlite_index``; names and sizes differ. Names mean nothing: each episode assigns them to
the stored columns anew, so that the heavy look-ups of one episode have other names in the next, and no knowledge of
shops helps.

With the default sizes an index leaves .0044 of a scan's steps, and an artifact that serves k of the six hot families
and 6 - k others scores about .0175 + .1543 k, up to the published .9433. The recovery line .9383 needs all six.

Chance: blind choice finds all six of 24 with probability 1 in 134,596: .06 % for at least one of 80 challengers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcpflow.tasks.chance import secret_stream
from dcpflow.tasks.sqlite_index import SqliteIndexTask

TABLE = "orderlines"
MEASURE = "amount"
COLUMNS = (
    *("customer", "product", "brand", "supplier", "warehouse", "courier", "country", "currency"),
    *("payment", "voucher", "campaign", "referrer", "device", "language", "season", "color"),
    *("material", "size", "rating", "discount", "parcel", "invoice", "seller", "basket"),
)

_SHOP = """\

The table holds the order lines of an online shop; its families look order lines up by one attribute each. Names are
assigned at random: they do not tell which look-ups are frequent.
"""


class SqliteShopTask(SqliteIndexTask):
    """``SqliteIndexTask`` with a shop's vocabulary; at most 24 families."""

    name = "sqlite_shop"

    def __init__(self, settings: Mapping[str, object], public_seed: str) -> None:
        """Check and keep the settings; see ``Task.__init__``."""
        super().__init__(settings, public_seed)
        self._integer("families", 2, len(COLUMNS))

    @staticmethod
    def default_settings() -> dict[str, object]:
        """Return every setting with its default; see ``sqlite_index.Sizes`` for their meaning."""
        return SqliteIndexTask.default_settings() | {
            "rows": 19_600,
            "distinct_values": 490,
            "families": 24,
            "hot_families": 6,
            "hot_weight": 54,
            "max_indexes": 6,
        }

    def presentation(self, seed: bytes) -> dict[str, Any]:
        """Draw orders and example parameters as ``SqliteIndexTask`` does, and assign the shop's names."""
        drawn = super().presentation(seed)
        # Always the same names, so that all replies have one length.
        columns = secret_stream(seed, "shop names").sample(COLUMNS[: len(drawn["columns"])], len(drawn["columns"]))
        families = [f"by_{column}" for column in columns]
        return drawn | {"table": TABLE, "measure": MEASURE, "columns": columns, "families": families}

    def background(self) -> str:
        """Return K."""
        return super().background() + _SHOP
