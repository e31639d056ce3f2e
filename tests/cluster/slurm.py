"""A SLURM of one node on this machine's loopback, from Debian's packages, without systemd; all in one folder.

`python tests/cluster/slurm.py up FOLDER` brings it up, `... down FOLDER` ends what was started there, by the process
numbers in that folder. Beyond the folder and the packages there is one link, from where SLURM's commands look for their
configuration; a machine that has a SLURM of its own is left alone. Root is needed, for the packages and since slurmd
starts jobs.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

PACKAGES: Final = {
    "munge": "munged",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurm-client": "sbatch",
    "slurmdbd": "slurmdbd",
    "mariadb-server-core": "mariadbd",
    "mariadb-client-core": "mariadb",
}
"""What is installed, and the program that shows that it is there."""
NO_SERVICES: Final = Path("/usr/sbin/policy-rc.d")
"""Where Debian's packages ask whether they may start their services."""
CONFIGURATION: Final = Path("/etc/slurm/slurm.conf")
"""Where SLURM's commands look for it. The variable SLURM_CONF is no way: the plugin's jobs lose it."""
PATIENCE: Final = 60.0
GRACE: Final = 10.0

# Each line below stands for a failure that was seen without it, or keeps a listener on the loopback.
SLURM_CONF: Final = """
ClusterName=audit
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=256
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=100000,bf_interval=5
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
ReturnToService=2
MinJobAge=300
KillWait=2
InactiveLimit=0
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={ports[2]}
AccountingStoragePass={folder}/munge.socket
AccountingStoreFlags=job_comment
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES DefaultTime=60 MaxTime=1-0 State=UP
"""

SLURMDBD_CONF: Final = """
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={ports[2]}
CommunicationParameters=NoInAddrAny
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageLoc=slurm_acct_db
StorageUser=slurm
StoragePass={password}
"""

DATABASE: Final = """
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS slurm@localhost;
ALTER USER slurm@localhost IDENTIFIED BY '{password}';
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
"""


class ClusterError(Exception):
    """The cluster cannot be brought up; the text says why."""


def missing() -> str:
    """Why no cluster can be brought up on this machine; empty where it can."""
    if os.geteuid() != 0:
        return "root is needed"
    if all(map(_program, PACKAGES.values())):
        return ""
    if not shutil.which("apt-get"):
        return "SLURM is not there, and this is no Debian"
    found = subprocess.run(["apt-cache", "--quiet", "policy", *PACKAGES], capture_output=True, text=True, check=False)
    if found.stdout.count("Candidate: ") - found.stdout.count("Candidate: (none)") < len(PACKAGES):
        updated = subprocess.run(["apt-get", "-qq", "update"], capture_output=True, check=False)
        return "Debian's packages cannot be reached" if updated.returncode else ""
    return ""


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")


def install() -> None:
    """Install what is not there yet; no service of the packages is started."""
    absent = [package for package, program in PACKAGES.items() if not _program(program)]
    if not absent:
        return
    forbidding = not NO_SERVICES.exists()
    if forbidding:
        NO_SERVICES.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
        NO_SERVICES.chmod(0o755)
    try:
        for words in (["update"], ["install", "--yes", "--no-install-recommends", *absent]):
            _carry_out(
                ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120", *words],
                {**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            )
    finally:
        if forbidding:
            NO_SERVICES.unlink()


@dataclass(frozen=True)
class Cluster:
    """One cluster.

    Attributes:
        folder: all that it keeps; its path must be short, since sockets lie there.
    """

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which its parts and commands are found."""
        return {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/usr/bin"}

    def ask(self, *command: str) -> str:
        """What a command of SLURM prints."""
        return _carry_out(list(command), self.environment)

    def up(self) -> None:
        """Bring it up, each part after the one that it needs; what an earlier attempt has left is ended first.

        Raises:
            ClusterError: a part does not come up; its log is quoted.
        """
        self.down()
        password = self._write()
        self._link()
        munge = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid", "seed-file": "munge.seed"}
        where = [f"--{option}={self.folder / name}" for option, name in munge.items()]
        self._start(["munged", "--force", *where, f"--log-file={self.folder / 'munged.log'}"])
        self._wait("munged", (self.folder / "munge.socket").exists)
        self._database(password)
        self._start(["slurmdbd"])
        self._wait("slurmdbd", lambda: self._answers("sacctmgr", "--noheader", "list", "cluster"))
        self._start(["slurmctld", "-c"])
        self._wait("slurmctld", lambda: self._answers("scontrol", "ping"))
        self._start(["slurmd", "-N", socket.gethostname().partition(".")[0]])
        self._wait("slurmd", lambda: self.ask("sinfo", "--noheader", "--format=%T").strip() == "idle")

    def down(self) -> None:
        """End its jobs, then its parts, the youngest first, each by its own process number."""
        if self._process("slurmctld"):
            with contextlib.suppress(ClusterError):
                self.ask("scancel", "--full", "--user=root")
                self._wait("slurmctld", lambda: not self.ask("squeue", "--noheader").strip())
        for name in ("slurmd", "slurmctld", "slurmdbd", "mariadbd", "munged"):
            if process := self._process(name):
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(psutil.TimeoutExpired):
                    process.wait(GRACE)
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    process.kill()
            (self.folder / f"{name}.pid").unlink(missing_ok=True)
        if CONFIGURATION.is_symlink() and CONFIGURATION.readlink() == self.folder / "slurm.conf":
            for path in self._links():
                path.unlink(missing_ok=True)

    def _link(self) -> None:
        """Let SLURM's commands find it."""
        if CONFIGURATION.is_symlink():
            # left by a cluster whose folder is gone, or that is down
            if Cluster(CONFIGURATION.readlink().parent)._process("slurmctld"):
                raise ClusterError(f"another cluster is up: {CONFIGURATION.readlink().parent}")
        elif CONFIGURATION.exists():
            raise ClusterError(f"this machine has a SLURM of its own: {CONFIGURATION}")
        CONFIGURATION.parent.mkdir(parents=True, exist_ok=True)
        for path in self._links():
            path.unlink(missing_ok=True)
            path.symlink_to(self.folder / path.name)

    @staticmethod
    def _links() -> list[Path]:
        return [CONFIGURATION.with_name(name) for name in ("slurm.conf", "slurmdbd.conf", "cgroup.conf")]

    def _write(self) -> str:
        """Write keys and configuration; returns the database's password."""
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        password = secrets.token_hex(16)
        facts = {
            "folder": self.folder,
            "host": socket.gethostname().partition(".")[0],
            "ports": _free_ports(3),
            # one more than there are, since jobs that only wait take one, too
            "cpus": (os.cpu_count() or 1) + 1,
            "memory": psutil.virtual_memory().total * 9 // 10 // 2**20,
            "password": password,
        }
        for name, text in (("slurm.conf", SLURM_CONF), ("slurmdbd.conf", SLURMDBD_CONF)):
            (self.folder / name).write_text(text.format(**facts), encoding="utf-8")
        (self.folder / "slurmdbd.conf").chmod(0o600)
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n", encoding="ascii")
        (self.folder / "munge.key").write_bytes(secrets.token_bytes(1024))
        (self.folder / "munge.key").chmod(0o400)
        return password

    def _database(self, password: str) -> None:
        data, link = self.folder / "database", self.folder / "mysql.sock"
        owned = ["--no-defaults", "--user=root", f"--datadir={data}"]
        _carry_out(["mariadb-install-db", *owned, "--auth-root-authentication-method=socket", "--skip-test-db"])
        files = [
            f"--socket={link}",
            f"--pid-file={self.folder}/mariadbd.pid",
            f"--log-error={self.folder}/mariadbd.log",
        ]
        sizes = ["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=32M", "--innodb-lock-wait-timeout=900"]
        speed = ["--skip-networking", "--innodb-flush-log-at-trx-commit=0"]
        self._start(["mariadbd", *owned, *files, *sizes, *speed])
        client = ["mariadb", "--no-defaults", "--user=root", f"--socket={link}", "--execute"]
        self._wait("mariadbd", lambda: self._answers(*client, "SELECT 1"))
        _carry_out([*client, DATABASE.format(password=password)])

    def _start(self, command: list[str]) -> None:
        """Start a part, in a session of its own; all but the database's server go on by themselves."""
        with (self.folder / f"{command[0]}.out").open("wb") as output:
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=self.environment | {"MYSQL_UNIX_PORT": str(self.folder / "mysql.sock")},
            )

    def _process(self, name: str) -> psutil.Process | None:
        """The process that a part's file names, if it still is that part."""
        with contextlib.suppress(FileNotFoundError, ValueError, psutil.NoSuchProcess):
            process = psutil.Process(int((self.folder / f"{name}.pid").read_text(encoding="ascii")))
            if process.name() == name and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None

    def _answers(self, *command: str) -> bool:
        with contextlib.suppress(ClusterError):
            self.ask(*command)
            return True
        return False

    def _wait(self, name: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                logs = (self.folder / f"{name}{end}" for end in (".out", ".log"))
                told = "\n".join(path.read_text("utf-8", "replace")[-2_000:] for path in logs if path.exists())
                raise ClusterError(f"{name} does not come up:\n{told}")
            time.sleep(0.1)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster that is up, and is taken down in the end, whatever happened in between."""
    one = Cluster(folder)
    try:
        one.up()
        yield one
    finally:
        one.down()


def _free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody listens at."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in found]


def _carry_out(command: list[str], environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise ClusterError(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}")
    return done.stdout


def main() -> None:
    """What the module says at its top; `check` alone says why a cluster cannot be brought up."""
    match sys.argv[1:]:
        case ["check"]:
            if reason := missing():
                raise SystemExit(reason)
        case ["up", folder]:
            install()
            Cluster(Path(folder)).up()
        case ["down", folder]:
            Cluster(Path(folder)).down()
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
