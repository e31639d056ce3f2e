"""A reference agent for index design: it reads, measures, infers where the traffic is, and keeps the best plan.

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


def study(channel, hello):
    """Read the Web where it is offered: the pages to begin with, then what they link to."""
    offered = hello["actions"].get("web_fetch")
    found = list(offered["properties"]["url"]["examples"]) if offered else []
    seen = {earlier["request"].get("url") for earlier in hello.get("history", [])}
    for url in found:  # which grows meanwhile
        if url not in seen and len(seen) < hello["budgets"]["web_requests"] and not seen.add(url):
            text = channel.ask("web_fetch", url=url).get("page", {}).get("text", "")
            found += ["http" + part.partition(">")[0] for part in text.split("<http")[1:]]


def flat(values):
    """Tell whether the values give no direction."""
    return max(values) <= FLAT * min(values)


def infer(plan, result):
    """Return each family's traffic as a part of all, or None if the measurement has no direction.

    An unindexed family's part of the work without any index is its traffic; the indexed ones divide the rest.
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
        self.totals, self.tried = {}, set()  # plan -> total, where that had a direction; plans

    def beliefs(self):
        """Return each family's traffic: the mean of what was measured, else what was told at the start."""
        means = {f: sum(e[f] for e in self.estimates) / (len(self.estimates) or 1) for f in self.columns}
        return means if self.estimates else self.prior

    def ranking(self):
        """Return the families, most traffic first, ties in an order of the agent's own."""
        beliefs = self.beliefs()
        return sorted(self.columns, key=lambda f: (-beliefs[f], self.luck[f]))

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
        best = min({guess: expected, **self.totals}.items(), key=lambda plan: plan[1])[0]
        return [family for family in order if family in best]

    def sql(self, plan):
        """Write a plan as an artifact."""
        columns = map(self.columns.get, plan)
        return "".join(f"CREATE INDEX ix_{c} ON {self.table} ({c}) WHERE {c} IS NOT NULL;\n" for c in columns)

    def read(self, sql):
        """Return the families that an artifact indexes."""
        words = "".join(letter if letter.isalnum() else " " for letter in sql).split()
        return [family for family, column in self.columns.items() if column in words]


def main():
    """Research and commit."""
    channel = Channel()
    study(channel, hello := channel.hello)
    designer = Designer(hello["E0"], hello.get("seed", ""))
    history = [e for e in hello.get("history", []) if e["request"].get("action") == "experiment"]
    for earlier in history:
        if earlier["reply"].get("ok"):
            designer.learn(designer.read(earlier["request"]["candidate"]), earlier["reply"]["result"])
    for _ in range(hello["budgets"]["experiments"] - len(history)):
        plan = designer.propose()
        reply = channel.ask("experiment", candidate=designer.sql(plan))
        if not reply["ok"]:
            break
        designer.learn(plan, reply["result"])
    quotes = {name: hello["files"][name] for name in hello["E0"].get("quote", [])}
    channel.ask("commit", candidate=designer.sql(designer.best()), quotes=quotes)
    channel.ask("finish")


if __name__ == "__main__":
    main()
