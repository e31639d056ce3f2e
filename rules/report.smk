"""The page that a reviewer reads: not made unless it is asked for, since no decision rests on it."""


rule report:
    input:
        contract=CONTRACT,
        registration=REGISTRATION,
        parts=rules.freeze_contract.output.parts + rules.register.output.parts,
        tables=rules.evidence.output.tables,
        decision=rules.decide.output.decision,
    output:
        report(
            f"{RESULTS}/report.html",
            caption="report.rst",
            category="Audit",
        ),
    log:
        f"{LOGS}/report.log",
    conda:
        "../envs/dcpflow.yaml"
    params:
        code=AUDIT.code("stages.report"),
        page=AUDIT.page,
    message:
        "writing the report"
    shell:
        f"{PYTHON} scripts/report.py {AUDIT.shell(['--results', RESULTS])} > {{log:q}} 2>&1"
