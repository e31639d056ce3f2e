"""Tries what an escaping agent would try, and reports what was refused: the evidence for the isolation check.

Reads one JSON line {"canary": path of a sealed file, "port": a listening port of the host's loopback, "workspace_mb":
the registered limit} and writes one JSON line {test: "refused" or "open"}. Anything "open" means that the sandbox does
not hold.
"""

import contextlib
import ctypes
import errno
import json
import os
import resource
import socket
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
AF_NETLINK, AF_PACKET, AF_VSOCK = 16, 17, 40
NEW_USER, NEW_NET = 0x10000000, 0x40000000
FUTURE = 0x7FFFFFFF
# by what uname calls the machine; all are called with arguments that would be refused anyway, but otherwise
CALLS = {
    "x86_64": {
        "ptrace": (101, 16, FUTURE),
        "process_vm_readv": (310, FUTURE, 0, 0, 0, 0, 0),
        "pidfd_getfd": (438, FUTURE, 0, 0),
        "keyctl": (250, 9999),
        "bpf": (321, 9999, 0, 0),
        "perf_event_open": (298, 0, 0, 0, 0, FUTURE),
        "userfaultfd": (323, FUTURE),
        "io_uring_setup": (425, 0, 0),
        "fsopen": (430, 0, 0),
        "name_to_handle_at": (303, -1, 0, 0, 0, 0),
        "clone3": (435, 0, 0),
        "openat2": (437, -1, 0, 0, 0),
    },
    "aarch64": {
        "ptrace": (117, 16, FUTURE),
        "process_vm_readv": (270, FUTURE, 0, 0, 0, 0, 0),
        "pidfd_getfd": (438, FUTURE, 0, 0),
        "keyctl": (219, 9999),
        "bpf": (280, 9999, 0, 0),
        "perf_event_open": (241, 0, 0, 0, 0, FUTURE),
        "userfaultfd": (282, FUTURE),
        "io_uring_setup": (425, 0, 0),
        "fsopen": (430, 0, 0),
        "name_to_handle_at": (264, -1, 0, 0, 0, 0),
        "clone3": (435, 0, 0),
        "openat2": (437, -1, 0, 0, 0),
    },
}


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


def other_interfaces():
    """Whether any network but the sandbox's own loopback is there."""
    with open("/proc/net/dev", encoding="ascii") as file:
        return any(line.split(":")[0].strip() != "lo" for line in file.readlines()[2:])


def makes(family):
    """Whether a socket of this family can be made."""
    kinds = {AF_VSOCK: socket.SOCK_STREAM, AF_PACKET: socket.SOCK_RAW}
    socket.socket(family, kinds.get(family, socket.SOCK_DGRAM)).close()
    return True


def answered(number, *arguments):
    """Whether the kernel looks at a system call at all, instead of refusing it."""
    ctypes.set_errno(0)
    result = LIBC.syscall(*(ctypes.c_long(word) for word in (number, *arguments)))
    return result >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS)


def kernel_interfaces():
    """Whether any system call that no agent needs is answered."""
    return any(answered(*call) for call in CALLS[os.uname().machine].values())


def setuid_file():
    """Whether a file can be made that would give its owner's rights to whoever runs it."""
    flags = os.O_CREAT | os.O_WRONLY
    try:
        os.close(os.open("/ws/made", flags, 0o4755))
    except OSError:
        os.close(os.open("/ws/made", flags, 0o755))
    with contextlib.suppress(OSError):
        os.chmod("/ws/made", 0o4755)
    return os.stat("/ws/made").st_mode & 0o6000


def device_node():
    """Whether a device can be made, here that of the memory."""
    os.mknod("/ws/node", 0o020600, os.makedev(1, 1))
    return True


def uncounted_memory():
    """Whether memory can be had that no process has mapped, so that no limit counts it."""
    return LIBC.shmget(0, 4096, 0o1600) >= 0 or os.memfd_create("x") >= 0


def roomy():
    """Whether more can be kept in files than is allowed."""
    for folder in ("/ws", "/tmp", "/dev/shm"):
        told = os.statvfs(folder)
        if told.f_blocks * told.f_frsize > (task["workspace_mb"] + 1) << 20:
            return True
    return False


def unlimited():
    """Whether the kernel sets no limit to what one process may use."""
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)
    return any(resource.getrlimit(kind)[1] == resource.RLIM_INFINITY for kind in kinds)


task = json.loads(sys.stdin.readline())
report = {
    "sealed_file": refused(lambda: open(task["canary"], "rb").read()),
    "sealed_folder": refused(lambda: os.listdir(os.path.dirname(task["canary"]))),
    "loopback_ipv4": refused(lambda: connects(socket.AF_INET, ("127.0.0.1", task["port"]))),
    "other_interfaces": refused(other_interfaces),
    "vsock": refused(lambda: makes(AF_VSOCK)),
    "netlink": refused(lambda: makes(AF_NETLINK)),
    "packet_socket": refused(lambda: makes(AF_PACKET)),
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
    "kernel_interfaces": refused(kernel_interfaces),
    "setuid_file": refused(setuid_file),
    "device_node": refused(device_node),
    "uncounted_memory": refused(uncounted_memory),
    "roomy_workspace": refused(roomy),
    "unlimited_process": refused(unlimited),
    "new_namespaces": refused(lambda: LIBC.unshare(NEW_USER) == 0 or LIBC.unshare(NEW_NET) == 0),
}
sys.stdout.write(json.dumps(report) + "\n")
