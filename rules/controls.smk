"""Positive controls: could a challenger have done it, had the missing information been there?"""


rule run_control:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        packet=PACKET,
    output:
        f"{AUDIT.folder('controls')}/b{{batch}}.json",
    log:
        f"{LOGS}/controls/b{{batch}}.log",
    priority: LATER
    conda:
        "../envs/dcpflow.yaml"
    resources:
        api=AUDIT.api,
        mem_mb=AUDIT.memory_mb,
        runtime=AUDIT.minutes("controls"),
    params:
        first=lambda wildcards: AUDIT.first(wildcards.batch),
        last=lambda wildcards: AUDIT.last(wildcards.batch),
    message:
        f"positive controls {{params.first}} to {{params.last}} of {AUDIT.count('controls')}"
    shell:
        f"{PYTHON} scripts/run_slots.py {JOB} --stage controls"
        " --first {params.first} --last {params.last} --output {output:q} > {log:q} 2>&1"


rule score_controls:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        sealed=SEALED,
        receipts=AUDIT.phase_receipts("controls"),
        counts=f"{COUNTS}/controls.json",
    output:
        f"{RESULTS}/scores/controls.json",
    log:
        f"{LOGS}/score_controls.log",
    conda:
        "../envs/dcpflow.yaml"
    threads: SCORING_THREADS
    params:
        code=AUDIT.code("stages.scoring"),
    message:
        "positive controls: sealed scores beside each instance's known solution"
    shell:
        f"{PYTHON} scripts/score_phase.py {JOB} --phase controls --threads {{threads}} --output {{output:q}} {{input.receipts:q}} > {{log:q}} 2>&1"
