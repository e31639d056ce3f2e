"""The sandbox: what an agent sees, what it cannot reach, and that all of it holds for root and for everybody else."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from dcpflow.agents.launch import LaunchSpec
from dcpflow.episodes import sandbox
from dcpflow.episodes.probe import SPEC, passed, probe
from dcpflow.episodes.sandbox import Isolation, NoIsolation, Program, open_isolation
from dcpflow.errors import UsageError
from dcpflow.protocol.config_model import Limits

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from tests.adversarial.conftest import Talk

LetTalk = Callable[..., "Talk"]
LIMITS = Limits().model_dump() | {"wall_seconds": 20, "processes": 1024}
NESTED = "DCPFLOW_TESTS_NESTED" in os.environ


# --- what it sees ------------------------------------------------------------------------------------------


def test_an_agent_finds_an_empty_environment_no_open_files_and_a_folder_of_its_own(talk: LetTalk) -> None:
    seen = talk(
        """
        commit({
            "environment": sorted(set(os.environ) - {"LC_CTYPE"}),
            "descriptors": sorted(os.listdir("/proc/self/fd"), key=int)[:-1],
            "folder": os.getcwd(),
            "contents": os.listdir("."),
            "host": socket.gethostname(),
            "arguments": sys.argv[1:],
        })
        """
    ).reported
    assert seen == {
        "environment": ["PWD"],
        "descriptors": ["0", "1", "2"],
        "folder": "/ws",
        "contents": [],
        "host": "sandbox",
        "arguments": [],
    }


def test_of_this_machine_an_agent_sees_its_own_file_the_interpreter_and_the_system_s_programs(talk: LetTalk) -> None:
    one = talk(
        f"""
        interpreter = {sys.base_prefix!r}
        given = ("/usr", "/proc", "/dev", "/sys", interpreter)
        found = []
        for folder, folders, files in os.walk("/"):
            if folder in given or folder.startswith(tuple(name + "/" for name in given)):
                folders.clear()
                continue
            folders[:] = [name for name in folders if not os.path.islink(os.path.join(folder, name))]
            found += [os.path.join(folder, name) for name in files]
        commit(sorted(found))
        """
    )
    (inside,) = one.spec.files
    assert set(one.reported) - {"/etc/ld.so.cache"} == {inside}


def test_an_agent_can_write_to_its_own_folders_and_nowhere_else(talk: LetTalk) -> None:
    tried = talk(
        f"""
        places = ["/ws", "/tmp", "/dev/shm", "/", "/usr", "/etc", "/agent", "/dev", "/proc", {sys.base_prefix!r}]
        written = []
        for place in places:
            try:
                with open(os.path.join(place, "probe"), "w") as file:
                    file.write("x")
                written.append(place)
            except OSError:
                pass
        try:
            with open(sys.argv[0], "a") as file:
                file.write("# edited")
            written.append("its own file")
        except OSError:
            pass
        commit(written)
        """
    ).reported
    assert tried == ["/ws", "/tmp", "/dev/shm"]


def test_what_one_agent_wrote_the_next_one_does_not_find(talk: LetTalk) -> None:
    talk("open('/ws/left', 'w').write('x'); open('/tmp/left', 'w').write('x'); commit()")
    found = talk("commit([os.listdir('/ws'), os.listdir('/tmp'), os.listdir('/dev/shm')])").reported
    assert found == [[], [], []]


# --- what it cannot reach ----------------------------------------------------------------------------------


def test_an_agent_reaches_no_listener_of_this_machine(talk: LetTalk) -> None:
    name = f"\0dcpflow-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as inet, socket.socket(socket.AF_UNIX) as local:
        local.bind(name)
        local.listen()
        reached = talk(
            f"""
            reached = []
            for family, address in ((socket.AF_INET, ("127.0.0.1", {inet.getsockname()[1]})),
                                    (socket.AF_UNIX, {name!r})):
                with socket.socket(family) as probe:
                    probe.settimeout(1)
                    try:
                        probe.connect(address)
                        reached.append(str(address))
                    except OSError:
                        pass
            interfaces = [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]
            commit([reached, interfaces])
            """
        ).reported
    assert reached == [[], ["lo"]]


def test_an_agent_sees_and_signals_no_process_of_this_machine(talk: LetTalk) -> None:
    seen = talk(
        f"""
        try:
            os.kill({os.getpid()}, 0)
            found = True
        except OSError:
            found = False
        commit([found, len([name for name in os.listdir("/proc") if name.isdigit()])])
        """
    ).reported
    assert seen[0] is False
    assert seen[1] <= 3


def test_an_agent_cannot_make_itself_root_or_make_another_sandbox(talk: LetTalk) -> None:
    got = talk(
        """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        got = []
        for name, call in (
            ("user namespace", lambda: libc.unshare(0x10000000)),
            ("mount namespace", lambda: libc.unshare(0x20000)),
            ("network namespace", lambda: libc.unshare(0x40000000)),
            ("mount", lambda: libc.mount(b"none", b"/ws", b"tmpfs", 0, None)),
            ("remount", lambda: libc.mount(b"none", b"/", None, 32, None)),
            ("chroot", lambda: libc.chroot(b"/ws")),
            ("setuid", lambda: libc.setuid(0) or os.getuid() != 0),
        ):
            if call() == 0:
                got.append(name)
        status = open("/proc/self/status").read()
        rights = [line.split()[1] for line in status.splitlines() if line.startswith(("CapEff", "CapPrm", "NoNew"))]
        commit([got, rights])
        """
    ).reported
    assert got == [[], ["0" * 16, "0" * 16, "1"]]


def test_an_agent_runs_under_an_unprivileged_user(talk: LetTalk) -> None:
    uid = talk("commit(os.getuid())").reported
    assert uid != 0
    if os.geteuid() != 0:
        assert uid == os.geteuid()


def test_memory_beyond_the_registered_amount_is_refused(talk: LetTalk) -> None:
    got = talk(
        """
        import mmap
        got = []
        for megabytes in (50, 1000):
            try:
                mmap.mmap(-1, megabytes << 20)
                got.append(megabytes)
            except (MemoryError, OSError):
                pass
        commit(got)
        """,
        memory_mb=256,
    ).reported
    assert got == [50]


# --- the probe ---------------------------------------------------------------------------------------------


def test_in_the_sandbox_everything_that_the_probe_tries_is_refused(
    isolate: Callable[[str, LaunchSpec], Isolation], tmp_path: Path
) -> None:
    report = probe(isolate("bubblewrap", SPEC), tmp_path / "private", LIMITS)
    assert set(report["tests"].values()) == {"refused"}, report
    assert {"sealed_file", "loopback_ipv4", "other_processes", "privileges", "descriptors"} <= set(report["tests"])
    assert passed(report)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "private").iterdir()) == [], "the probe's canary does not stay"


def test_without_a_sandbox_nothing_is_tested_and_nothing_passes(tmp_path: Path) -> None:
    report = probe(NoIsolation(), tmp_path / "private", LIMITS)
    assert report == {"schema": "dcpflow.isolation-probe/1", "backend": "none", "tests": {}}
    assert not passed(report)


class Leaky(NoIsolation):
    """No sandbox at all, under the name of one."""

    backend = "bubblewrap"


class Silent(NoIsolation):
    """A sandbox in which the probe says something else than it should."""

    backend = "bubblewrap"

    def __init__(self, says: str) -> None:
        self.says = says

    def start(self, spec: LaunchSpec, limits: Any, handed: int | None = None) -> sandbox.Running:
        return super().start(replace(spec, arguments=("/bin/sh", "-c", self.says), files={}), limits)


def test_the_probe_finds_what_is_open(tmp_path: Path) -> None:
    report = probe(Leaky(), tmp_path / "private", LIMITS)
    for name in ("loopback_ipv4", "other_processes", "environment"):
        assert report["tests"][name] == "open", report
    assert not passed(report)


@pytest.mark.parametrize(
    "says",
    [
        "true",
        "echo nonsense",
        "echo '[]'",
        "echo '{}'",
        'echo \'{"sealed_file": "maybe"}\'',
        "exit 3",
        "kill -9 $$",
        "sleep 5",
    ],
)
def test_a_probe_that_cannot_report_does_not_pass(tmp_path: Path, says: str) -> None:
    report = probe(Silent(says), tmp_path / "private", LIMITS | {"wall_seconds": 0.3})
    assert report["tests"] == {}
    assert not passed(report)


# --- which sandbox -----------------------------------------------------------------------------------------


def test_without_any_sandbox_the_error_says_what_to_install_and_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "programs", lambda _: [])
    with pytest.raises(UsageError) as caught:
        open_isolation("bubblewrap", (SPEC,), works=lambda _: True)
    for part in ("no bwrap program was found", "apt install bubblewrap", "make audit ISOLATION=none", "inconclusive"):
        assert part in str(caught.value)


@pytest.mark.parametrize("path", ["/bin/false", "/nowhere/bwrap", "/etc/hostname"])
def test_a_program_that_does_not_work_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str) -> None:
    broken = Program(Path(path), Path(path).parent)
    monkeypatch.setattr(sandbox, "programs", lambda _: [broken])
    with pytest.raises(UsageError, match=path):
        open_isolation("bubblewrap", (SPEC,), works=lambda one: passed(probe(one, tmp_path / "private", LIMITS)))


def test_the_first_program_whose_probe_passes_is_taken(
    backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if backend == "none":
        pytest.skip("no bubblewrap works on this machine")
    found = [Program(Path("/bin/false"), Path("/bin")), *sandbox.programs()]
    monkeypatch.setattr(sandbox, "programs", lambda _: found)
    tried: list[bool] = []

    def works(isolation: Isolation) -> bool:
        tried.append(passed(probe(isolation, tmp_path / "private", LIMITS)))
        return tried[-1]

    open_isolation("bubblewrap", (SPEC,), works)
    assert tried[0] is False
    assert tried[-1] is True


def test_no_isolation_is_had_only_where_it_was_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_isolation("none", (SPEC,), works=lambda _: False).backend == "none"
    monkeypatch.setattr(sandbox, "programs", lambda _: [])
    with pytest.raises(UsageError):
        open_isolation("bubblewrap", (SPEC,), works=lambda _: True)


# --- what it leaves behind ---------------------------------------------------------------------------------


def test_agents_that_have_ended_do_not_count_against_the_next_one_s_processes(
    isolate: Callable[[str, LaunchSpec], Isolation], write_agent: Callable[[str], LaunchSpec]
) -> None:
    spec = write_agent("os.write(1, b'x'); read()")
    for number in range(8):
        running = isolate("bubblewrap", spec).start(spec, LIMITS | {"processes": 6})
        assert running.process.stdout
        said = running.process.stdout.read(1)
        running.stop()
        assert said == b"x", f"agent {number} could not start"


def test_a_sandbox_that_is_killed_from_outside_is_told_from_an_agent_that_kills_itself(
    isolate: Callable[[str, LaunchSpec], Isolation], write_agent: Callable[[str], LaunchSpec]
) -> None:
    found = {}
    for name, body in {"outside": "read()", "itself": "os.kill(os.getpid(), 9)", "its group": "os.kill(-1, 9)"}.items():
        spec = write_agent("os.write(1, b'x')\n" + body)
        running = isolate("bubblewrap", spec).start(spec, LIMITS)
        assert running.process.stdout
        running.process.stdout.read(1)
        if name == "outside":
            running.process.kill()
        running.process.wait(timeout=10)
        found[name] = running.killed_outside()
        running.stop()
    assert found == {"outside": True, "itself": False, "its group": False}


def test_nothing_of_a_sandbox_stays_open_in_this_process(talk: LetTalk) -> None:
    talk("commit(); ask('finish')")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        talk("commit(); ask('finish')")
        talk("os._exit(1)")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# --- as an ordinary user -----------------------------------------------------------------------------------


@pytest.mark.skipif(NESTED or os.geteuid() != 0, reason="these tests run as an ordinary user already")
def test_all_of_this_holds_for_an_ordinary_user(run_unprivileged: Callable[..., CompletedProcess[str]]) -> None:
    chosen = "an_agent and sandbox_holds or probe_tries or first_program"
    done = run_unprivileged(["-m", "pytest", "-p", "no:cacheprovider", "-rs", "-k", chosen, __file__])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert done.stdout.count("no bubblewrap works") == 0, done.stdout[-2000:]
    assert " passed" in done.stdout


# --- what is left of it ------------------------------------------------------------------------------------


def test_a_sandbox_that_is_killed_as_it_begins_leaves_no_process_behind(tmp_path: Path) -> None:
    """As bubblewrap does, the process inside waits for one outside that is no more, and that had not reported it."""
    seconds = f"600.{os.getpid()}"
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/bash\n"
        'while test "$1" != --json-status-fd; do shift; done\n'
        f'( eval "exec $2>&-"; exec /usr/bin/sleep {seconds} ) &\n'
        "kill -9 $$\n"
    )
    program.chmod(0o755)
    tmp_path.chmod(0o755)
    running = sandbox.Bubblewrap(Program(program, tmp_path), []).start(SPEC, LIMITS)
    running.stop()
    running.close_workspace()
    assert running.killed_outside()
    assert not [p.pid for p in psutil.process_iter(["cmdline"]) if seconds in (p.info["cmdline"] or [])]
