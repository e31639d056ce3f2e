"""A reference agent for linear devices: it measures each unknown gain twice and trusts answers that agree.

It knows what the channel tells it (background, first observations, replies) and a seed for its own choices.
One JSON object per line, in and out. Run it as ``python3 -I -S -B gain_finder.py``.
"""

import hashlib
import json
import sys
from itertools import combinations


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


class Finder:
    """What is known about the gains."""

    def __init__(self, first, seed):
        self.known, self.size, self.per_experiment = first["known"], first["group"], first["groups"]
        self.unknown = [control for control in first["controls"] if control not in self.known]
        self.told = first.get("gains")
        self.luck = {c: hashlib.sha256(f"{seed} {c}".encode()).digest() for c in self.unknown}
        self.measured = {control: [] for control in self.unknown}

    def plan(self):
        """Return groups in the order to measure them: every unknown control beside known ones, again and again.

        In each round the known controls are others, as long as there are any.
        """
        companions = list(combinations(self.known, self.size - 1))
        # Disjoint companions one after the other: an answer that holds with both of them is no accident.
        companions = [pair for two in zip(companions, reversed(companions), strict=True) for pair in two][
            : len(companions)
        ]
        return [[control, *pair] for pair in companions for control in self.unknown]

    def learn(self, groups, sums):
        """Take in the sums of some groups with one unknown control each."""
        for group, total in zip(groups, sums, strict=True):
            (control,) = (name for name in group if name in self.measured)
            self.measured[control].append(int(total) - sum(self.known.get(name, 0) for name in group))

    def consistent(self):
        """Tell whether all answers can be those of one device: gains of 1 or -1, the same whenever measured."""
        values = [set(found) for found in self.measured.values() if found]
        return bool(values) and all(found in ({1}, {-1}) for found in values)

    def gains(self):
        """Return the gains to commit: measured if the answers are consistent, else told, else guessed.

        Guesses are blind, but for as many gains of each sign.
        """
        gains = {**self.known, **(self.told or {})}
        if self.consistent():
            gains |= {control: found[0] for control, found in self.measured.items() if found}
        rest = sorted((c for c in self.unknown if c not in gains), key=self.luck.get)
        plus = len(self.unknown) // 2 - sum(gains.get(control) == 1 for control in self.unknown)
        return gains | {control: 1 if place < plus else -1 for place, control in enumerate(rest)}


def main():
    """Research and commit."""
    channel = Channel()
    hello = channel.hello
    first = hello["E0"]
    finder = Finder(first, hello.get("seed", ""))
    budget = hello["budgets"]["experiments"]
    for earlier in hello.get("history", []):
        if earlier["request"].get("action") == "experiment":
            budget -= 1
            if earlier["reply"].get("ok"):
                finder.learn(json.loads(earlier["request"]["candidate"]), earlier["reply"]["result"]["sums"])
    plan, size = finder.plan(), finder.per_experiment
    for start in range(0, budget * size, size):
        # When the plan is through, it begins anew.
        groups = [plan[place % len(plan)] for place in range(start, start + size)]
        reply = channel.ask("experiment", candidate=json.dumps(groups))
        if not reply["ok"]:
            break
        finder.learn(groups, reply["result"]["sums"])
    quotes = {name: hello["files"][name] for name in first.get("quote", [])}
    channel.ask("commit", candidate=json.dumps(finder.gains()), quotes=quotes)
    channel.ask("finish")


if __name__ == "__main__":
    main()
