"""Gate 3: randomized pairs from the checkpoint, and the null study that calibrates the neutral channel.

Pairs of further neutral policies are informative: no gate reads them.
"""


wildcard_constraints:
    # no further policy at all matches nothing
    policy="|".join(AUDIT.policies) or "(?!)",


rule run_pair:
    input:
        contract=CONTRACT,
        hidden=HIDDEN,
        registration=ancient(REGISTRATION),
        packet=PACKET,
        checkpoint=rules.select_checkpoint.output,
    output:
        f"{AUDIT.folder('pairs')}/b{{batch}}.json",
    log:
        f"{LOGS}/pairs/b{{batch}}.log",
    priority: SOON
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
        f"feedback pairs {{params.first}} to {{params.last}} of {AUDIT.count('pairs')}, truthful and neutral"
    shell:
        f"{PYTHON} scripts/run_slots.py {JOB} --stage pairs"
        " --first {params.first} --last {params.last} --output {output:q} > {log:q} 2>&1"


rule run_null_pair:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        packet=PACKET,
    output:
        f"{AUDIT.folder('null_pairs')}/b{{batch}}.json",
    log:
        f"{LOGS}/null_pairs/b{{batch}}.log",
    priority: SOON
    conda:
        "../envs/dcpflow.yaml"
    resources:
        api=AUDIT.api,
        mem_mb=AUDIT.memory_mb,
        runtime=AUDIT.minutes("null_pairs"),
    params:
        first=lambda wildcards: AUDIT.first(wildcards.batch),
        last=lambda wildcards: AUDIT.last(wildcards.batch),
    message:
        f"null pairs {{params.first}} to {{params.last}} of {AUDIT.count('null_pairs')}, two channels without information"
    shell:
        f"{PYTHON} scripts/run_slots.py {JOB} --stage null_pairs"
        " --first {params.first} --last {params.last} --output {output:q} > {log:q} 2>&1"


rule run_misled_null:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        packet=PACKET,
    output:
        f"{AUDIT.folder('misled_nulls')}/b{{batch}}.json",
    log:
        f"{LOGS}/misled_nulls/b{{batch}}.log",
    priority: SOON
    conda:
        "../envs/dcpflow.yaml"
    resources:
        api=AUDIT.api,
        mem_mb=AUDIT.memory_mb,
        runtime=AUDIT.minutes("misled_nulls"),
    params:
        first=lambda wildcards: AUDIT.first(wildcards.batch),
        last=lambda wildcards: AUDIT.last(wildcards.batch),
    message:
        f"misled null episodes {{params.first}} to {{params.last}} of {AUDIT.count('misled_nulls')}"
    shell:
        f"{PYTHON} scripts/run_slots.py {JOB} --stage misled_nulls"
        " --first {params.first} --last {params.last} --output {output:q} > {log:q} 2>&1"


# A replacement takes the first lost pair that none before it has taken: one after the other, behind all pairs.
rule replace_pair:
    input:
        contract=CONTRACT,
        hidden=HIDDEN,
        registration=ancient(REGISTRATION),
        packet=PACKET,
        checkpoint=rules.select_checkpoint.output,
        counts=f"{COUNTS}/pairs.json",
        earlier=lambda wildcards: AUDIT.receipts("pairs")
        + AUDIT.receipts("pair_replacements")[: AUDIT.first(wildcards.batch) - 1],
    output:
        f"{AUDIT.folder('pair_replacements')}/b{{batch}}.json",
    log:
        f"{LOGS}/pair_replacements/b{{batch}}.log",
    priority: SOONEST
    conda:
        "../envs/dcpflow.yaml"
    resources:
        api=AUDIT.api,
        mem_mb=AUDIT.memory_mb,
        runtime=AUDIT.minutes("pair_replacements"),
    params:
        slot=lambda wildcards: AUDIT.first(wildcards.batch),
    message:
        f"replacement {{params.slot}} of at most {AUDIT.count('pair_replacements')} feedback pairs, if one was lost"
    shell:
        f"{PYTHON} scripts/run_replacement.py {JOB} --stage pair_replacements"
        " --slot {params.slot} --output {output:q} --earlier {input.earlier:q} > {log:q} 2>&1"


rule replace_null_pair:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        packet=PACKET,
        counts=f"{COUNTS}/{AUDIT.null_phase}.json",
        earlier=lambda wildcards: AUDIT.receipts("null_pairs")
        + AUDIT.receipts("null_pair_replacements")[: AUDIT.first(wildcards.batch) - 1],
    output:
        f"{AUDIT.folder('null_pair_replacements')}/b{{batch}}.json",
    log:
        f"{LOGS}/null_pair_replacements/b{{batch}}.log",
    priority: SOONEST
    conda:
        "../envs/dcpflow.yaml"
    resources:
        api=AUDIT.api,
        mem_mb=AUDIT.memory_mb,
        runtime=AUDIT.minutes("null_pair_replacements"),
    params:
        slot=lambda wildcards: AUDIT.first(wildcards.batch),
    message:
        f"replacement {{params.slot}} of at most {AUDIT.count('null_pair_replacements')} null pairs, if one was lost"
    shell:
        f"{PYTHON} scripts/run_replacement.py {JOB} --stage null_pair_replacements"
        " --slot {params.slot} --output {output:q} --earlier {input.earlier:q} > {log:q} 2>&1"


rule score_pairs:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        sealed=SEALED,
        receipts=AUDIT.phase_receipts("pairs"),
        counts=f"{COUNTS}/pairs.json",
    output:
        f"{RESULTS}/scores/pairs.json",
    log:
        f"{LOGS}/score_pairs.log",
    priority: SOONEST
    conda:
        "../envs/dcpflow.yaml"
    threads: SCORING_THREADS
    params:
        code=AUDIT.code("stages.scoring"),
    message:
        "Gate 3: sealed scores of both arms of all pairs, in random order"
    shell:
        f"{PYTHON} scripts/score_phase.py {JOB} --phase pairs --threads {{threads}} --output {{output:q}} {{input.receipts:q}} > {{log:q}} 2>&1"


rule run_policy_pair:
    input:
        contract=CONTRACT,
        hidden=HIDDEN,
        registration=ancient(REGISTRATION),
        packet=PACKET,
        checkpoint=rules.select_checkpoint.output,
    output:
        f"{RESULTS}/{{policy}}/b{{batch}}.json",
    log:
        f"{LOGS}/{{policy}}/b{{batch}}.log",
    conda:
        "../envs/dcpflow.yaml"
    resources:
        api=AUDIT.api,
        mem_mb=AUDIT.memory_mb,
        runtime=AUDIT.minutes("pairs"),
    params:
        first=lambda wildcards: AUDIT.first(wildcards.batch),
        last=lambda wildcards: AUDIT.last(wildcards.batch),
        pairs=lambda wildcards: AUDIT.count(wildcards.policy),
    message:
        "pairs {params.first} to {params.last} of {params.pairs} of a further neutral policy: {wildcards.policy}"
    shell:
        f"{PYTHON} scripts/run_slots.py {JOB} --stage {{wildcards.policy}}"
        " --first {params.first} --last {params.last} --output {output:q} > {log:q} 2>&1"


rule score_policy:
    input:
        contract=CONTRACT,
        registration=ancient(REGISTRATION),
        sealed=SEALED,
        receipts=lambda wildcards: AUDIT.phase_receipts(wildcards.policy),
        counts=f"{COUNTS}/{{policy}}.json",
    output:
        f"{RESULTS}/scores/{{policy}}.json",
    log:
        f"{LOGS}/score_policies/{{policy}}.log",
    conda:
        "../envs/dcpflow.yaml"
    threads: SCORING_THREADS
    params:
        code=AUDIT.code("stages.scoring"),
    message:
        "sealed scores of both arms of {wildcards.policy}, in random order"
    shell:
        f"{PYTHON} scripts/score_phase.py {JOB} --phase {{wildcards.policy}} --threads {{threads}} --output {{output:q}} {{input.receipts:q}} > {{log:q}} 2>&1"
