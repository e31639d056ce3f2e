"""A reference agent for index design: it measures, infers where the traffic is, and keeps the best plan.

It knows what the channel tells it (background, first observations, replies) and a seed for its own choices.
One JSON object per line, in and out. Run it as ``python3 -I -S -B index_designer.py``.
"""

import hashlib
import json
import sys

# Families whose traffic differs by less than this factor are not told apart.
FLAT = 1.5


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


def flat(values):
    """Tell whether the values give no direction."""
    return max(values) <= FLAT * min(values)


def infer(plan, result):
    """Return each family's traffic as a part of all, or None if the measurement has no direction.

    An unindexed family works as it did without any index, so its part of that work is its traffic. The rest
    belongs to the indexed families. An index leaves a small part of the work, alike for all of them: they
    divide the rest in proportion to what is left of each.
    """
    shares = {family: float(share) for family, share in result["shares"].items()}
    if flat(shares.values()):
        return None
    total = float(result["total"])
    traffic = {family: share * total for family, share in shares.items() if family not in plan}
    rest = max(0.0, 1.0 - sum(traffic.values()))
    left = sum(shares[family] for family in plan)
    for family in plan:
        traffic[family] = rest * (shares[family] / left if left else 1 / len(plan))
    return None if flat(traffic.values()) else traffic


class Designer:
    """What is known about the families, and what to propose next."""

    def __init__(self, first, seed):
        self.columns, self.table = {}, ""
        for item in first["families"]:
            words = item["template"].split()
            self.columns[item["family"]] = words[words.index("WHERE") + 1]
            self.table = words[words.index("FROM") + 1]
        self.most = first["max_indexes"]
        self.prior = first.get("traffic") or dict.fromkeys(self.columns, 1)
        self.luck = {f: hashlib.sha256(f"{seed} {f}".encode()).digest() for f in self.columns}
        self.estimates = []  # traffic as inferred from each measurement with a direction
        self.totals = {}  # plan -> measured total, where the measurement had a direction
        self.tried = set()

    def beliefs(self):
        """Return each family's traffic: the mean of what was measured, else what was told at the start."""
        if not self.estimates:
            return self.prior
        return {f: sum(e[f] for e in self.estimates) / len(self.estimates) for f in self.columns}

    def ranking(self):
        """Return the families, most traffic first, ties in an order of the agent's own."""
        beliefs = self.beliefs()
        return sorted(self.columns, key=lambda family: (-beliefs[family], self.luck[family]))

    def propose(self):
        """Return the next plan to measure: the best guess, then its neighbours; if blind, the unexplored."""
        order, most = self.ranking(), self.most
        if flat(self.beliefs().values()):
            plans = [order[start : start + most] for start in range(0, len(order), most)]
        else:
            plans = [order[:most], *([*order[: most - 1], other] for other in order[most:])]
        return next((plan for plan in plans if frozenset(plan) not in self.tried), plans[0])

    def learn(self, plan, result):
        """Take in a measured plan."""
        self.tried.add(frozenset(plan))
        estimate = infer(plan, result)
        if estimate:
            self.estimates.append(estimate)
            self.totals[frozenset(plan)] = float(result["total"])

    def best(self):
        """Return the plan to commit: the best by belief, unless a measured one leaves less work."""
        order, beliefs = self.ranking(), self.beliefs()
        guess = frozenset(order[: self.most])
        expected = 1 - sum(beliefs[family] for family in guess) / sum(beliefs.values())
        totals = {guess: expected, **self.totals}
        return [family for family in order if family in min(totals, key=totals.get)]

    def sql(self, plan):
        """Write a plan as an artifact."""
        columns = [self.columns[family] for family in plan]
        return "".join(f"CREATE INDEX ix_{c} ON {self.table} ({c}) WHERE {c} IS NOT NULL;\n" for c in columns)

    def read(self, sql):
        """Return the families that an artifact indexes."""
        words = "".join(letter if letter.isalnum() else " " for letter in sql).split()
        return [family for family, column in self.columns.items() if column in words]


def main():
    """Research and commit."""
    channel = Channel()
    hello = channel.hello
    first = hello["E0"]
    designer = Designer(first, hello.get("seed", ""))
    budget = hello["budgets"]["experiments"]
    for earlier in hello.get("history", []):
        if earlier["request"].get("action") == "experiment":
            budget -= 1
            if earlier["reply"].get("ok"):
                designer.learn(designer.read(earlier["request"]["candidate"]), earlier["reply"]["result"])
    for _ in range(budget):
        plan = designer.propose()
        reply = channel.ask("experiment", candidate=designer.sql(plan))
        if not reply["ok"]:
            break
        designer.learn(plan, reply["result"])
    quotes = {name: hello["files"][name] for name in first.get("quote", [])}
    channel.ask("commit", candidate=designer.sql(designer.best()), quotes=quotes)
    channel.ask("finish")


if __name__ == "__main__":
    main()
