"""Opens an agent's doors inside its sandbox, hands them out, and becomes the agent.

Arguments: the number of an inherited Unix socket, the names of the doors joined by commas, the agent's environment
variables as a JSON object, and its command. A door is a listening socket of the sandbox's own loopback; connections to
it are taken outside. Of all that nothing stays in the agent but the addresses, which replace ``{model}`` and ``{mcp}``.
"""

import json
import os
import socket
import sys

PLACES = {"model": "http://127.0.0.1:{}", "mcp": "http://127.0.0.1:{}/mcp"}
KEPT = ("LANG", "PATH", "PWD")

number, names, environment, *command = sys.argv[1:]
out = socket.socket(fileno=int(number))
out.set_inheritable(False)  # it closes as this becomes the agent, which tells the other side that it has
doors = {name: socket.create_server(("127.0.0.1", 0)) for name in names.split(",")}
places = {f"{{{name}}}": PLACES[name].format(door.getsockname()[1]) for name, door in doors.items()}
socket.send_fds(out, [b"doors"], [door.fileno() for door in doors.values()])


def placed(text):
    """A text with the addresses of the doors in it."""
    for name, place in places.items():
        text = text.replace(name, place)
    return text


given = {name: os.environ[name] for name in KEPT if name in os.environ}
given |= {name: placed(value) for name, value in json.loads(environment).items()}
command = [placed(argument) for argument in command]
try:
    os.execvpe(command[0], command, given)
except OSError as error:
    out.send(f"{command[0]}: {error.strerror}".encode("utf-8", "replace"))
    sys.exit(127)
