"""The filter of system calls, run through an interpreter for both kinds of machine."""

from __future__ import annotations

import errno
import platform
import re
import socket
import struct
from pathlib import Path

import pytest

from dcpflow.episodes import seccomp
from dcpflow.episodes.seccomp import ARCHITECTURES, NUMBERS, program

MACHINES = list(ARCHITECTURES)
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
ALLOWED = "allowed"


def number(machine: str, name: str) -> int:
    found = NUMBERS[name][MACHINES.index(machine)]
    assert found is not None
    return found


def asked(machine: str, call: int, *arguments: int, architecture: int | None = None) -> str | int:
    """What the filter says to a call: ``allowed``, ``killed``, or the error's number."""
    words = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<iIQ6Q", call, architecture or ARCHITECTURES[machine], 0, *words)
    code = list(struct.iter_unpack("<HBBI", program(machine)))
    at = accumulator = 0
    while True:
        kind, if_true, if_false, operand = code[at]
        at += 1
        if kind == seccomp.LOAD:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif kind == seccomp.RETURN:
            if operand == seccomp.ALLOW:
                return ALLOWED
            return "killed" if operand == seccomp.KILL_PROCESS else operand & 0xFFFF
        else:
            holds = {
                seccomp.JUMP_EQUAL: accumulator == operand,
                seccomp.JUMP_AT_LEAST: accumulator >= operand,
                seccomp.JUMP_ANY_BIT: bool(accumulator & operand),
            }[kind]
            at += if_true if holds else if_false


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernel_s_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers are not installed")
    found = re.findall(r"#define\s+__NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text())
    known = {name: int(value) for name, value in reversed(found)}
    for name, numbers in NUMBERS.items():
        ours = numbers[MACHINES.index(machine)]
        if name in known:
            assert ours == known[name], name
        elif name not in {"fchmodat2", "open_tree_attr"}:  # newer than some headers
            assert ours is None, name


@pytest.mark.parametrize("machine", MACHINES)
def test_no_number_stands_in_two_rules(machine: str) -> None:
    names = [name for rule in seccomp.RULES for name in rule.names]
    assert sorted(names) == sorted(NUMBERS)
    assert len(program(machine)) // 8 < 4096


@pytest.mark.parametrize("machine", MACHINES)
def test_what_no_agent_needs_is_refused_whatever_its_arguments(machine: str) -> None:
    for rule in seccomp.RULES:
        if rule.conditions:
            continue
        for name in rule.names:
            if NUMBERS[name][MACHINES.index(machine)] is not None:
                for argument in (0, 1, 0xFFFFFFFF):
                    assert asked(machine, number(machine, name), argument) == rule.error, name


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "allowed", "refused", "error"),
    [
        ("socket", [(1, 1), (2, 1), (10, 2)], [(40, 1), (16, 3), (17, 3), (31, 1), (38, 5), (0, 0)], 97),
        ("socketpair", [(1, 1)], [(40, 1), (16, 1)], 97),
        ("clone", [(0x11,), (0x3D0F00,), (0x1200011,)], [(1 << bit,) for bit in (17, 25, 26, 27, 28, 29, 30)], 1),
        ("personality", [(0xFFFFFFFF,), (0,)], [(8,), (0x40000,), (0x400000,)], 1),
        ("ioctl", [(0, 0x5401), (0, 0x5413)], [(0, 0x5412), (0, 0x541C)], 1),
        ("fchmod", [(3, 0o755), (3, 0o1777)], [(3, 0o4755), (3, 0o2755), (3, 0o6000)], 1),
        ("fchmodat", [(3, 0, 0o644)], [(3, 0, 0o4755)], 1),
        ("fchmodat2", [(3, 0, 0o644, 0)], [(3, 0, 0o2644, 0)], 1),
        ("openat", [(3, 0, 0o101, 0o644), (3, 0, 0, 0o4755), (3, 0, 2, 0o6000)], [(3, 0, 0o101, 0o4755)], 1),
        ("openat", [(3, 0, 0o20200002, 0o600)], [(3, 0, 0o20200002, 0o4600)], 1),
        ("mknodat", [(3, 0, 0o100644), (3, 0, 0o010644), (3, 0, 0o140644)], [(3, 0, 0o020644), (3, 0, 0o060644)], 1),
    ],
)
def test_what_depends_on_arguments_is_refused_by_them(
    machine: str, name: str, allowed: list[tuple[int, ...]], refused: list[tuple[int, ...]], error: int
) -> None:
    call = number(machine, name)
    assert [asked(machine, call, *arguments) for arguments in allowed] == [ALLOWED] * len(allowed)
    assert [asked(machine, call, *arguments) for arguments in refused] == [error] * len(refused)


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("open", [(0, 0o101, 0o644), (0, 0, 0o4755)], [(0, 0o101, 0o4755), (0, 0o101, 0o2755)]),
        ("creat", [(0, 0o644)], [(0, 0o4755)]),
        ("chmod", [(0, 0o777)], [(0, 0o4777)]),
        ("mknod", [(0, 0o100600)], [(0, 0o020600), (0, 0o060600), (0, 0o104755)]),
    ],
)
def test_calls_that_only_one_machine_has_are_looked_at_too(
    name: str, allowed: list[tuple[int, ...]], refused: list[tuple[int, ...]]
) -> None:
    call = number("x86_64", name)
    assert [asked("x86_64", call, *arguments) for arguments in allowed] == [ALLOWED] * len(allowed)
    assert [asked("x86_64", call, *arguments) for arguments in refused] == [errno.EPERM] * len(refused)
    assert NUMBERS[name][1] is None


@pytest.mark.parametrize("machine", MACHINES)
def test_what_agents_do_all_day_is_allowed(machine: str) -> None:
    refused = {numbers[MACHINES.index(machine)] for numbers in NUMBERS.values()}
    others = [call for call in range(470) if call not in refused]
    assert {asked(machine, call, 0xFFFFFFFF) for call in others} == {ALLOWED}


def test_other_ways_to_call_the_kernel_are_closed() -> None:
    assert asked("x86_64", 26, architecture=0x40000003) == "killed", "the 32-bit calls of i386"
    assert asked("x86_64", seccomp.X32_NUMBERS + 521) == errno.ENOSYS, "the calls of x32"
    assert asked("x86_64", -1 & 0x7FFFFFFF) == errno.ENOSYS
    assert asked("aarch64", 26, architecture=0x40000028) == "killed", "the 32-bit calls of arm"
    assert asked("aarch64", 198, architecture=ARCHITECTURES["x86_64"]) == "killed"


def test_the_families_are_those_that_programs_speak_to_themselves_with() -> None:
    assert seccomp.FAMILIES == (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)


def test_a_machine_without_a_list_has_no_sandbox() -> None:
    with pytest.raises(OSError, match="riscv64"):
        program("riscv64")
    assert platform.machine() not in MACHINES or program() == program(platform.machine())
