"""Positive controls: could a challenger have done it, had the missing information been there?"""


rule run_control:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
    output:
        f"{AUDIT.folder('controls')}/b{{batch}}.json",
    params:
        first=lambda wildcards: AUDIT.first("controls", wildcards.batch),
        last=lambda wildcards: AUDIT.last("controls", wildcards.batch),
    log:
        f"{LOGS}/controls/b{{batch}}.log",
    message:
        f"positive controls {{params.first}} to {{params.last}} of {AUDIT.count('controls')}"
    conda:
        "../envs/dcpflow.yaml"
    shell:
        "{PYTHON:q} -m dcpflow run-slots {JOB} --stage controls"
        " --first {params.first} --last {params.last} --output {output:q} > {log:q} 2>&1"


rule score_controls:
    input:
        contract=CONTRACT,
        receipts=AUDIT.phase_receipts("controls"),
    output:
        f"{RESULTS}/scores/controls.json",
    params:
        code=AUDIT.code("stages.scoring"),
    log:
        f"{LOGS}/score_controls.log",
    message:
        "positive controls: sealed scores beside each instance's known solution"
    conda:
        "../envs/dcpflow.yaml"
    shell:
        "{PYTHON:q} scripts/score_phase.py {JOB} --phase controls --output {output:q} {input.receipts:q} > {log:q} 2>&1"
