"""What an agent with doors, or a sandbox that hands out something else, can reach by them: nothing."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.adversarial.upstream import Upstream, chat, plain, serving

from dcpflow.agents import launch
from dcpflow.agents.launch import MODEL, LaunchSpec, door_files
from dcpflow.episodes import doors as doors_module
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.doors import Doors, became_the_agent, converse_with_doors, received
from dcpflow.episodes.probe import SPEC
from dcpflow.episodes.runner import converse
from dcpflow.episodes.sandbox import Isolation, open_isolation, refuse_mounted
from dcpflow.episodes.session import Session
from dcpflow.errors import UsageError
from dcpflow.records.journal import Journal
from dcpflow.records.objects import ObjectStore
from dcpflow.tasks.evaluator import die_with

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from tests.adversarial.conftest import DoorTalk

LetTalk = Callable[..., "DoorTalk"]
Isolate = Callable[[str, LaunchSpec], Isolation]
Limits = dict[str, Any]
ADDRESSES = ("model", "mcp")
NESTED = "DCPFLOW_TESTS_NESTED" in os.environ


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., AbstractContextManager[Upstream]]:
    return partial(serving, tmp_path / "asked", lambda _: plain(chat()))


# --- the agent -------------------------------------------------------------------------------------------------


def test_behind_a_door_everything_that_the_probe_tries_is_still_refused(
    isolate: Isolate, tmp_path: Path, limits: Limits
) -> None:
    """The same probe as in every job, started as an agent with both doors is, while somebody answers at them."""
    canary = tmp_path / "sealed"
    canary.write_bytes(b"x")
    spec = LaunchSpec(SPEC.arguments, {**SPEC.files, **door_files(ADDRESSES)}, {}, ADDRESSES)
    isolation = isolate("bubblewrap", spec)
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.create_server(("127.0.0.1", 0)) as listener:
        running = isolation.start(spec.behind_doors(theirs.fileno()), limits, theirs.fileno())
        theirs.close()
        opened = received(ours, 2)
        assert len(opened) == 2 and became_the_agent(ours)
        told = {"canary": str(canary), "port": listener.getsockname()[1], "workspace_mb": limits["workspace_mb"]}
        answer, _ = running.process.communicate(json.dumps(told).encode() + b"\n", timeout=20)
        running.stop()
        running.close_workspace()
        for door in opened:
            door.close()
    tests = json.loads(answer)
    assert len(tests) == 22
    assert set(tests.values()) == {"refused"}, tests


def test_of_all_ports_of_its_loopback_the_door_alone_is_open(talk_with_model: LetTalk, serve: Any) -> None:
    name = f"\0dcpflow-door-{os.getpid()}"
    with (
        serve() as upstream,
        socket.create_server(("127.0.0.1", 0)) as other,
        listening(socket.AF_UNIX, address=name),
    ):
        one = talk_with_model(
            f"""
            read()
            def opens(port):
                with socket.socket() as probe:
                    probe.settimeout(5)
                    return probe.connect_ex(("127.0.0.1", port)) == 0
            # not by trying all: one that tries a port from that same port is connected to itself
            rows = [row.split() for name in ("tcp", "tcp6") for row in open("/proc/net/" + name).readlines()[1:]]
            found = [int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A"]
            local = []
            for name in ({name!r}, "/run/docker.sock", "/var/run/dbus/system_bus_socket"):
                with socket.socket(socket.AF_UNIX) as probe:
                    local.append(probe.connect_ex(name) == 0)
            interfaces = [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]
            reached = [opens(door.port), opens({other.getsockname()[1]}), opens({upstream.port})]
            commit([found == [door.port], reached, local, interfaces])
            ask("finish")
            """,
            upstream.base_url,
        )
    assert one.reported == [True, [True, False, False], [False] * 3, ["lo"]]


def test_of_what_opened_the_door_nothing_stays(talk_with_model: LetTalk, serve: Any) -> None:
    with serve() as upstream:
        one = talk_with_model(
            """
            read()
            commit({
                "descriptors": sorted(os.listdir("/proc/self/fd"), key=int)[:-1],
                "environment": {k: v for k, v in os.environ.items() if k != "LC_CTYPE"},
                "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
                "program": open("/proc/self/cmdline").read().split("\\0")[4],
                "the address": sys.argv[1] == os.environ["ASK"],
            })
            ask("finish")
            """,
            upstream.base_url,
            environment={"ASK": "{model}", "HOME": "/ws"},
        )
    told = one.reported
    address = told["environment"].pop("ASK")
    assert address.startswith("http://127.0.0.1:")
    assert told == {
        "descriptors": ["0", "1", "2"],
        "environment": {"HOME": "/ws", "PWD": "/ws"},
        "processes": 2,
        "program": next(iter(one.spec.files)),
        "the address": True,
    }


def test_variables_of_the_agent_s_own_do_not_reach_what_opens_its_doors(talk_with_model: LetTalk, serve: Any) -> None:
    with serve() as upstream:
        one = talk_with_model(
            "read(); commit(call()[0]); ask('finish')",
            upstream.base_url,
            environment={"PYTHONPATH": "/ws", "LD_PRELOAD": "/ws/none.so", "PATH": "/ws", "PYTHONSTARTUP": "/ws/x"},
        )
    assert one.reported == 200


def test_a_program_that_is_not_there_could_not_be_started(
    isolate: Isolate, limits: Limits, tmp_path: Path, serve: Any
) -> None:
    spec = LaunchSpec(("/nowhere/agent", "{model}"), door_files((MODEL,)), {}, (MODEL,))
    with serve() as upstream:
        rules = {"api": "openai", "base_url": upstream.base_url, "calls": 1, "call_seconds": 5.0, "episode_tokens": 1}
        session = Session(lambda: None, Journal(tmp_path, 1), ObjectStore(tmp_path), "0" * 64, "model-1", rules)
        channel = Channel(lambda _: {}, limits)
        ending = converse_with_doors(session, isolate("bubblewrap", spec), spec, limits, channel, {})
    assert not ending.started
    assert not channel.usage["messages"]


# --- what comes out of a sandbox -------------------------------------------------------------------------------


def listening(family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, address: Any = ("127.0.0.1", 0)) -> Any:
    one = socket.socket(family, kind)
    one.bind(address)
    if kind == socket.SOCK_STREAM:
        one.listen()
    return one


def hand_out(*sent: Any) -> list[socket.socket]:
    """What is made of descriptors that come out of a sandbox from which one door is wanted."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        if sent:
            socket.send_fds(theirs, [b"doors"], [one.fileno() for one in sent])
        else:
            theirs.send(b"doors")
        for one in sent:
            one.close()
        return received(ours, 1, seconds=0.2)


class Opened:
    """A file or folder, with the methods of a socket that are called here."""

    def __init__(self, name: str) -> None:
        self._opened = os.open(name, os.O_RDONLY)

    def fileno(self) -> int:
        return self._opened

    def close(self) -> None:
        os.close(self._opened)


def connected() -> socket.socket:
    with listening() as one:
        return socket.create_connection(one.getsockname())


def not_listening() -> socket.socket:
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    return one


WRONG: dict[str, Callable[[], list[Any]]] = {
    "nothing": list,
    "one too many": lambda: [listening(), listening()],
    "very many": lambda: [listening() for _ in range(50)],
    "a file": lambda: [Opened("/etc/hostname")],
    "a folder": lambda: [Opened("/")],
    "a connection": lambda: [connected()],
    "not listening": lambda: [not_listening()],
    "on all addresses": lambda: [listening(address=("0.0.0.0", 0))],
    "a Unix socket": lambda: [listening(socket.AF_UNIX, address=f"\0dcpflow-{os.getpid()}")],
    "for datagrams": lambda: [listening(kind=socket.SOCK_DGRAM)],
    "of another family": lambda: [listening(socket.AF_INET6, address=("::1", 0))],
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_door_is_not_taken_for_one(name: str) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert hand_out(*WRONG[name]()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before, "what came is closed"


def test_a_door_is_taken() -> None:
    (door,) = hand_out(listening())
    with door:
        assert door.getsockname()[0] == "127.0.0.1"
        assert not os.get_inheritable(door.fileno())


def test_a_sandbox_that_says_nothing_is_not_waited_for_for_ever() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert received(ours, 1, seconds=0.1) == []


@pytest.mark.parametrize(
    "instead",
    [
        "pass",
        "import time; time.sleep(60)",
        "socket.send_fds(out, [b'doors'], [0, 1, 2])",
        "socket.send_fds(out, [b'doors'], [socket.create_server(('0.0.0.0', 0)).fileno()])",
        "socket.send_fds(out, [b'doors'], [socket.create_server(('127.0.0.1', 0)).fileno()]); out.send(b'x' * 9)",
        "out.send(b'x' * 100000)",
    ],
)
def test_an_opener_that_is_not_ours_starts_no_agent(
    isolate: Isolate, limits: Limits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instead: str
) -> None:
    """It costs the episode, and nothing waits for it."""
    monkeypatch.setattr(doors_module.received, "__defaults__", (1.0,))
    hostile = tmp_path / "doors.py"
    hostile.write_text(f"import socket, sys\nout = socket.socket(fileno=int(sys.argv[1]))\n{instead}\n")
    spec = LaunchSpec(("/usr/bin/true", "{mcp}"), {f"{launch.DOOR}/doors.py": hostile}, {}, ("mcp",))
    session = Session(lambda: None, Journal(tmp_path, 1), ObjectStore(tmp_path), "0" * 64)
    channel = Channel(lambda _: {}, limits)
    hello = {"K": "", "E0": {}, "files": {}, "history": [], "budgets": {}, "actions": {}}
    ending = converse_with_doors(session, isolate("bubblewrap", spec), spec, limits, channel, hello)
    assert not ending.started
    assert not channel.usage["messages"]


def test_where_apptainer_has_no_loopback_the_error_says_so() -> None:
    class Nobody(doors_module.Door):
        keeper = None  # type: ignore[assignment]

        def end(self) -> None: ...

    doors = Doors("apptainer", [Nobody()])
    try:
        with pytest.raises(UsageError, match="in this Apptainer no program listens on the loopback") as caught:
            doors.ready()
    finally:
        doors.close()
    assert "bubblewrap" in str(caught.value)


# --- what is given to agents -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bubblewrap", "none"])
def test_registered_variables_and_folders_are_given_and_nothing_else(
    isolate: Isolate, write_agent: Callable[[str], LaunchSpec], limits: Limits, tmp_path: Path, kind: str
) -> None:
    installed = tmp_path / "installed"
    (installed / "below").mkdir(parents=True)
    (installed / "below" / "data").write_text("text")
    body = f"""
        read()
        place = {str(installed if kind == "none" else Path("/opt/agent"))!r}
        try:
            open(place + "/below/new", "w")
            written = True
        except OSError:
            written = False
        commit([open(place + "/below/data").read(), written, dict(os.environ)])
        """
    plain_spec = write_agent(body)
    spec = LaunchSpec(
        plain_spec.arguments, {**plain_spec.files, "/opt/agent": installed}, {"HOME": "/ws", "MODE": "a=b c"}
    )
    channel = Channel(lambda _: {}, limits)
    converse(isolate(kind, spec), spec, limits, channel, {}, lambda: None)
    text, written, environment = json.loads(channel.candidates[0])
    assert (text, written) == ("text", kind == "none")
    environment.pop("LC_CTYPE", None)
    ours = {"PWD": "/ws"} if kind == "bubblewrap" else {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    assert environment == {"HOME": "/ws", "MODE": "a=b c", **ours}


def test_nothing_private_may_lie_in_what_an_agent_is_given(tmp_path: Path) -> None:
    results = tmp_path / "audit" / "results"
    results.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "audit")
    refuse_mounted((results,), (tmp_path / "elsewhere",))
    for given in (results, results.parent, link, Path("/")):
        with pytest.raises(UsageError, match="which sandboxed agents can read") as caught:
            refuse_mounted((results,), (given,))
        assert "agent.program.mounts" in str(caught.value)


def test_an_isolation_prepares_folders_for_agents_that_run_as_somebody_else(
    backend: str, write_agent: Callable[[str], LaunchSpec], limits: Limits, tmp_path: Path
) -> None:
    """As root the agent cannot traverse what the folder lies in."""
    if backend == "none":
        pytest.skip("no bubblewrap works on this machine")
    home = tmp_path / "home"
    (home / "agent").mkdir(parents=True)
    (home / "agent" / "data").write_text("text")
    home.chmod(0o700)
    one = write_agent("read(); commit(open('/opt/agent/data').read())")
    spec = LaunchSpec(one.arguments, {**one.files, "/opt/agent": home / "agent"})
    channel = Channel(lambda _: {}, limits)
    converse(open_isolation("bubblewrap", (spec,), lambda _: True), spec, limits, channel, {}, lambda: None)
    assert channel.candidates == [b"text"]


def test_those_who_answer_at_doors_die_with_the_job(tmp_path: Path, serve: Any, limits: Limits) -> None:
    """A job that is killed leaves no process that has the key."""
    told, tells = os.pipe()
    job = os.fork()
    if not job:
        try:
            die_with(os.getppid())
            rules = {"api": "openai", "base_url": "http://127.0.0.1:9/v1", "calls": 1, "call_seconds": 5.0}
            rules["episode_tokens"] = 1
            session = Session(lambda: None, Journal(tmp_path, 1), ObjectStore(tmp_path), "0" * 64, "model-1", rules)
            model = doors_module.ModelDoor(session, Channel(lambda _: {}, limits))
            os.write(tells, str(model.keeper._child).encode() + b"\n")
            os.kill(os.getpid(), 9)
        finally:
            os._exit(1)
    os.waitpid(job, 0)
    keeper = int(os.read(told, 32))
    for _ in range(200):
        if not Path(f"/proc/{keeper}").exists() or " Z " in Path(f"/proc/{keeper}/stat").read_text():
            return
        time.sleep(0.02)
    pytest.fail("it still runs")


# --- as an ordinary user -----------------------------------------------------------------------------------


@pytest.mark.skipif(NESTED or os.geteuid() != 0, reason="these tests run as an ordinary user already")
def test_all_of_this_holds_for_an_ordinary_user(run_unprivileged: Callable[..., CompletedProcess[str]]) -> None:
    chosen = "probe or loopback_the_door or nothing_stays or variables or are_given or not_ours"
    done = run_unprivileged(["-m", "pytest", "-p", "no:cacheprovider", "-rs", "-k", chosen, __file__])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert done.stdout.count("no bubblewrap works") == 0, done.stdout[-2000:]
    assert " passed" in done.stdout
