"""How the target run's channel answers ``web_fetch``: through the gateway, recording what it saw."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any, Final

from dcpflow.episodes import gateway
from dcpflow.episodes.gateway import Fetched, Gateway
from dcpflow.episodes.site import serving
from dcpflow.episodes.warc import encode
from dcpflow.records import packet
from dcpflow.records.journal import Journal
from dcpflow.records.objects import ObjectStore
from dcpflow.records.packet import Packet, Page
from dcpflow.tasks.evaluator import Evaluator, EvaluatorDied

GRACE_SECONDS: Final = 2.0
MEMORY_MB: Final = 512


class Recorder:
    """The live Web; each address is fetched once, and answered the same from then on.

    Args:
        rules: the registered section.
        objects: where bodies are stored as they come.
        fetch: fetches a permitted address.
        journal: of the attempt, where what an agent was shown has to stand after a kill: what it holds is not fetched
            again, and is no part of the archive any more.
    """

    def __init__(
        self,
        rules: Mapping[str, Any],
        objects: ObjectStore,
        fetch: Callable[[str], Fetched],
        journal: Journal | None = None,
    ) -> None:
        self.rules = rules
        self._objects = objects
        self._fetch = fetch
        self._journal = journal
        self._pages: dict[str, Page] = {}
        self._texts: dict[str, str] = {}
        self._warc = b""
        for page in (Page(**entry["page"]) for entry in (journal.earlier if journal else ()) if "page" in entry):
            self._pages[page.url] = page
            self._texts[page.text] = objects.get(page.text, f"what was shown of {page.url}").decode()

    @property
    def packet(self) -> Packet:
        """What was seen so far."""
        return packet.of(self._pages.values(), self._texts)

    def answer(self, url: str) -> dict[str, Any]:
        """Fetch the address, or answer as before."""
        if url not in self._pages:
            self._keep(url, self._fetch(url))
        page = self._pages[url]
        return packet.answer(page, self._texts[page.text])

    def _keep(self, url: str, found: Fetched) -> None:
        text = self._objects.put(found.text.encode())
        self._texts[text] = found.text
        body = self._objects.put(found.body)
        page = self._pages[url] = Page(url, found.status, found.content_type, body, text)
        if self._journal is not None:
            self._journal.add({"page": asdict(page)})
        if found.answers:
            self._warc += encode(found.answers)

    def store(self) -> bytes:
        """Store the packet; returns all answers as a WARC file, which holds dates and therefore is no object."""
        packet.store(self._objects, self.packet)
        return self._warc


@contextmanager
def live(
    rules: Mapping[str, Any], objects: ObjectStore, waiting: Callable[[], None], journal: Journal | None = None
) -> Iterator[Recorder]:
    """The live Web for one episode: the gateway in a child process, and the own site if one is registered.

    Args:
        rules: the registered section.
        objects: the object store.
        waiting: called every few seconds while a fetch is awaited.
        journal: see :class:`Recorder`.
    """
    with ExitStack() as stack:
        site = stack.enter_context(serving(rules["site"])) if rules["site"] else None
        seconds = rules["fetch_seconds"] + GRACE_SECONDS
        child = Evaluator(Gateway(rules, site).prepare, seconds, MEMORY_MB, waiting, patience=1)
        stack.enter_context(child)
        yield Recorder(rules, objects, lambda url: fetched(child, url), journal)


def fetched(child: Evaluator, url: str) -> Fetched:
    """A page, fetched in the child process; what goes wrong there is the agent's answer and never ends the run."""
    try:
        return Fetched.from_json(child.ask({"url": url}))
    except EvaluatorDied as death:
        return gateway.failed(f"the page could not be read: {death}")
    except RuntimeError as fault:
        print(f"the gateway failed: {fault}", file=sys.stderr)
        return gateway.failed("the host's answer cannot be read")
