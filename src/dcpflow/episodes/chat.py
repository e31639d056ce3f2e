"""A plain loop around a model behind an API: it is asked, it acts by the channel, it is told the replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcpflow.agents import dialogue
from dcpflow.episodes.apis import Answer, Message, form_of
from dcpflow.episodes.asking import Asking, CannotGoOn
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.runner import Ending
from dcpflow.episodes.session import Session
from dcpflow.episodes.timing import Allotted, Clock, departure


def chat(
    session: Session,
    limits: Mapping[str, float],
    channel: Channel,
    first: Mapping[str, Any],
    clock: Clock | None = None,
) -> Ending:
    """Have a model work on an episode until it finishes, stops acting, fails, or reaches a limit.

    Args:
        session: the attempt.
        limits: the registered limits.
        channel: the conversation's state; holds all that was said when this returns.
        first: the channel's first message.
        clock: the time.

    Raises:
        UsageError: it cannot go on before the user has done something: raised the budget, given a key, installed the
            API's client. The journal keeps all that was said.
        EvidenceError: the journal names an answer that is gone.
    """
    channel.say(first)
    conversation = _Conversation(session, limits, channel, first, clock or Clock())
    asking, interrupted = conversation.asking, False
    try:
        conversation.run()
    except CannotGoOn:
        interrupted = True
    error = asking.error.encode("utf-8", "replace")
    late = conversation.late_replies
    return Ending(True, False, None, error, late, calls=asking.all_calls(), interrupted=interrupted)


class _Conversation:
    """One model's answers in, the channel's replies out."""

    def __init__(
        self, session: Session, limits: Mapping[str, float], channel: Channel, first: Mapping[str, Any], clock: Clock
    ) -> None:
        assert session.model is not None
        self._native = session.model["tools"] == "native"
        self._limits, self._channel, self._first = limits, channel, first
        self._form = form_of(session.model, session.model_id, first)
        self._time = Allotted(clock, limits["wall_seconds"], session.heartbeat)
        self.asking = Asking(session, self._form, channel, self._time)
        self.late_replies = 0

    def run(self) -> None:
        """Ask and act, until it is over."""
        opening, reminder = (
            (dialogue.prompt(self._first), dialogue.REMINDER)
            if self._native
            else (dialogue.json_prompt(self._first), dialogue.JSON_REMINDER)
        )
        messages = [self._form.told(opening)]
        idle = False
        while answer := self.asking.answer(messages):
            replies = self._carry_out(answer)
            if self._channel.finished or (idle and not replies):
                return
            idle = not replies
            messages += [answer.message, *(replies or [self._form.told(reminder)])]

    def _carry_out(self, answer: Answer) -> list[Message]:
        """What the model is told of each of its actions; nothing if it has not acted, or the conversation is over."""
        turn = f"t{self.asking.turn}"
        if not self._native:
            reply = self._hear(dialogue.answer_line(f"{turn}.1", answer.text)) if answer.text.strip() else ""
            return [self._form.told(reply)] if reply else []
        told = []
        for number, use in enumerate(answer.uses, 1):
            line = dialogue.call_line if isinstance(use.arguments, str) else dialogue.request_line
            if not (reply := self._hear(line(f"{turn}.{number}", use.name, use.arguments))):
                return []
            told.append((use, reply))
        return self._form.results(told) if told else []

    def _hear(self, line: bytes) -> str:
        """The channel's reply as a text; empty if the conversation is over."""
        if self._time.left <= 0:
            self._channel.cut_off("wall_seconds")
        elif len(line) > self._limits["message_bytes"]:
            self._channel.overlong(line)
        elif self._channel.usage["bytes"] + len(line) > self._limits["output_bytes"]:
            self._channel.cut_off("output_bytes")
        if self._channel.finished:
            return ""
        asked = self._time.now
        reply, is_experiment = self._channel.hear(line)
        if is_experiment and not self.asking.recalls:
            leaves, late = departure(asked, self._time.now, self._limits["reply_delay_ms"])
            self.late_replies += late
            self._time.pause(leaves - self._time.now)
        return "" if self._channel.finished else dialogue.reply_text(reply)
