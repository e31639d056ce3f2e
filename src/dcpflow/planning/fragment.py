"""A plan as a piece of configuration, to paste into a file below ``config/cases``."""

from __future__ import annotations

from typing import Any

from dcpflow.planning.plan import Plan
from dcpflow.protocol.registered import KEY_OF_FIELD

_CLAIM = ("grade", "necessity_claimed")
_DESIGN = ("feedback_pairs", "null_pairs", "max_feedback_replacements", "max_null_replacements")
_THRESHOLDS = ("rho", "max_attempts", "min_independent", "min_control_recall", "alpha_total")
_GATE3 = ("feedback_estimand", "delta_evidence", "delta_null", "rho_neutral")


def settings(plan: Plan) -> dict[str, Any]:
    """The sections of the configuration that the plan settles."""
    reg = plan.reg
    found: dict[str, Any] = {}
    fields = (*_CLAIM, *_THRESHOLDS, *reg.active_alphas, *((*_DESIGN, *_GATE3) if plan.pairs else ()))
    values = {KEY_OF_FIELD[name]: getattr(reg, name) for name in fields}
    values |= {"design.challengers": plan.challengers, "design.controls": plan.controls}
    if len(plan.looks) > 1:
        values["design.gate2_looks"] = list(plan.looks)
    if reg.feedback_looks:
        values |= {"design.pair_looks": list(reg.feedback_looks), "thresholds.gate3.bet": reg.bet}
    for key in sorted(values, key=_place):
        *sections, name = key.split(".")
        section = found
        for one in sections:
            section = section.setdefault(one, {})
        section[name] = values[key]
    return found


def _place(key: str) -> tuple[int, str]:
    """Sections in the order of the file."""
    return ("claim", "design", "thresholds").index(key.partition(".")[0]), key


def fragment(plan: Plan) -> str:
    """The same as YAML."""
    import yaml  # noqa: PLC0415

    return str(yaml.safe_dump(settings(plan), sort_keys=False))
