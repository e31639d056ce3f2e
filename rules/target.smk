"""The target run, its sealed score, and the checkpoint that Gate 3 branches from."""


rule run_target:
    input:
        contract=CONTRACT,
        hidden=HIDDEN,
        # a later edit of a threshold must not run episodes again: they only note under which registration they began
        registration=ancient(REGISTRATION),
    output:
        AUDIT.receipts("target"),
    log:
        f"{LOGS}/run_target.log",
    conda:
        "../envs/dcpflow.yaml"
    resources:
        api=AUDIT.api,
        mem_mb=AUDIT.memory_mb,
        runtime=AUDIT.minutes("target"),
    message:
        "target run: the research whose outcome is claimed"
    shell:
        f"{PYTHON} scripts/run_slots.py {JOB} --stage target --first 1 --last 1 --output {{output:q}} > {{log:q}} 2>&1"


rule score_target:
    input:
        contract=CONTRACT,
        sealed=SEALED,
        receipts=AUDIT.phase_receipts("target"),
    output:
        f"{RESULTS}/scores/target.json",
    log:
        f"{LOGS}/score_target.log",
    conda:
        "../envs/dcpflow.yaml"
    params:
        code=AUDIT.code("stages.scoring"),
    message:
        "Gate 1: sealed scores of the claimed artifact and the baseline"
    shell:
        f"{PYTHON} scripts/score_phase.py {JOB} --phase target --output {{output:q}} {{input.receipts:q}} > {{log:q}} 2>&1"


# Where the Web is not offered, nothing asks for this.
rule freeze_packet:
    input:
        contract=CONTRACT,
        target=rules.run_target.output,
    output:
        f"{RESULTS}/target/packet.json",
    log:
        f"{LOGS}/freeze_packet.log",
    priority: SOONEST
    conda:
        "../envs/dcpflow.yaml"
    message:
        "freezing the Web packet: what the target run saw, all later episodes see"
    shell:
        f"{PYTHON} scripts/freeze_packet.py {JOB} --output {{output:q}} > {{log:q}} 2>&1"


rule select_checkpoint:
    input:
        contract=CONTRACT,
        target=rules.run_target.output,
        packet=PACKET,
    output:
        f"{RESULTS}/target/checkpoint.json",
    log:
        f"{LOGS}/select_checkpoint.log",
    priority: SOONEST
    conda:
        "../envs/dcpflow.yaml"
    message:
        "selecting the checkpoint by the registered rule, without sight of any score"
    shell:
        f"{PYTHON} scripts/select_checkpoint.py {JOB} --output {{output:q}} > {{log:q}} 2>&1"
