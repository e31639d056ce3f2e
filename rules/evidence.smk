"""The evidence tables, from records, scores and the replay of every channel."""


rule replay_channels:
    input:
        contract=CONTRACT,
        hidden=rules.seal_task.output.hidden,
        receipts=AUDIT.all_receipts,
        counts=expand(f"{COUNTS}/{{phase}}.json", phase=AUDIT.phases[1:]),
    output:
        f"{RESULTS}/replay/channels.json",
    log:
        f"{LOGS}/replay_channels.log",
    conda:
        "../envs/dcpflow.yaml"
    params:
        code=AUDIT.code("stages.replay"),
    message:
        "replaying every channel: were agents told what the registered policies say?"
    shell:
        f"{PYTHON} scripts/replay_channels.py {JOB} --output {{output:q}} {{input.receipts:q}} > {{log:q}} 2>&1"


rule costs:
    input:
        calls=f"{RESULTS}/evidence/calls.parquet",
    output:
        f"{RESULTS}/costs.parquet",
    log:
        f"{LOGS}/costs.log",
    conda:
        "../envs/dcpflow.yaml"
    params:
        prices=AUDIT.prices,
        code=AUDIT.code("stages.costs"),
    message:
        "what the model has cost, call by call"
    shell:
        f"{PYTHON} scripts/costs.py --calls {{input.calls:q}} --prices {{params.prices:q}} --output {{output:q}} > {{log:q}} 2>&1"


rule evidence:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        packet=PACKET,
        receipts=AUDIT.all_receipts,
        scores=AUDIT.score_files,
        replay=rules.replay_channels.output,
    output:
        tables=expand(
            f"{RESULTS}/evidence/{{table}}.parquet",
            table=(
                "episodes",
                "calls",
                "candidates",
                "scores",
                "controls",
                "pairs",
                "null_pairs",
            ),
        ),
        facts=f"{RESULTS}/evidence/facts.json",
        manifest=f"{RESULTS}/evidence/manifest.json",
    log:
        f"{LOGS}/evidence.log",
    conda:
        "../envs/dcpflow.yaml"
    params:
        code=AUDIT.code("stages.evidence"),
    message:
        "evidence tables: one row for each attempt"
    shell:
        f"{PYTHON} scripts/evidence.py {JOB} --receipts {{input.receipts:q}} --scores {{input.scores:q}} > {{log:q}} 2>&1"
