"""The door to the model: a recording proxy on the trusted side, which knows one address and has the key.

What comes in is an agent's, and can be anything; what goes out is a request that :mod:`dcpflow.episodes.model_api`
permits, written anew, to the registered base URL and nowhere else. No header of the agent's is sent on that is not
listed here, and of an answer's headers those alone that a client needs: others could tell one episode of another. A
call that was begun is read to its end, whether or not the agent still listens, so that it is recorded with all that it
cost; it is recorded before the agent is told its end.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import urllib3
from urllib3.exceptions import HTTPError, ReadTimeoutError

from dcpflow.episodes import model_api
from dcpflow.episodes.model_api import Answer, Endpoint
from dcpflow.episodes.session import Session
from dcpflow.records import canonical
from dcpflow.records.calls import TRANSPORT, Call, fault_of, of_the_account

REQUEST_BYTES: Final = 32 << 20
ANSWER_BYTES: Final = 64 << 20
AT_ONCE: Final = 8
"""Connections that are served at a time; more wait."""
TRIES_PER_CALL: Final = 25
"""Requests for an answer of a model that are passed on at most, as a multiple of the calls that may be answered."""
REFUSALS_RECORDED: Final = 100
READING_SECONDS: Final = 10.0
CONNECTING_SECONDS: Final = 30.0
CHUNK: Final = 1 << 16
SENT_ON: Final = ("accept", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta")
HANDED_BACK: Final = ("content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id", "x-request-id")
ANTHROPIC_VERSION: Final = "2023-06-01"
EVENT_STREAM: Final = "text/event-stream"
NOTHING_DONE: Final = frozenset({"rate_limited", "server_error", "refused"})
"""Faults with which the API says that it has not carried out a call."""
MODEL_CALLS, EPISODE_TOKENS, MAX_USD, ENDED = "model_calls", "episode_tokens", "max_usd", "ended"
REFUSED: Final = {
    MODEL_CALLS: "all calls of this episode are used",
    EPISODE_TOKENS: "all tokens of this episode are used",
    MAX_USD: "this episode may cost no more",
    ENDED: "this episode has ended",
}


def keep(listener: socket.socket, control: socket.socket, session: Session, spent: float) -> None:
    """Answer at the door until the job has closed its end of the socket, and end the calls that are under way.

    Args:
        listener: the door.
        control: the socket to the job, which is told of each call, and of limits that are reached.
        session: the attempt.
        spent: what calls of the same attempt have cost before, in USD.
    """
    ledger = Ledger(session, control, spent)
    server = _Server(listener, session, ledger)
    answering = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    answering.start()
    with suppress(OSError):
        while control.recv(CHUNK):
            pass
    ledger.closed.set()
    server.shutdown()
    server.server_close()


@dataclass
class Ledger:
    """All calls through the door so far, and whether one more may be made.

    Attributes:
        session: the attempt.
        control: the socket to the job.
        spent: what they have cost, in USD, with those that were made before.
        closed: set once no more may be made.
    """

    session: Session
    control: socket.socket
    spent: float
    closed: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _answered: int = 0
    _under_way: int = 0
    _tried: int = 0
    _refused: int = 0
    _tokens: int = 0
    _next: float = 0.0

    def begin(self) -> str:
        """Take leave to make a call; the limit that is in its way, if one is, of which the job is told at once."""
        model, api = self.session.model or {}, self.session.api
        if self.closed.is_set():
            return ENDED
        with self._lock:
            limit = ""
            if self._answered + self._under_way >= model["calls"] or self._tried >= TRIES_PER_CALL * model["calls"]:
                limit = MODEL_CALLS
            elif self._tokens >= model["episode_tokens"]:
                limit = EPISODE_TOKENS
            elif api.max_usd is not None and self.spent >= api.max_usd:
                limit = MAX_USD
            if limit:
                self._tell({"overspent": self.spent} if limit == MAX_USD else {"cut_off": limit})
                return limit
            self._under_way += 1
            self._tried += 1
            return ""

    def wait_for_turn(self) -> bool:
        """Keep to the registered rate; False if the door is closed meanwhile."""
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + 60 / self.session.api.requests_per_minute
        return not self.closed.wait(turn - now)

    def end(self, call: Call, body: bytes) -> None:
        """Record a call that has ended.

        Args:
            call: what came of it, but for the digest of its answer.
            body: the answer's body, without secrets.
        """
        with self._lock:
            self._under_way -= 1
            self._answered += call.fault not in NOTHING_DONE
            self._tokens += call.tokens
            self.spent += self.session.api.prices.of_call(call)
            self._record(call, body)
            if of_the_account(call.status, body):
                self._tell({"account": call.status})

    def refuse(self, status: int, body: bytes) -> None:
        """Record a request that was not passed on, if it is not one of too many."""
        with self._lock:
            self._refused += 1
            if self._refused <= REFUSALS_RECORDED:
                self._record(Call(canonical.digest(body), status, "refused", "", 0, 0, 0, ""), b"")

    def _record(self, call: Call, body: bytes) -> None:
        told = asdict(call) | {"response": self.session.objects.put(body) if body else ""}
        self.session.journal.add({"call": told})
        self._tell({"call": told})

    def _tell(self, message: Mapping[str, Any]) -> None:
        with suppress(OSError):  # the job is gone, and with it soon this process
            self.control.sendall(json.dumps(message).encode() + b"\n")


class _Server(ThreadingHTTPServer):
    """Serves the door, a thread for each of a few connections; it waits for all of them when it is closed."""

    daemon_threads = False

    def __init__(self, listener: socket.socket, session: Session, ledger: Ledger) -> None:
        super().__init__(("127.0.0.1", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        listener.setblocking(False)  # a connection that is gone again holds up nobody
        self.socket = listener
        self.session = session
        self.ledger = ledger
        assert session.model is not None
        self.model = session.model
        self.api = str(session.model["api"])
        self.trust = ssl.create_default_context()
        self.reading = threading.Lock()
        self._free = threading.BoundedSemaphore(AT_ONCE)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._free.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke, or asked for more memory than there is, is the agent's loss."""


@dataclass
class _Told:
    """What has come of one request to the API.

    Attributes:
        answer: what the answer says of itself.
        status: of the answer; 0 where there was none.
        fault: see :class:`Call`.
        body: of the answer, without secrets.
    """

    answer: Answer
    status: int = 0
    fault: str = ""
    body: bytearray = field(default_factory=bytearray)


class _Handler(BaseHTTPRequestHandler):
    """One request of the agent's."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "door", ""
    timeout = READING_SECONDS
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: it would be the agent's to fill."""

    def do_POST(self) -> None:
        """Pass on what may be passed on, and refuse everything else."""
        self.close_connection = True
        server = self.server
        body = self._body()
        if body is None:
            return
        self.connection.settimeout(float(server.model["call_seconds"]))
        if self.command == "HEAD":  # some clients only look first whether somebody is there
            self.say(200, {}, b"")
            return
        where = model_api.endpoint(server.api, server.model["base_url"], self.command, self.path)
        if where is None:
            self._refuse(403, "this door leads to the registered model alone", body)
        elif self.command == "GET":
            self._count_or_list(where, None)
        else:
            self._checked(where, body)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = do_POST

    def _checked(self, where: Endpoint, body: bytes) -> None:
        """Go on with a request whose body may be sent."""
        with self.server.reading:  # a small body can take much memory while it is read
            request = model_api.read(body)
            reason = "a body that is no JSON object" if request is None else model_api.beyond(request)
            if request is not None and reason is None:
                wanted, added = model_api.with_usage(where.path, request)
                body = json.dumps(wanted, separators=(",", ":")).encode()
        if reason is not None:
            self._refuse(400 if request is None else 403, f"not passed on: {reason}", body)
        elif not where.is_call:
            self._count_or_list(where, body)
        elif limit := self.server.ledger.begin():
            self._say_error(429, "rate_limit_error", REFUSED[limit])
        else:
            self._call(where, body, added)

    def _call(self, where: Endpoint, body: bytes, usage_added: bool) -> None:
        """Have the model answer."""
        told = _Told(Answer(self.server.api), fault=TRANSPORT)
        listening = _Listener(self)
        try:
            self._exchange(where, body, told, listening, usage_added)
        finally:
            answer = told.answer
            counted = (answer.input_tokens, answer.cached_tokens, answer.output_tokens)
            call = Call(canonical.digest(body), told.status, told.fault, answer.model, *counted, "")
            self.server.ledger.end(call, bytes(told.body))
        listening.end(told)

    def _count_or_list(self, where: Endpoint, body: bytes | None) -> None:
        """Pass on what no model answers; of it nothing is recorded."""
        told = _Told(Answer(self.server.api), fault=TRANSPORT)
        listening = _Listener(self)
        self._exchange(where, body, told, listening, False)
        listening.end(told)

    def _exchange(
        self, where: Endpoint, body: bytes | None, told: _Told, listening: _Listener, usage_added: bool
    ) -> None:
        server = self.server
        if not server.ledger.wait_for_turn():
            told.fault = "refused"
            return
        seconds = float(server.model["call_seconds"])
        deadline = time.monotonic() + seconds
        # a connection for each: one that was kept may be closed at the other end, and look like a call that was lost
        pool = urllib3.PoolManager(ssl_context=server.trust)
        try:
            response = pool.urlopen(
                self.command,
                server.model["base_url"].rstrip("/") + where.target,
                body=body,
                headers=self._sent_on(),
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
                timeout=urllib3.Timeout(connect=min(CONNECTING_SECONDS, seconds), read=seconds),
            )
        except ReadTimeoutError:
            told.fault = "timeout"
            return
        except (HTTPError, OSError, ValueError):
            return
        late = threading.Event()

        def give_up() -> None:
            late.set()
            with suppress(OSError, ValueError):  # it has just ended by itself
                response.shutdown()

        timer = threading.Timer(max(0.0, deadline - time.monotonic()), give_up)
        timer.start()
        try:
            told.status, told.fault = response.status, "malformed"  # until all of it was understood
            listening.headers = _handed_back(response.headers, server.session)
            told.fault = self._take(response, told, listening, usage_added)
        except (HTTPError, OSError, ValueError):
            told.fault = TRANSPORT
        finally:
            timer.cancel()
            response.close()
            pool.clear()
        if late.is_set() and told.fault == TRANSPORT:
            told.fault = "timeout"

    def _take(self, response: urllib3.BaseHTTPResponse, told: _Told, listening: _Listener, usage_added: bool) -> str:
        """Read an answer, and hand on a stream as it comes; what went wrong, or nothing."""
        fault = _fault_of(response.status, response.headers)
        if fault == "malformed":
            return fault
        streamed = not fault and response.headers.get("content-type", "").startswith(EVENT_STREAM)
        waiting = bytearray()
        size = 0
        while data := response.read1(CHUNK, decode_content=False):
            size += len(data)
            if size > ANSWER_BYTES:
                return "malformed"
            if not streamed:
                waiting += data
                continue
            for event in model_api.events(waiting, data):
                clean = self._without_key(event)
                told.body += clean
                if told.answer.take_event(clean) or not usage_added:
                    listening.stream(clean)
        told.body += self._without_key(bytes(waiting))
        if response.length_remaining:
            return TRANSPORT
        return fault or self._understood(told, streamed)

    def _understood(self, told: _Told, streamed: bool) -> str:
        """What is wrong with an answer that came, or nothing."""
        if streamed:
            if not told.answer.whole:
                return "server_error" if told.answer.failed else TRANSPORT
        else:
            with self.server.reading:
                if not told.answer.take_body(bytes(told.body)):
                    return "malformed"
        return "server_error" if told.answer.failed else ""

    def _sent_on(self) -> dict[str, str]:
        """The headers of the request to the API."""
        server = self.server
        sent = {name: self.headers[name] for name in SENT_ON if self.headers.get(name, "\n").isprintable()}
        sent |= {"accept-encoding": "identity", "connection": "close"}
        if self.command == "POST":
            sent["content-type"] = "application/json"
        if server.api == "anthropic":
            sent.setdefault("anthropic-version", ANTHROPIC_VERSION)
        if key := server.session.api.key:
            sent |= {"x-api-key": key} if server.api == "anthropic" else {"authorization": f"Bearer {key}"}
        return sent

    def _without_key(self, data: bytes) -> bytes:
        return self.server.session.api.redacted_bytes(data)

    def _body(self) -> bytes | None:
        """The request's body; None where it was refused already, or does not come."""
        lengths = self.headers.get_all("content-length") or ["0"]
        reason = None
        if self.request_version != self.protocol_version:
            reason = 505, f"this door speaks {self.protocol_version}"
        elif "transfer-encoding" in self.headers or len(lengths) > 1 or not _is_number(lengths[0]):
            reason = 411, "a request needs one Content-Length, and no Transfer-Encoding"
        elif "content-encoding" in self.headers:
            reason = 415, "a request must not be compressed"
        elif int(lengths[0]) > REQUEST_BYTES:
            self._throw_away(int(lengths[0]))
            reason = 413, f"a request may have {REQUEST_BYTES} bytes"
        if reason:
            self._refuse(*reason, b"")
            return None
        body = self.rfile.read(int(lengths[0]))
        return body if len(body) == int(lengths[0]) else None

    def _throw_away(self, size: int) -> None:
        """Read what will not be used, within reason, so that the answer can be heard."""
        left = min(size, 2 * REQUEST_BYTES)
        while left and (data := self.rfile.read(min(left, CHUNK))):
            left -= len(data)

    def _refuse(self, status: int, message: str, body: bytes) -> None:
        self.server.ledger.refuse(status, body)
        self._say_error(status, "permission_error" if status == 403 else "invalid_request_error", message)

    def _say_error(self, status: int, kind: str, message: str) -> None:
        said = model_api.error(self.server.api, kind, message)
        self.say(status, {"content-type": "application/json"}, said)

    def say(self, status: int, headers: Mapping[str, str], body: bytes | None) -> None:
        """Begin the agent's answer, and end it, unless the body is to follow in pieces."""
        self.close_connection = True
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        framed = ("transfer-encoding", "chunked") if body is None else ("content-length", str(len(body)))
        self.send_header(*framed)
        self.send_header("connection", "close")
        self.end_headers()
        if body and self.command != "HEAD":
            self.wfile.write(body)


@dataclass
class _Listener:
    """The agent's end of an exchange, as long as it listens; what it misses changes nothing for the record.

    Attributes:
        handler: its request.
        headers: of the answer.
    """

    handler: _Handler
    headers: Mapping[str, str] = field(default_factory=dict)
    _begun: bool = False
    _gone: bool = False

    def stream(self, piece: bytes) -> None:
        """Hand on a piece of a stream."""
        if not self._begun:
            self._begun = True
            self._write(lambda: self.handler.say(200, self.headers, None))
        self._write(lambda: self.handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece)))

    def end(self, told: _Told) -> None:
        """Hand on all of an answer, or the end of a stream; one that broke off has no end for the agent either."""
        handler = self.handler
        if self._begun:
            if told.fault in ("", "server_error") or told.answer.whole:
                self._write(lambda: handler.wfile.write(b"0\r\n\r\n"))
            return
        if told.fault in (TRANSPORT, "timeout", "malformed"):
            late = told.fault == "timeout"
            said = "the model did not answer in time" if late else "the model's answer was lost, or is none"
            status, body = 504 if late else 502, model_api.error(handler.server.api, "api_error", said)
            self._write(lambda: handler.say(status, {"content-type": "application/json"}, body))
        else:
            self._write(lambda: handler.say(told.status or 503, self.headers, bytes(told.body)))

    def _write(self, write: Any) -> None:
        if not self._gone:
            try:
                write()
            except OSError:
                self._gone = True


def _fault_of(status: int, headers: Mapping[str, str]) -> str:
    if headers.get("content-encoding", "identity") != "identity" or 300 <= status < 400:
        return "malformed"
    return fault_of(status)


def _handed_back(headers: Mapping[str, str], session: Session) -> dict[str, str]:
    known = {name: headers[name] for name in HANDED_BACK if headers.get(name, "\n").isprintable()}
    return {name: session.api.redacted(value) for name, value in known.items()}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12
