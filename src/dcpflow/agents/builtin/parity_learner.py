"""A reference agent for affine Boolean functions: it fits one to the answers and tests the fit on further points.

It knows what the channel tells it (background, first observations, replies) and a seed for its own choices.
One JSON object per line, in and out. Run it as ``python3 -I -S -B parity_learner.py``.
"""

import hashlib
import json
import sys


class Channel:
    """Numbered requests to the harness, each answered by one line."""

    def __init__(self):
        self.hello = json.loads(sys.stdin.buffer.readline())
        self.sent = 0

    def ask(self, action, **fields):
        """Send a request and return the reply."""
        self.sent += 1
        line = json.dumps({"id": str(self.sent), "action": action, **fields})
        sys.stdout.buffer.write(line.encode() + b"\n")
        sys.stdout.buffer.flush()
        answer = sys.stdin.buffer.readline()
        if not answer:
            sys.exit("the channel was closed")
        return json.loads(answer)


def output(function, on):
    """Return the value of a function when some inputs are on."""
    return (function["constant"] + sum(name in function["inputs"] for name in on)) % 2


class Learner:
    """What is known about the function."""

    def __init__(self, first, seed):
        self.inputs, self.most, self.active = first["inputs"], first["most_on"], first["active"]
        self.told = first.get("function")
        self.seed = seed
        self.seen = {}  # the inputs that were on -> output

    def luck(self, *what):
        """Return a number that is the agent's own."""
        return int.from_bytes(hashlib.sha256(f"{self.seed} {what}".encode()).digest(), "big")

    def shuffled(self, *what):
        """Return the inputs in an order of the agent's own."""
        return sorted(self.inputs, key=lambda name: self.luck(name, *what))

    def point(self, number):
        """Return the inputs to switch on: none, then each alone, then several at random to test the fit."""
        if number <= len(self.inputs):
            return self.inputs[number - 1 : number] if number else []
        count = min(self.most, 2 + self.luck("count", number) % 3)
        return self.shuffled("test", number)[:count]

    def learn(self, on, value):
        """Take in an answer."""
        self.seen[frozenset(on)] = int(value)

    def fit(self):
        """Return the function that agrees with all answers, or None if there is none, or one that never changes."""
        singles = [self.seen.get(frozenset([name])) for name in self.inputs]
        constant = self.seen.get(frozenset())
        if constant is None or None in singles:
            return None
        inputs = [name for name, value in zip(self.inputs, singles, strict=True) if value != constant]
        function = {"inputs": inputs, "constant": constant}
        agrees = all(output(function, on) == value for on, value in self.seen.items())
        return function if inputs and agrees else None

    def best(self):
        """Return the function to commit: the fitted one, else the one that was told, else a blind guess."""
        guess = {"inputs": self.shuffled("guess")[: self.active], "constant": self.luck("constant") % 2}
        return self.fit() or self.told or guess


def main():
    """Research and commit."""
    channel = Channel()
    hello = channel.hello
    first = hello["E0"]
    learner = Learner(first, hello.get("seed", ""))
    asked = 0
    for earlier in hello.get("history", []):
        if earlier["request"].get("action") == "experiment":
            asked += 1
            if earlier["reply"].get("ok"):
                learner.learn(json.loads(earlier["request"]["candidate"]), earlier["reply"]["result"]["value"])
    for number in range(asked, hello["budgets"]["experiments"]):
        on = learner.point(number)
        reply = channel.ask("experiment", candidate=json.dumps(on))
        if not reply["ok"]:
            break
        learner.learn(on, reply["result"]["value"])
    quotes = {name: hello["files"][name] for name in first.get("quote", [])}
    channel.ask("commit", candidate=json.dumps(learner.best()), quotes=quotes)
    channel.ask("finish")


if __name__ == "__main__":
    main()
