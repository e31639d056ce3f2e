"""The evidence tables, from records, scores and the replay of every channel."""


rule replay_channels:
    input:
        contract=CONTRACT,
        hidden=HIDDEN,
        registration=ancient(REGISTRATION),
        receipts=lambda wildcards: AUDIT.replayed_receipts(wildcards.phase),
        counts=f"{COUNTS}/{{phase}}.json",
    output:
        f"{RESULTS}/replay/{{phase}}.json",
    log:
        f"{LOGS}/replay_channels/{{phase}}.log",
    priority: SOONEST
    conda:
        "../envs/dcpflow.yaml"
    params:
        stratum=lambda wildcards: plan.stratum_of(wildcards.phase),
        code=AUDIT.code("stages.replay"),
    message:
        "replaying the channels of {wildcards.phase}: were agents told what the registered policies say?"
    shell:
        f"{PYTHON} scripts/replay_channels.py {JOB} --stratum={{params.stratum:q}} --output {{output:q}} {{input.receipts:q}} > {{log:q}} 2>&1"


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
        strata_prices=lambda _: AUDIT.strata_prices,
        code=AUDIT.code("stages.costs"),
    message:
        "what the model has cost, call by call"
    shell:
        f"{PYTHON} scripts/costs.py --calls {{input.calls:q}} --prices {{params.prices:q}} --strata-prices {{params.strata_prices:q}} --output {{output:q}} > {{log:q}} 2>&1"


rule evidence:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        counts=f"{COUNTS}/all.json",
        packet=PACKET,
        receipts=AUDIT.all_receipts,
        scores=AUDIT.score_files,
        strata=AUDIT.strata_receipts + AUDIT.strata_scores,
        replay=AUDIT.replays,
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
