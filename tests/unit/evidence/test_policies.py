import json


def test_x(finished_audit, audit_of_policies):
    d = json.loads(audit_of_policies.job.layout.decision.read_bytes())
    e = json.loads(finished_audit.job.layout.decision.read_bytes())
    for k in d:
        if k not in ("checks",) and d[k] != e.get(k):
            print(k, json.dumps(d[k], indent=1)[:3500])
    print(audit_of_policies.results)
    assert 0
