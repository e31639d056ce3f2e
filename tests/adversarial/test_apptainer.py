"""Apptainer as a second backend: what it is asked for, and that the probe decides. It is run where there is one."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dcpflow.agents.launch import MODEL, LaunchSpec, door_files
from dcpflow.episodes import sandbox
from dcpflow.episodes.apptainer import Apptainer
from dcpflow.episodes.channel import Channel
from dcpflow.episodes.doors import became_the_agent, received
from dcpflow.episodes.probe import SPEC, passed, probe
from dcpflow.episodes.runner import Surroundings, converse
from dcpflow.episodes.sandbox import Program, open_isolation
from dcpflow.errors import UsageError
from dcpflow.protocol.config_model import Isolation, Limits

LIMITS: dict[str, Any] = Limits().model_dump() | {"reply_delay_ms": 0, "wall_seconds": 10}
FAKE = """\
    #!{interpreter}
    import json, os, sys
    words = sys.argv[1:]
    image = next(n for n, word in enumerate(words) if word.endswith("/image"))
    bound = dict(word.split(":")[1::-1] for before, word in zip(words, words[1:image]) if before == "--bind")
    with open({log!r}, "w") as file:
        json.dump({{"options": words[:image], "bound": bound, "image": sorted(os.listdir(words[image])),
                   "environment": dict(os.environ), "descriptors": sorted(os.listdir("/proc/self/fd"))}}, file)
    command = [bound.get(word, word) for word in words[image + 1:]]
    os.execv(command[0], command)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apptainer that isolates nothing: it notes what it is asked for and starts the command outside."""
    path = tmp_path / "apptainer"
    # not the environment's link, which may lie in a folder with a blank in its name
    interpreter = os.path.realpath(sys.executable)
    path.write_text(textwrap.dedent(FAKE).format(interpreter=interpreter, log=str(tmp_path / "log")))
    path.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    return path


def say(isolation: sandbox.Isolation, spec: LaunchSpec) -> Channel:
    channel = Channel(lambda _: {}, LIMITS)
    ending = converse(isolation, spec, LIMITS, channel, {}, lambda: None)
    assert channel.candidates, ending
    return channel


def asked(fake: Path) -> dict[str, Any]:
    import json

    found: dict[str, Any] = json.loads((fake.parent / "log").read_text())
    return found


def test_it_is_asked_for_all_that_the_sandbox_promises(fake: Path, write_agent: Callable[[str], LaunchSpec]) -> None:
    spec = write_agent("commit(); ask('finish')")
    assert say(Apptainer(fake), spec).finished
    found = asked(fake)
    for option in ("--containall", "--cleanenv", "--no-home", "--no-privs", "--net", "--uts"):
        assert option in found["options"]
    assert "--network none" in " ".join(found["options"])
    assert set(found["environment"]) <= {"LC_CTYPE", "PWD"}
    assert found["descriptors"][:3] == ["0", "1", "2"]
    assert len(found["descriptors"]) <= 5  # two are of the note itself
    assert set(found["bound"]) >= {*spec.files, "/usr", "/agent/rules", "/agent/confine.py"}
    assert all(option.endswith(":ro") for option in found["options"] if ":" in option)
    assert {"usr", "proc", "dev", "tmp", "ws", "agent"} <= set(found["image"])


def test_what_it_cannot_set_is_set_inside(fake: Path, write_agent: Callable[[str], LaunchSpec]) -> None:
    spec = write_agent(
        """
        import resource
        def makes(family):
            try:
                return bool(socket.socket(family))
            except OSError:
                return False
        kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_FSIZE)
        limits = [resource.getrlimit(kind)[1] for kind in kinds]
        commit([sorted(os.environ), makes(40), makes(16), makes(socket.AF_INET), limits])
        ask("finish")
        """
    )
    import json

    environment, vsock, netlink, inet, limits = json.loads(say(Apptainer(fake), spec).candidates[0])
    assert set(environment) <= {"PWD", "LC_CTYPE"}
    assert (vsock, netlink, inet) == (False, False, True)
    assert limits == [256, 512 << 20, 64 << 20]


def test_variables_and_folders_are_given_and_doors_opened(
    fake: Path, write_agent: Callable[[str], LaunchSpec], tmp_path: Path
) -> None:
    folder = tmp_path / "installed"
    folder.mkdir()
    plain = write_agent("commit({k: v for k, v in os.environ.items() if k not in ('PWD', 'LC_CTYPE')}); ask('finish')")
    files = {**plain.files, **door_files((MODEL,)), "/opt/deep/agent": folder}
    spec = LaunchSpec(plain.arguments, files, {"ASK": "{model}", "HOME": "/ws"}, (MODEL,))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        around = Surroundings()
        around.handed = theirs.fileno()
        channel = Channel(lambda _: {}, LIMITS)
        converse(Apptainer(fake), spec.behind_doors(theirs.fileno()), LIMITS, channel, {}, lambda: None, around)
        theirs.close()
        (door,) = received(ours, 1)
        with door:
            address = f"http://127.0.0.1:{door.getsockname()[1]}"
        assert became_the_agent(ours)
    import json

    assert json.loads(channel.candidates[0]) == {"ASK": address, "HOME": "/ws"}
    assert f"{folder}:/opt/deep/agent:ro" in asked(fake)["options"]


def test_the_same_probe_decides_and_finds_that_this_one_isolates_nothing(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = probe(Apptainer(fake), tmp_path / "private", LIMITS)
    assert report["backend"] == "apptainer"
    assert report["tests"]["loopback_ipv4"] == "open"
    assert report["tests"]["vsock"] == "refused", "the filter is ours and holds all the same"
    monkeypatch.setattr(sandbox, "programs", lambda backend: [Program(fake, fake.parent)] * (backend == "apptainer"))
    with pytest.raises(UsageError, match="its probe did not pass") as caught:
        open_isolation("apptainer", [SPEC], lambda one: passed(probe(one, tmp_path / "private", LIMITS)))
    assert "ISOLATION=none" in str(caught.value)


def test_only_the_registered_backend_is_tried(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.setattr(sandbox, "programs", lambda backend: tried.append(backend) or [])
    for backend, name in (("bubblewrap", "bwrap"), ("apptainer", "apptainer")):
        with pytest.raises(UsageError, match=f"no {name} program was found"):
            open_isolation(backend, [SPEC], lambda _: True)
    assert tried == ["bubblewrap", "apptainer"]
    assert Isolation().backend == "bubblewrap"


def test_root_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(OSError, match="agents would run as root"):
        Apptainer(tmp_path / "apptainer")


def test_what_an_agent_leaves_running_ends_with_it(
    fake: Path, write_agent: Callable[[str], LaunchSpec], still_running: Any
) -> None:
    spec = write_agent("commit()\nif not os.fork():\n    os.setsid()\n    time.sleep(60)\nask('finish')")
    say(Apptainer(fake), spec)
    assert still_running(spec) == []


@pytest.mark.skipif(not shutil.which("apptainer") or os.geteuid() == 0, reason="no apptainer here, or root")
def test_where_there_is_one_the_probe_says_whether_it_holds(tmp_path: Path) -> None:
    binary = Path(str(shutil.which("apptainer")))
    assert subprocess.run([binary, "--version"], capture_output=True, check=True).stdout
    report = probe(Apptainer(binary), tmp_path / "private", LIMITS)
    assert report["tests"], "the probe could not report"
