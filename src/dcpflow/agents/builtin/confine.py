"""Gives up what an agent must not have, and becomes the agent: for sandboxes that cannot do this from outside.

Arguments: a file with a filter of system calls, limits as JSON [[kind, soft, hard], …], environment variables as
a JSON object, and the agent's command.
"""

import ctypes
import json
import os
import resource
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


class Program(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


rules, limits, environment, *command = sys.argv[1:]
with open(rules, "rb") as file:
    code = file.read()
libc = ctypes.CDLL(None, use_errno=True)
program = Program(len(code) // 8, code)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
    PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)
):
    sys.exit(f"the filter of system calls is refused: {os.strerror(ctypes.get_errno())}")
for kind, soft, hard in json.loads(limits):
    allowed = resource.getrlimit(kind)[1]
    if allowed != resource.RLIM_INFINITY:
        soft, hard = min(soft, allowed), min(hard, allowed)
    resource.setrlimit(kind, (soft, hard))
os.execvpe(command[0], command, {"PWD": os.getcwd(), **json.loads(environment)})
