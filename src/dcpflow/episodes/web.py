"""How a channel answers ``web_fetch``: from the packet, and in the target run by ``live_web``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from dcpflow.records import packet
from dcpflow.records.packet import Packet
from dcpflow.records.urls import without_credentials

LEFT_OUT: Final = "[not recorded]"


class Access(Protocol):
    """What a channel needs to know of the Web.

    Attributes:
        rules: the registered section ``information.web``.
    """

    rules: Mapping[str, Any]

    def answer(self, url: str) -> dict[str, Any]:
        """What a fetch of a permitted address, in canonical form, is answered."""
        ...


class Recorded:
    """The Web as it was recorded, and nothing else of it."""

    def __init__(self, rules: Mapping[str, Any], web: Packet) -> None:
        self.rules = rules
        self.packet = web

    def answer(self, url: str) -> dict[str, Any]:
        """The reply that the target run got to this address."""
        return self.packet.answer(url) or packet.not_recorded()

    def store(self) -> bytes:
        """Nothing: all of it is stored, and nothing was fetched that an archive could hold."""
        return b""


def recordable(line: bytes) -> bytes:
    """A request as it is recorded and answered: a fetch without credentials and headers, all else as it is.

    The recorded form has the recorded form of itself, so that a replay answers it alike.
    """
    if packet.ACTION.encode() not in line and b"\\u" not in line:
        return line
    try:
        request = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return line
    if not isinstance(request, dict) or request.get("action") != packet.ACTION:
        return line
    kept: dict[str, Any] = dict.fromkeys(request, LEFT_OUT) | {"action": packet.ACTION}
    if "id" in kept:
        kept["id"] = request["id"] if isinstance(request["id"], str | int | float) else None
    if "url" in kept:
        kept["url"] = without_credentials(request["url"]) if isinstance(request["url"], str) else None
    return json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()
