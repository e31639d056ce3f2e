"""The checks and the decision, from the evidence alone."""


rule decide:
    input:
        contract=CONTRACT,
        registration=REGISTRATION,
        parts=rules.freeze_contract.output.parts + rules.register.output.parts,
        receipts=AUDIT.all_receipts,
        scores=AUDIT.score_files,
        tables=rules.evidence.output.tables,
        manifest=rules.evidence.output.manifest,
    output:
        decision=f"{RESULTS}/decision.json",
        checks=f"{RESULTS}/evidence/checks.parquet",
    params:
        code=AUDIT.code("stages.decide"),
    log:
        f"{LOGS}/decide.log",
    message:
        "deciding Gates 1 to 3"
    conda:
        "../envs/dcpflow.yaml"
    shell:
        "{PYTHON:q} scripts/decide.py {JOB} --receipts {input.receipts:q} --scores {input.scores:q} > {log:q} 2>&1"
