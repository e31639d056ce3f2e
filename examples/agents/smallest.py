"""The smallest agent in Python: measures random index plans of the default task and commits the best of them."""

import json
import random
import sys

hello = json.loads(sys.stdin.readline())


def ask(action, **fields):
    """Send one request and return the reply to it."""
    print(json.dumps({"id": 1, "action": action, **fields}), flush=True)
    return json.loads(sys.stdin.readline())


chance = random.Random(hello["seed"])
# ... FROM table WHERE column ...
words = [family["template"].split() for family in hello["E0"]["families"]]
table = words[0][words[0].index("FROM") + 1]
columns = [template[template.index("WHERE") + 1] for template in words]

tried = []
for _ in range(hello["budgets"]["experiments"]):
    chosen = chance.sample(columns, hello["E0"]["max_indexes"])
    plan = "".join(f"CREATE INDEX ix_{c} ON {table} ({c}) WHERE {c} IS NOT NULL;\n" for c in chosen)
    reply = ask("experiment", candidate=plan)
    if reply["ok"]:
        tried.append((float(reply["result"]["total"]), plan))

quotes = {name: hello["files"][name] for name in hello["E0"].get("quote", [])}
ask("commit", candidate=min(tried)[1], quotes=quotes)
ask("finish")
