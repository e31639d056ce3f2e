"""The target run, its sealed score, and the checkpoint that Gate 3 branches from."""


rule run_target:
    input:
        contract=CONTRACT,
        # a later edit of a threshold must not run episodes again: they only note under which registration they began
        registration=ancient(REGISTRATION),
    output:
        f"{RESULTS}/target/b0001.json",
    log:
        f"{LOGS}/run_target.log",
    message:
        "target run: the research whose outcome is claimed"
    conda:
        "../envs/dcpflow.yaml"
    shell:
        "{PYTHON:q} -m dcpflow run-slots {JOB} --stage target --first 1 --last 1 --output {output:q} > {log:q} 2>&1"


rule score_target:
    input:
        contract=CONTRACT,
        receipts=AUDIT.phase_receipts("target"),
    output:
        f"{RESULTS}/scores/target.json",
    params:
        code=AUDIT.code("stages.scoring"),
    log:
        f"{LOGS}/score_target.log",
    message:
        "Gate 1: sealed scores of the claimed artifact and the baseline"
    conda:
        "../envs/dcpflow.yaml"
    shell:
        "{PYTHON:q} scripts/score_phase.py {JOB} --phase target --output {output:q} {input.receipts:q} > {log:q} 2>&1"


rule select_checkpoint:
    input:
        contract=CONTRACT,
        target=rules.run_target.output,
    output:
        f"{RESULTS}/target/checkpoint.json",
    log:
        f"{LOGS}/select_checkpoint.log",
    message:
        "selecting the checkpoint by the registered rule, without sight of any score"
    conda:
        "../envs/dcpflow.yaml"
    shell:
        "{PYTHON:q} scripts/select_checkpoint.py {JOB} --output {output:q} > {log:q} 2>&1"
