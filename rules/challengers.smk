"""Gate 2: fresh challengers with the target's information and budget, but without its history."""


rule run_challenger:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        packet=PACKET,
        target=rules.run_target.output,
    output:
        f"{AUDIT.folder('challengers')}/b{{batch}}.json",
    log:
        f"{LOGS}/challengers/b{{batch}}.log",
    conda:
        "../envs/dcpflow.yaml"
    resources:
        api=AUDIT.api,
        mem_mb=AUDIT.memory_mb,
        runtime=AUDIT.minutes("challengers"),
    params:
        first=lambda wildcards: AUDIT.first(wildcards.batch),
        last=lambda wildcards: AUDIT.last(wildcards.batch),
        stratum=AUDIT.config.design.stratum,
    message:
        f"challengers {{params.first}} to {{params.last}} of {AUDIT.count('challengers')}"
    shell:
        f"{PYTHON} scripts/run_slots.py {JOB} --stage challengers --stratum {{params.stratum:q}}"
        " --first {params.first} --last {params.last} --output {output:q} > {log:q} 2>&1"


rule score_challengers:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        sealed=SEALED,
        receipts=AUDIT.phase_receipts("challengers"),
        counts=f"{COUNTS}/challengers.json",
    output:
        f"{RESULTS}/scores/challengers.json",
    log:
        f"{LOGS}/score_challengers.log",
    conda:
        "../envs/dcpflow.yaml"
    threads: SCORING_THREADS
    params:
        code=AUDIT.code("stages.scoring"),
    message:
        "Gate 2: sealed scores of all challengers, in random order"
    shell:
        f"{PYTHON} scripts/score_phase.py {JOB} --phase challengers --threads {{threads}} --output {{output:q}} {{input.receipts:q}} > {{log:q}} 2>&1"
