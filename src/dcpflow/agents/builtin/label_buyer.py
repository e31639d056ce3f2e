"""A reference agent for buying labels: it measures rows on which its trees disagree, and trusts labels that cohere.

It knows what the channel tells it (background, first observations, replies) and a seed for its own choices.
One JSON object per line, in and out. Run it as ``python3 -I -S -B label_buyer.py``.
"""

import hashlib
import json
import random
import sys

TREES, TRIES, FOLDS = 12, 8, 5  # of one forest; random splits of which the best is taken; of a cross-validation
CONSIDERED = 60  # rows among which those in doubt are looked for
COHERENT, NOTHING = 0.2, 1e-7  # what labels explain of each other if they are measurements; what rounding leaves


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


def mean(points):
    """Return the mean of vectors."""
    return [sum(values) / len(points) for values in zip(*points, strict=True)]


def spread(points):
    """Return the sum of squared distances from the mean; nothing has none."""
    squares = sum(value * value for point in points for value in point)
    return max(0.0, squares - sum(sum(values) ** 2 for values in zip(*points, strict=True)) / max(1, len(points)))


class Buyer:
    """The table, the labels, and trees grown on them."""

    def __init__(self, first, seed):
        self.table, self.classes, self.batch = first["table"], first["classes"], first["batch"]
        self.known, self.told = first["labels"], {**first["labels"], **first.get("measured", {})}
        self.bought, self.by_chance = {}, []
        self.luck = random.Random(hashlib.sha256(seed.encode()).digest())
        trees = 200 if self.classes else 50  # votes settle later than means
        self.model = {"kind": "extra_trees", "trees": trees, "seed": self.luck.randrange(10_000)}

    def point(self, label):
        """Return a label as a vector: one number, or a 1 in the place of its class."""
        return [float(label == name) for name in self.classes] if self.classes else [float(label)]

    def grow(self, rows, points):
        """Return a tree: a leaf's vector, or the input, the bound and the two branches of the best of some splits."""
        splits = []
        for _ in range(TRIES if spread([points[row] for row in rows]) > NOTHING else 0):
            place = self.luck.randrange(len(self.table[rows[0]]))
            bound = self.luck.uniform(*sorted(self.table[row][place] for row in self.luck.sample(rows, 2)))
            low = [row for row in rows if self.table[row][place] <= bound]
            high = [row for row in rows if self.table[row][place] > bound]
            if low and high:
                left = sum(spread([points[row] for row in side]) for side in (low, high))
                splits.append((left, len(splits), place, bound, low, high))
        if not splits:
            return mean([points[row] for row in rows])
        *_, place, bound, low, high = min(splits)
        return place, bound, self.grow(low, points), self.grow(high, points)

    def forest(self, labels):
        """Return a few trees that are grown on labels."""
        points = {row: self.point(label) for row, label in labels.items()}
        return [self.grow(list(labels), points) for _ in range(TREES)]

    def vote(self, tree, row):
        """Return what a tree says of a row."""
        while isinstance(tree, tuple):
            place, bound, low, high = tree
            tree = low if self.table[row][place] <= bound else high
        return tree

    def explained(self, beside):
        """Return the share of the spread of labels, of rows bought by chance, that trees grown without them explain."""
        left, whole = 0.0, spread([self.point(self.bought[row]) for row in self.by_chance])
        for fold in (self.by_chance[start::FOLDS] for start in range(FOLDS) if whole > NOTHING):
            forest = self.forest({r: label for r, label in {**beside, **self.bought}.items() if r not in fold})
            for row in fold:
                found, label = mean([self.vote(tree, row) for tree in forest]), self.point(self.bought[row])
                left += sum((one - other) ** 2 for one, other in zip(found, label, strict=True))
        return 1 - left / whole if whole > NOTHING else 0.0

    def next_rows(self, by_chance):
        """Return rows to measure: any, or those on which trees disagree."""
        rows = [row for row in self.table if row not in self.known and row not in self.bought]
        rows = self.luck.sample(rows, len(rows))
        forest = [] if by_chance else self.forest({**self.known, **self.bought})
        doubt = {row: spread([self.vote(tree, row) for tree in forest]) for row in rows[:CONSIDERED]}
        return sorted(doubt, key=doubt.get)[-self.batch :]

    def learn(self, rows, labels, by_chance):
        """Take in what measuring rows gave."""
        self.bought |= zip(rows, labels, strict=True)
        self.by_chance += rows if by_chance else []

    def chosen_labels(self):
        """Return the labels to fit the model on: measured ones if they cohere, and told ones if they fit to these."""
        alone = self.explained({})
        if alone < COHERENT:
            return self.told
        return {**self.told, **self.bought} if self.explained(self.told) > alone - COHERENT else self.bought


def main():
    """Research and commit."""
    channel = Channel()
    hello = channel.hello
    buyer, budget, asked = Buyer(hello["E0"], hello.get("seed", "")), hello["budgets"]["experiments"], 0
    # Two of three experiments measure any rows, the first ones.
    chance = [3 * number < 2 * budget for number in range(budget)]
    for earlier in hello.get("history", []):
        if earlier["request"].get("action") == "experiment":
            if earlier["reply"].get("ok"):
                candidate, result = earlier["request"]["candidate"], earlier["reply"]["result"]
                buyer.learn(json.loads(candidate), result["labels"], chance[asked])
            asked += 1
    for by_chance in chance[asked:]:
        rows = buyer.next_rows(by_chance)
        reply = channel.ask("experiment", candidate=json.dumps(rows))
        if not reply["ok"]:
            break
        buyer.learn(rows, reply["result"]["labels"], by_chance)
    quotes = {name: hello["files"][name] for name in hello["E0"].get("quote", [])}
    artifact = json.dumps({"model": buyer.model, "labels": buyer.chosen_labels()})
    channel.ask("commit", candidate=artifact, quotes=quotes)
    channel.ask("finish")


if __name__ == "__main__":
    main()
