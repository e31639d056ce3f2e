"""Several looks at challengers or pairs: a later look starts on one bit, whether the ones before were enough."""


# Where one look is registered, nothing asks for any of these.
rule run_later_challenger:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        packet=PACKET,
        target=rules.run_target.output,
        look=lambda wildcards: AUDIT.look("challengers", int(wildcards.look) - 1),
    output:
        f"{AUDIT.folder('challengers')}/look-{{look}}/b{{batch}}.json",
    log:
        f"{LOGS}/challengers/look-{{look}}/b{{batch}}.log",
    wildcard_constraints:
        look="[0-9]+",
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
        f"challengers {{params.first}} to {{params.last}} of {AUDIT.count('challengers')}, unless one has recovered"
    shell:
        f"{PYTHON} scripts/run_slots.py {JOB} --stage challengers --stratum {{params.stratum:q}} --after {{input.look:q}}"
        " --first {params.first} --last {params.last} --output {output:q} > {log:q} 2>&1"


rule run_later_pair:
    input:
        contract=CONTRACT,
        hidden=HIDDEN,
        registration=ancient(REGISTRATION),
        packet=PACKET,
        checkpoint=rules.select_checkpoint.output,
        look=lambda wildcards: AUDIT.look("pairs", int(wildcards.look) - 1),
    output:
        f"{AUDIT.folder('pairs')}/look-{{look}}/b{{batch}}.json",
    log:
        f"{LOGS}/pairs/look-{{look}}/b{{batch}}.log",
    wildcard_constraints:
        look="[0-9]+",
    conda:
        "../envs/dcpflow.yaml"
    resources:
        api=AUDIT.api,
        mem_mb=AUDIT.memory_mb,
        runtime=AUDIT.minutes("pairs"),
    params:
        first=lambda wildcards: AUDIT.first(wildcards.batch),
        last=lambda wildcards: AUDIT.last(wildcards.batch),
    message:
        f"feedback pairs {{params.first}} to {{params.last}} of {AUDIT.count('pairs')}, unless the effect is decided"
    shell:
        f"{PYTHON} scripts/run_slots.py {JOB} --stage pairs --after {{input.look:q}}"
        " --first {params.first} --last {params.last} --output {output:q} > {log:q} 2>&1"


rule score_look:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        sealed=SEALED,
        receipts=lambda wildcards: AUDIT.look_receipts(
            wildcards.stage, int(wildcards.look)
        ),
        counts=f"{COUNTS}/{{stage}}-{{look}}.json",
    output:
        f"{RESULTS}/scores/{{stage}}-{{look}}.json",
    log:
        f"{LOGS}/score_look/{{stage}}-{{look}}.log",
    wildcard_constraints:
        stage="challengers|pairs",
        look="[0-9]+",
    conda:
        "../envs/dcpflow.yaml"
    threads: SCORING_THREADS
    params:
        code=AUDIT.code("stages.scoring"),
    message:
        "sealed scores of the {wildcards.stage} of look {wildcards.look}, in random order"
    shell:
        f"{PYTHON} scripts/score_phase.py {JOB} --phase {{wildcards.stage}}-{{wildcards.look}} --threads {{threads}} --output {{output:q}} {{input.receipts:q}} > {{log:q}} 2>&1"


# Where pairs are looked at several times, the null study is scored by itself.
rule score_null_pairs:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        sealed=SEALED,
        receipts=AUDIT.phase_receipts("null_pairs"),
        counts=f"{COUNTS}/null_pairs.json",
    output:
        f"{RESULTS}/scores/null_pairs.json",
    log:
        f"{LOGS}/score_null_pairs.log",
    conda:
        "../envs/dcpflow.yaml"
    threads: SCORING_THREADS
    params:
        code=AUDIT.code("stages.scoring"),
    message:
        "Gate 3: sealed scores of the null study, in random order"
    shell:
        f"{PYTHON} scripts/score_phase.py {JOB} --phase null_pairs --threads {{threads}} --output {{output:q}} {{input.receipts:q}} > {{log:q}} 2>&1"


# What is enough follows from the thresholds, so that after their edit it is looked again.
rule read_look:
    input:
        contract=CONTRACT,
        registration=REGISTRATION,
        packet=PACKET,
        checkpoint=lambda wildcards: (
            rules.select_checkpoint.output if wildcards.stage == "pairs" else []
        ),
        receipts=lambda wildcards: [
            path
            for phase in AUDIT.seen_by(wildcards.stage, int(wildcards.look))
            for path in AUDIT.phase_receipts(phase)
        ],
        scores=lambda wildcards: [
            AUDIT.score_file(phase)
            for phase in AUDIT.seen_by(wildcards.stage, int(wildcards.look))
        ],
    output:
        f"{RESULTS}/looks/{{stage}}-{{look}}.json",
    log:
        f"{LOGS}/read_look/{{stage}}-{{look}}.log",
    wildcard_constraints:
        stage="challengers|pairs",
        look="[0-9]+",
    conda:
        "../envs/dcpflow.yaml"
    params:
        code=AUDIT.code("stages.looks"),
    message:
        "look {wildcards.look} at the {wildcards.stage}: is that enough?"
    shell:
        f"{PYTHON} scripts/read_look.py {JOB} --stage {{wildcards.stage}} --receipts {{input.receipts:q}} --scores {{input.scores:q}} --output {{output:q}} > {{log:q}} 2>&1"
