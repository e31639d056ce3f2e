def test_a(finished_audit, audit_copy):
    import json
    d=json.loads(finished_audit.job.layout.decision.read_text())
    print(d["core"],d["evidence"])
    for c in d["checks"]: print(c)
    assert audit_copy.job.layout.decision.exists()
def test_b(run_unprivileged):
    print(run_unprivileged(["-c","import os;print(os.getuid());import dcpflow"]))
