"""The yacht task: predict the residuary resistance of yacht hulls at given speeds, from tests that are bought.

UCI Yacht Hydrodynamics: 308 towing-tank tests, 22 hulls at 14 Froude numbers each, with five figures of the hull's
shape. What is told, bought and scored is that of ``bought_labels``.
"""

from __future__ import annotations

from dcpflow.tasks.bought_labels import BoughtLabelsTask, Sizes


class YachtTask(BoughtLabelsTask):
    """``BoughtLabelsTask`` on the yacht data."""

    name = "yacht"
    data_set = "yacht"
    sizes = Sizes(rows=160, known=6, batch=4, held_out=120, error_percent=2)
    digits = (3, 3)
