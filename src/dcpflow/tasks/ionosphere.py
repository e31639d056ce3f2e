"""The ionosphere task: tell good radar returns from bad ones, from returns whose judgement is bought.

UCI Ionosphere: 351 returns of a radar in Goose Bay, 17 complex pulses each; good ones show structure in the
ionosphere. What is told, bought and scored is that of ``bought_labels``.
"""

from __future__ import annotations

from dcpflow.tasks.bought_labels import BoughtLabelsTask, Sizes


class IonosphereTask(BoughtLabelsTask):
    """``BoughtLabelsTask`` on the ionosphere data."""

    name = "ionosphere"
    data_set = "ionosphere"
    sizes = Sizes(rows=160, known=4, batch=4, held_out=180, error_percent=2)
