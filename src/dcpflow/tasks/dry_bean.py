"""The dry-bean task: tell seven kinds of beans apart by their shape, from beans whose kind is bought.

UCI Dry Bean (Koklu and Ozkan 2020): 13,611 beans, 16 measures of the image of each. What is told, bought and scored is
that of ``bought_labels``.
"""

from __future__ import annotations

from dcpflow.tasks.bought_labels import BoughtLabelsTask, Sizes


class DryBeanTask(BoughtLabelsTask):
    """``BoughtLabelsTask`` on the dry-bean data."""

    name = "dry_bean"
    data_set = "dry-bean"
    sizes = Sizes(rows=200, known=7, batch=6, held_out=2_000, error_percent=2)
