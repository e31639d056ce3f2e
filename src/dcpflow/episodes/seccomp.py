"""The system calls that no agent needs, as a seccomp filter for the sandbox.

The filter is assembled here, in classic BPF, and handed to bubblewrap as bytes. The alternative, libseccomp, is a
library of the system that PyPI does not carry, and a filter that is missing on one machine and present on another would
make two sandboxes of one name; a table of numbers and five kinds of instruction need no dependency, and can be run
through an interpreter in a test, for both machines, on either.

It is a list of what is refused. Everything else is left to namespaces, missing capabilities and limits: an agent may
be any program, and a list of what is allowed would break with the next C library. Refused is what reaches around them:
other address families (vsock reaches the machine's own host), what touches other processes, kernel interfaces that have
been ways out, new namespaces, memory that no limit counts, and files that would be privileged outside.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

EPERM, ENOSYS, EAFNOSUPPORT = errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT
ARCHITECTURES: Final[Mapping[str, int]] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_NUMBERS: Final = 0x40000000
"""On x86_64, numbers from here on are calls of the x32 ABI, which would pass by every rule."""

LOAD, RETURN = 0x20, 0x06
JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT = 0x15, 0x35, 0x45
ALLOW, ERRNO, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16

FAMILIES: Final = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
NEW_NAMESPACES: Final = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
SET_ID_BITS: Final = 0o6000
DEVICE_BIT: Final = 0o020000
"""Character and block devices have it in common, and of what mknod can make only they have it."""
MAKES_A_FILE: Final = 0o100 | 0o20000000
"""O_CREAT, or the bit of O_TMPFILE: otherwise open's mode means nothing."""
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
DEFAULT_PERSONALITIES: Final = (0, 0xFFFFFFFF)

NUMBERS: Final[Mapping[str, tuple[int | None, int | None]]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "creat": (85, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "semget": (64, 190),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
"""Numbers of the calls on x86_64 and on aarch64, which lacks some."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What an argument must be for a call to be refused.

    Attributes:
        argument: which one, from 0.
        values: refused are these, or, where ``others`` is set, all but these; with one value and ``bits``, whatever
            has any of its bits.
        bits: see ``values``.
        others: see ``values``.
    """

    argument: int
    values: tuple[int, ...]
    bits: bool = False
    others: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """Calls that are refused where all conditions hold.

    Attributes:
        error: what the caller is told. ENOSYS where a library then does without the call.
        names: the calls.
        conditions: on their arguments.
    """

    error: int
    names: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()


def _bits(argument: int, mask: int) -> Condition:
    return Condition(argument, (mask,), bits=True)


RULES: Final = (
    Rule(
        EPERM,
        (
            # other processes and their memory
            *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd"),
            # kernel interfaces that have been ways out
            *("keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd"),
            *("lookup_dcookie", "nfsservctl"),
            # file systems and namespaces
            *("mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree"),
            *("open_tree_attr", "move_mount", "mount_setattr", "unshare", "setns", "fanotify_init"),
            *("name_to_handle_at", "open_by_handle_at", "quotactl", "quotactl_fd"),
            # the machine itself
            *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot"),
            *("swapon", "swapoff", "acct", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime"),
            *("sethostname", "setdomainname", "syslog", "vhangup", "iopl", "ioperm"),
        ),
    ),
    # memory that stays when no process has it mapped, so that no limit counts it
    Rule(ENOSYS, ("memfd_create", "memfd_secret", "shmget", "msgget", "semget", "mq_open")),
    # their arguments lie in memory, where a filter cannot look; every library does without them
    Rule(ENOSYS, ("clone3", "openat2", "io_uring_setup", "io_uring_enter", "io_uring_register")),
    Rule(EPERM, ("clone",), (_bits(0, NEW_NAMESPACES),)),
    Rule(EAFNOSUPPORT, ("socket", "socketpair"), (Condition(0, FAMILIES, others=True),)),
    Rule(EPERM, ("personality",), (Condition(0, DEFAULT_PERSONALITIES, others=True),)),
    Rule(EPERM, ("ioctl",), (Condition(1, (TIOCSTI, TIOCLINUX)),)),
    # a file with these bits would give its owner's rights to whoever runs it outside
    Rule(EPERM, ("chmod", "fchmod", "creat"), (_bits(1, SET_ID_BITS),)),
    Rule(EPERM, ("fchmodat", "fchmodat2"), (_bits(2, SET_ID_BITS),)),
    Rule(EPERM, ("open",), (_bits(1, MAKES_A_FILE), _bits(2, SET_ID_BITS))),
    Rule(EPERM, ("openat",), (_bits(2, MAKES_A_FILE), _bits(3, SET_ID_BITS))),
    Rule(EPERM, ("mknod",), (_bits(1, DEVICE_BIT | SET_ID_BITS),)),
    Rule(EPERM, ("mknodat",), (_bits(2, DEVICE_BIT | SET_ID_BITS),)),
)

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand."""


def program(machine: str = platform.machine()) -> bytes:
    """The filter for a machine, as an array of ``struct sock_filter``.

    Args:
        machine: as ``uname -m`` names it.

    Raises:
        OSError: there is no table of numbers for it.
    """
    if machine not in ARCHITECTURES:
        raise OSError(ENOSYS, f"there is no list of system calls for machines of the kind {machine}")
    column = list(ARCHITECTURES).index(machine)
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (JUMP_EQUAL, 1, 0, ARCHITECTURES[machine]),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NUMBER_AT),
    ]
    if machine == "x86_64":
        code += [(JUMP_AT_LEAST, 0, 1, X32_NUMBERS), (RETURN, 0, 0, ERRNO | ENOSYS)]
    for rule in RULES:
        numbers = [number for name in rule.names if (number := NUMBERS[name][column]) is not None]
        code += _refusing(numbers, _unless_all(rule.conditions, ERRNO | rule.error))
    code.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def _refusing(numbers: Iterable[int], then: list[Instruction]) -> list[Instruction]:
    """Go on with ``then`` for these calls, and behind it for all others."""
    listed = list(numbers)
    last = len(listed) - 1
    return [
        (JUMP_EQUAL, last - place, len(then) if place == last else 0, number) for place, number in enumerate(listed)
    ] + (then if listed else [])


def _unless_all(conditions: Iterable[Condition], answer: int) -> list[Instruction]:
    """Return the answer if all conditions hold, and allow the call if one does not."""
    code: list[Instruction] = [(RETURN, 0, 0, answer)]
    allow = 1  # how far behind the first instruction of ``code`` the one that allows stands
    for condition in reversed(tuple(conditions)):
        tests = len(condition.values)
        kind = JUMP_ANY_BIT if condition.bits else JUMP_EQUAL
        step: list[Instruction] = [(LOAD, 0, 0, ARGUMENTS_AT + 8 * condition.argument)]
        for place, value in enumerate(condition.values):
            left = tests - 1 - place
            on_match, on_miss = left, 0 if left else allow
            if condition.others:
                on_match, on_miss = left + allow, 0
            step.append((kind, on_match, on_miss, value))
        code = step + code
        allow += len(step)
    return [*code, (RETURN, 0, 0, ALLOW)] if allow > 1 else code
