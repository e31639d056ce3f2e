"""The evidence tables, from records and scores."""


rule evidence:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        receipts=AUDIT.all_receipts,
        scores=AUDIT.score_files,
    output:
        tables=expand(
            f"{RESULTS}/evidence/{{table}}.parquet",
            table=("episodes", "candidates", "scores", "controls", "pairs", "null_pairs"),
        ),
        manifest=f"{RESULTS}/evidence/manifest.json",
    params:
        code=AUDIT.code("stages.evidence"),
    log:
        f"{LOGS}/evidence.log",
    message:
        "evidence tables: one row for each attempt"
    conda:
        "../envs/dcpflow.yaml"
    shell:
        "{PYTHON:q} scripts/evidence.py {JOB} --receipts {input.receipts:q} --scores {input.scores:q} > {log:q} 2>&1"
