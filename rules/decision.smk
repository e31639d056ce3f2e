"""The checks and the decision, from the evidence alone."""


rule decide:
    input:
        contract=CONTRACT,
        registration=REGISTRATION,
        packet=PACKET,
        parts=rules.freeze_contract.output.parts + rules.register.output.parts,
        registry=AUDIT.registry_files,
        receipts=AUDIT.all_receipts,
        scores=AUDIT.score_files,
        strata=AUDIT.strata_receipts + AUDIT.strata_scores,
        replay=AUDIT.replays,
        tables=rules.evidence.output.tables,
        facts=rules.evidence.output.facts,
        manifest=rules.evidence.output.manifest,
    output:
        decision=f"{RESULTS}/decision.json",
        checks=f"{RESULTS}/evidence/checks.parquet",
    log:
        f"{LOGS}/decide.log",
    conda:
        "../envs/dcpflow.yaml"
    params:
        code=AUDIT.code("stages.decide"),
        registry=lambda _: AUDIT.registry,
    message:
        "deciding Gates 1 to 3"
    shell:
        f"{PYTHON} scripts/decide.py {JOB} --receipts {{input.receipts:q}} --scores {{input.scores:q}} --registry {{params.registry:q}} > {{log:q}} 2>&1"
