"""A reference agent for catalyst recipes: it reads one plate and takes the level that stands out of every control.

It knows what the channel tells it (background, first observations, replies) and a seed for its own choices.
One JSON object per line, in and out. Run it as ``python3 -I -S -B plate_reader.py``.
"""

import hashlib
import json
import sys

# A yield stands out where it differs by more than this factor from another; measuring errors are below one per cent.
FLAT = 1.03


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


class Reader:
    """What is known about the controls."""

    def __init__(self, first, seed):
        self.controls, self.levels, self.anchor = first["controls"], first["levels"], first["anchor"]
        self.told = first.get("optimum")
        self.seed = seed
        self.seen = {}  # control -> yield of each level, relative to the best recipe of its plate without it

    def luck(self, control, level):
        """Return an order of the levels that is the agent's own."""
        return hashlib.sha256(f"{self.seed} {control} {level}".encode()).digest()

    def guess(self):
        """Return a recipe from what was known before any measurement; untold, blind but for the anchor."""
        if self.told:
            return dict(self.told)
        others = {c: [level for level in self.levels if level != self.anchor[c]] for c in self.controls}
        return {c: min(others[c], key=lambda level: self.luck(c, level)) for c in self.controls}

    def learn(self, center, result):
        """Take in a plate: for each control the yields of its levels, all else being as in the centre."""
        for control in self.controls:
            others = [level for level in self.levels if level != center[control]]
            yields = dict(zip(others, map(float, result["changes"][control]), strict=True))
            yields[center[control]] = float(result["center"])
            if max(yields.values()) > FLAT * min(yields.values()):
                self.seen[control] = yields

    def best(self):
        """Return the recipe to commit: measured where a measurement has a direction, else guessed."""
        recipe = self.guess()
        for control, yields in self.seen.items():
            recipe[control] = max(yields, key=yields.get)
        return recipe


def main():
    """Research and commit."""
    channel = Channel()
    hello = channel.hello
    first = hello["E0"]
    reader = Reader(first, hello.get("seed", ""))
    budget = hello["budgets"]["experiments"]
    for earlier in hello.get("history", []):
        if earlier["request"].get("action") == "experiment":
            budget -= 1
            if earlier["reply"].get("ok"):
                reader.learn(json.loads(earlier["request"]["candidate"]), earlier["reply"]["result"])
    # The first plate is laid out around the anchor, a further one around what looks best by then.
    for number in range(budget):
        center = reader.best() if reader.seen or number else reader.anchor
        reply = channel.ask("experiment", candidate=json.dumps(center))
        if not reply["ok"]:
            break
        reader.learn(center, reply["result"])
    quotes = {name: hello["files"][name] for name in first.get("quote", [])}
    channel.ask("commit", candidate=json.dumps(reader.best()), quotes=quotes)
    channel.ask("finish")


if __name__ == "__main__":
    main()
