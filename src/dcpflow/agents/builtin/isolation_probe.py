"""Tries what an escaping agent would try, and reports what was refused: the evidence for the isolation check.

Reads one JSON line {"canary": path of a sealed file, "port": a listening port of the host's loopback} and writes one
JSON line {test: "refused" or "open"}. Anything "open" means that the sandbox does not hold.
"""

import json
import os
import socket
import sys


def refused(attempt):
    """Run the attempt: "open" if it got through."""
    try:
        return "open" if attempt() else "refused"
    except OSError:
        return "refused"


def connects(family, address):
    """Whether a connection to the address can be made."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        probe.connect(address)
    return True


def writes(path):
    """Whether a file can be made there."""
    with open(path, "w", encoding="ascii") as file:
        file.write("x")
    os.unlink(path)
    return True


def other_processes():
    """Whether processes that are not of this sandbox can be seen."""
    mine = {1, os.getpid(), os.getppid()}
    return any(int(name) not in mine for name in os.listdir("/proc") if name.isdigit())


def inherited_descriptors():
    """Whether anything but standard input, output and error is open (the listing itself is one more)."""
    return len(os.listdir("/proc/self/fd")) > 4


task = json.loads(sys.stdin.readline())
report = {
    "sealed_file": refused(lambda: open(task["canary"], "rb").read()),
    "sealed_folder": refused(lambda: os.listdir(os.path.dirname(task["canary"]))),
    "loopback_ipv4": refused(lambda: connects(socket.AF_INET, ("127.0.0.1", task["port"]))),
    "other_interfaces": refused(lambda: any(name != "lo" for _, name in socket.if_nameindex())),
    "write_outside": refused(lambda: writes("/usr/probe") or writes("/probe")),
    "environment": refused(lambda: set(os.environ) - {"PWD", "LC_CTYPE"}),
    "parent_environment": refused(lambda: open("/proc/1/environ", "rb").read().strip(b"\0").replace(b"PWD=/ws", b"")),
    "other_processes": refused(other_processes),
    "descriptors": refused(inherited_descriptors),
    "terminal": refused(lambda: open("/dev/tty", "rb")),
    "kernel_settings": refused(lambda: open("/proc/sys/kernel/core_pattern", "r+b")),
    "privileges": refused(
        lambda: os.setuid(0) or open("/proc/self/status").read().find("CapEff:\t0000000000000000") < 0
    ),
}
sys.stdout.write(json.dumps(report) + "\n")
