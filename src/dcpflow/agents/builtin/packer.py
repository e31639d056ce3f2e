"""A reference agent for knapsacks: it fills by random prices, takes a few items out again, and keeps what is better.

It knows what the channel tells it (background, first observations, replies) and a seed for its own choices.
One JSON object per line, in and out. Run it as ``python3 -I -S -B packer.py``.
"""

import json
import random
import sys
from math import fsum
from operator import le, mul, sub, truediv

# How often a selection is partly emptied and filled again, and how many items are taken out at most.
ROUNDS = 60
MOST_OUT = 3


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


class Packer:
    """The knapsack, and ways to fill it. Items are numbers in the order of the first observations."""

    def __init__(self, first, seed):
        self.names = [item["item"] for item in first["items"]]
        self.profits = [item["profit"] for item in first["items"]]
        self.capacities = first["capacities"]
        self.weights = [item["weights"] for item in first["items"]]
        self.needs = [list(map(truediv, own, self.capacities)) for own in self.weights]
        # Of this module's methods, random() alone promises the same numbers in every Python version.
        self.chance = random.Random(seed).random

    def profit(self, selection):
        """Return the total profit of some items."""
        return sum(self.profits[item] for item in selection)

    def fill(self, selection):
        """Add items that fit, most profit first at prices of the resources drawn for this once."""
        prices = [self.chance() for _ in self.capacities]
        cost = [fsum(map(mul, prices, own)) for own in self.needs]
        worth = list(map(truediv, self.profits, cost))
        chosen = set(selection)
        left = [c - sum(self.weights[i][k] for i in chosen) for k, c in enumerate(self.capacities)]
        for item in sorted(range(len(self.names)), key=worth.__getitem__, reverse=True):
            if item not in chosen and all(map(le, self.weights[item], left)):
                chosen.add(item)
                left = list(map(sub, left, self.weights[item]))
        return sorted(chosen)

    def search(self, start):
        """Return the best selection of a walk that takes out one to three items at a time and fills again."""
        best = self.fill(start)
        for _ in range(ROUNDS):
            out = {best[int(self.chance() * len(best))] for _ in range(MOST_OUT)}
            tried = self.fill([item for item in best if item not in out])
            if self.profit(tried) >= self.profit(best):
                best = tried
        return best

    def spelled(self, selection):
        """Write a selection as an artifact."""
        return json.dumps([self.names[item] for item in selection])


def main():
    """Research and commit."""
    channel = Channel()
    hello = channel.hello
    first = hello["E0"]
    packer = Packer(first, hello.get("seed", ""))
    told = [packer.names.index(name) for name in first.get("selection", [])]
    history = [earlier["request"].get("action") for earlier in hello.get("history", [])]
    budget = hello["budgets"]["experiments"] - history.count("experiment")
    quotes = {name: hello["files"][name] for name in first.get("quote", [])}
    for number in range(hello["budgets"]["candidates"] - history.count("commit")):
        candidate = packer.spelled(packer.search(told))
        # What the evaluator refuses is not worth committing; where it cannot be asked, the numbers must do.
        if number < budget and not channel.ask("experiment", candidate=candidate)["ok"]:
            continue
        channel.ask("commit", candidate=candidate, quotes=quotes)
    channel.ask("finish")


if __name__ == "__main__":
    main()
