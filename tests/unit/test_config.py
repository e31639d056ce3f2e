"""Reading the configuration: every mistake is named at once, with its key, the rule and the way out."""

from __future__ import annotations

import copy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dcpflow.protocol.config import (
    COMPUTED_FIELDS,
    KEY_OF_FIELD,
    REGISTERED_SECTIONS,
    Config,
    ConfigError,
    all_keys,
    load,
    to_registration,
    value_at,
)
from dcpflow.protocol.registration import Registration, registration_violations

ROOT = Path(__file__).parents[2]


def nested(key: str, value: object) -> dict[str, Any]:
    """{"a": {"b": value}} for "a.b"."""
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


def merged(*settings: dict[str, Any]) -> dict[str, Any]:
    """Key by key, as Snakemake merges configuration files."""
    result: dict[str, Any] = {}
    for setting in copy.deepcopy(settings):
        for key, value in setting.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both else value
    return result


def complaints(*settings: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(merged(*settings))
    lines = str(caught.value).splitlines()
    assert len(lines) == 1 + len(caught.value.problems)  # one line each, below the heading
    return [line.strip() for line in lines[1:]]


def complaint(*settings: dict[str, Any]) -> str:
    (line,) = complaints(*settings)
    return line


# --- what is accepted --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["config.yaml", "cases/demo.yaml"])
def test_the_files_that_ship_are_admissible_registrations(name: str) -> None:
    layers = [yaml.safe_load((ROOT / "config" / layer).read_text("utf-8")) for layer in ("config.yaml", name)]
    config = load(merged(*layers))
    assert registration_violations(to_registration(config)) == ()


def test_default_design_has_the_registered_numbers_of_the_published_case() -> None:
    reg = to_registration(load({}))
    assert (reg.delta_min, reg.epsilon, reg.rho, reg.rho_neutral) == (0.5, 0.005, 0.05, 0.05)
    assert (reg.max_attempts, reg.min_independent, reg.feedback_pairs, reg.null_pairs) == (162, 90, 30, 60)
    assert (reg.max_feedback_replacements, reg.max_null_replacements) == (3, 6)
    assert sum(getattr(reg, name) for name in reg.active_alphas) == pytest.approx(0.05, abs=1e-15)
    assert (reg.delta_evidence, reg.delta_null, reg.feedback_interval_method) == (
        0.34,
        0.17,
        "paired_binary_exact",
    )


def test_demo_uses_neither_slot_nor_results_of_the_default_audit() -> None:
    demo = load(yaml.safe_load((ROOT / "config/cases/demo.yaml").read_text("utf-8")))
    assert demo.claim.slot != Config().claim.slot
    assert demo.execution.results != Config().execution.results


def test_whole_numbers_are_numbers_and_register_like_them() -> None:
    assert load(nested("limits.wall_seconds", 60)).parts() == load({}).parts()


def test_the_command_line_can_choose_no_isolation() -> None:
    # snakemake --config 'isolation={backend: none}' gives nested values as text
    assert load({"isolation": {"backend": "none"}}).isolation.backend == "none"


def test_replacement_policy_follows_from_the_numbers() -> None:
    none = {"design": {"pair_replacements": 0, "null_pair_replacements": 0}}
    assert to_registration(load(none)).replacement_policy == "none"
    assert to_registration(load({})).replacement_policy == "preaction_transport_pair_replacement_v1"


def test_continuous_estimand_brings_its_interval_and_mapping() -> None:
    reg = to_registration(load(nested("thresholds.gate3.estimand", "continuous")))
    assert reg.feedback_interval_method == reg.null_interval_method == "bounded_empirical_bernstein"
    assert reg.utility_mapping == "mean_normalized_private_units_v1"


def test_core_grade_ignores_gate_3() -> None:
    core = {"claim": {"grade": "core"}, "design": {"pairs": 0, "null_pairs": 0, "misled_null_episodes": 0}}
    alphas = {"thresholds": {"alpha": {"recovery": 0.02, "evidence": 0.9}}}
    assert load(merged(core, alphas)).design.pairs == 0


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=2),
    max_leaves=4,
)
PLACES = st.sampled_from(sorted({key for key, _ in all_keys()} | set(Config.model_fields) | {"thresholds.gate2"}))


@settings(deadline=None, database=None)
@given(st.lists(st.tuples(PLACES, JUNK), min_size=1, max_size=4))
def test_whatever_stands_anywhere_is_read_or_refused_with_a_message(settings: list[tuple[str, Any]]) -> None:
    try:
        load(merged(*(nested(key, value) for key, value in settings)))
    except ConfigError as error:
        assert all(problem.fault and problem.remedy for problem in error.problems)
        assert len(str(error).splitlines()) == 1 + len(error.problems)


def test_input_is_left_alone_and_the_result_cannot_be_changed() -> None:
    mapping = {"design": {"challengers": 5, "oops": 1}}
    before = copy.deepcopy(mapping)
    with pytest.raises(ConfigError):
        load(mapping)
    assert mapping == before
    with pytest.raises(ValidationError):
        load({}).design.challengers = 3


# --- the translation to a registration ---------------------------------------------------------------------


def test_every_field_of_the_registration_has_one_origin() -> None:
    keys = {key for key, _ in all_keys()}
    assert set(KEY_OF_FIELD.values()) <= keys
    assert len(set(KEY_OF_FIELD.values())) == len(KEY_OF_FIELD)
    assert not set(KEY_OF_FIELD) & set(COMPUTED_FIELDS)
    assert set(KEY_OF_FIELD) | set(COMPUTED_FIELDS) <= {f.name for f in fields(Registration)}


@pytest.mark.parametrize("field", sorted(KEY_OF_FIELD))
def test_each_key_reaches_its_field(field: str) -> None:
    config, key = Config(), KEY_OF_FIELD[field]
    marker = object()
    *parents, last = key.split(".")
    part = config
    chain = [config]
    for name in parents:
        part = getattr(part, name)
        chain.append(part)
    value: object = marker
    for model, name in zip(reversed(chain), reversed([*parents, last]), strict=True):
        value = model.model_copy(update={name: value})
    assert isinstance(value, Config)
    if field == "feedback_estimand":  # decides the interval, so that it must be a known one
        assert to_registration(config).feedback_estimand == value_at(config, key)
    else:
        assert getattr(to_registration(value), field) is marker


def test_digests_are_all_given_or_none() -> None:
    computed = {name: f"digest of {name}" for name in COMPUTED_FIELDS}
    reg = to_registration(Config(), computed, checkpoint_scope="lineage_empty")
    assert reg.challenger_contract_digest == "digest of challenger_contract_digest"
    assert reg.checkpoint_scope == "lineage_empty"
    del computed["slot_receipt"]
    with pytest.raises(ValueError, match="slot_receipt"):
        to_registration(Config(), computed)


def test_execution_is_not_registered() -> None:
    edited = load({"execution": {"results": "elsewhere", "episodes_per_job": 1, "public_randomness": "beacon 7"}})
    assert edited.parts() == load({}).parts()
    assert tuple(edited.parts()) == REGISTERED_SECTIONS


# --- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "rule", "allowed"),
    [
        ("claim.id", "two words", "R1", "without blanks"),
        ("agent.model_id", "Unspecified", "R2", "given"),
        ("claim.grade", "gold", "R3", "core or evidence"),
        ("thresholds.inference.method", "bounded_empirical_bernstein", "R4", "finite_set_exact"),
        ("thresholds.gate1.delta_min", 0, "R5", "above 0"),
        ("thresholds.gate2.kappa", 1.0, "R5", "below 1"),
        ("thresholds.gate2.rho", 0.0501, "R6", "at most 0.05"),
        ("thresholds.gate2.m_max", 0, "R6", "at least 1"),
        ("thresholds.controls.recall_min", 0.79, "R7", "0.8"),
        ("thresholds.gate2.min_valid_candidate_rate", 0.49, "R7", "0.5"),
        ("thresholds.gate2.max_model_failure_rate", 0.21, "R7", "0.2"),
        ("thresholds.gate2.max_contract_violation_rate", 0.01, "R7", "exactly 0"),
        ("thresholds.alpha.main", 0.006, "R8", "sum of the active alphas, 0.051"),
        (
            "thresholds.alpha.family_max_audits",
            2,
            "R9",
            "thresholds.alpha.total * thresholds.alpha.family_max_audits",
        ),
        ("thresholds.gate3.delta_sham", 0.18, "R12", "half of thresholds.gate3.delta_evidence"),
        ("design.pairs", 1, "R14", "at least 2"),
        ("design.pair_replacements", 4, "R15", "at most 3"),
        ("design.null_pair_replacements", 13, "R15", "at most 12"),
        ("thresholds.gate3.min_arm_valid_rate", 0.4, "R19", "0.5"),
    ],
)
def test_floors_and_caps_name_key_value_range_and_rule(key: str, value: object, rule: str, allowed: str) -> None:
    lines = complaints(nested(key, value), {"design": {"null_pair_replacements": 0}} if key == "design.pairs" else {})
    line = next(line for line in lines if rule in line)
    assert line.startswith(tuple(KEY_OF_FIELD.values()))
    assert f"(registration rule {rule})" in line
    assert allowed in line


def test_necessity_needs_the_evidence_grade() -> None:
    line = complaint({"claim": {"grade": "core", "necessity": True}})
    assert line.startswith("claim.necessity = true") and "R10" in line and "set claim.grade to evidence" in line


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("thresholds: {gate2: {kappa: 1e-3}}", "write 1.0e-3, not 1e-3"),
        ("thresholds: {gate2: {rho: '0.04'}}", "without quotes"),
        ("design: {pairs: '30'}", "--configfile"),
        ("design: {challengers: true}", "true and false are no numbers"),
        ("thresholds: {gate2: {rho: false}}", "true and false are no numbers"),
        ("design: {challengers: 96.0}", "write 96 without a decimal point"),
        ("claim: {necessity: 1}", "must be true or false"),
        ("claim: {necessity: 'true'}", "without quotes"),
        ("claim: {slot: 7}", "put it in quotes"),
        ("claim: {slot: 2026-01-01}", "put it in quotes"),
        ("claim: {earlier_audits: audit-0}", "as a list: [first, second]"),
        ("claim: {statement: ' '}", "must be one line of text"),
        ("isolation: {backend: }", "write the word none"),
        ("isolation: {backend: bublewrap}", "did you mean bubblewrap?"),
        ("isolation: none", "isolation={backend: ...}"),
        ("thresholds: {gate1: }", "the section is empty"),
        ("design: 5", "must be a section"),
        ("thresholds: {gate2: {rho: .nan}}", "at most 0.05 (registration rule R6)"),
        ("execution: {public_randomness: 5}", "put it in quotes"),
        ("limits: {memory_mb: 0}", "from 64 up to"),
        ("task: {settings: {rows: {first: 2026-01-01}}}", "task.settings.rows.first = "),
        ("task: {settings: {rows: [1, .inf]}}", "task.settings.rows.1 = "),
        ("task: {settings: {1: a}}", "text as keys"),
        ("agent: {settings: {seed: 9007199254740993}}", "as text, in quotes"),
    ],
)
def test_traps_of_yaml_and_of_the_command_line_have_a_way_out(text: str, advice: str) -> None:
    assert advice in complaint(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("desing", "did you mean design?"),
        ("thresholds.gate2.rhoo", "did you mean thresholds.gate2.rho?"),
        ("design.m_max", "did you mean thresholds.gate2.m_max?"),
        ("rho_placebo", "did you mean thresholds.gate3.rho_placebo?"),
        ("thresholds.limits", "did you mean limits?"),
        ("isolation.zzz", "known here: backend"),
    ],
)
def test_unknown_keys_are_errors_with_a_guess(key: str, meant: str) -> None:
    assert complaint(nested(key, 1)) == f"{key}: unknown key; {meant}"


@pytest.mark.parametrize("mapping", [None, [], "text"])
def test_a_file_that_holds_no_sections(mapping: Any) -> None:
    with pytest.raises(ConfigError, match="must be a mapping"):
        load(mapping)


def test_keys_that_are_no_text() -> None:
    assert "a key must be text" in complaint({1: 2})


def test_everything_is_named_at_once() -> None:
    text = """
    claim: {id: a b, slot: 1, earlier_audits: x}
    thresholds: {gate2: {rho: 0.2, kapa: 0.1}, controls: {recall_min: 0.5}}
    design: {challengers: many}
    limits: {experiment_seconds: 90}
    """
    found = {line.split(" ")[0].rstrip(":") for line in complaints(yaml.safe_load(text))}
    assert found == {
        "claim.id",
        "claim.slot",
        "claim.earlier_audits",
        "thresholds.gate2.rho",
        "thresholds.gate2.kapa",
        "thresholds.controls.recall_min",
        "design.challengers",
        "limits.experiment_seconds",
    }


@pytest.mark.parametrize(
    ("text", "key"),
    [
        # With the default of 0.34 in the place of the typo, 0.2 would be called more than half of it.
        ("thresholds: {gate3: {delta_sham: 0.2, delta_evidense: 0.5}}", "thresholds.gate3.delta_evidense"),
        (
            "thresholds: {inference: {scope: sampled_populaton, method: bounded_empirical_bernstein}}",
            "thresholds.inference.scope",
        ),
        ("limits: {experiment_seconds: 90, wall_seconds: '100'}", "limits.wall_seconds"),
    ],
)
def test_no_comparison_with_a_value_that_the_user_did_not_mean(text: str, key: str) -> None:
    assert complaint(yaml.safe_load(text)).startswith(key)


@pytest.mark.parametrize(
    ("attribution", "assistance", "fine"),
    [
        ("autonomous_agent", "operational", True),
        ("autonomous_agent", "fixed_scientific", False),
        ("autonomous_agent", "adaptive_scientific", False),
        ("agent_given_fixed_human_input", "fixed_scientific", True),
        ("agent_given_fixed_human_input", "adaptive_scientific", False),
        ("human_agent_joint", "none", True),
        ("human_agent_joint", "adaptive_scientific", True),
    ],
)
def test_pairing_of_attribution_and_assistance(attribution: str, assistance: str, fine: bool) -> None:
    claim = {"claim": {"attribution": attribution, "human_assistance": assistance}}
    if fine:
        assert load(claim).claim.attribution == attribution
    else:
        assert "set claim.attribution to " in complaint(claim)


def test_slots_and_the_family_budget() -> None:
    second = {"claim": {"slot": "audit-2", "earlier_audits": ["audit-1"]}}
    assert "this is audit 2 of the family" in complaint(second)
    shares = {
        "total": 0.025,
        "recovery": 0.001,
        "evidence": 0.0025,
        "sham": 0.0025,
        "neutral": 0.0025,
        "main": 0.0025,
    }
    alpha = {"thresholds": {"alpha": {**shares, "family_max_audits": 2}}}
    assert load(merged(second, alpha)).claim.earlier_audits == ("audit-1",)
    again = {"claim": {"earlier_audits": ["audit-2"]}}
    assert "stands twice" in complaint(second, again, alpha)
    assert "R1" in complaint(second, {"claim": {"earlier_audits": ["audit 1"]}}, alpha)


def test_looks_rise_to_all_challengers() -> None:
    assert load({"design": {"gate2_looks": [32, 64, 96]}}).parts()["design"]["gate2_looks"] == [32, 64, 96]
    for looks in ([32, 64], [96], [0, 96], [64, 32, 96], [48, 48, 96], []):
        assert "design.gate2_looks" in complaint({"design": {"gate2_looks": looks}}), looks
    assert "a list of whole numbers or null" in complaint({"design": {"gate2_looks": ["x"]}})


def test_looks_at_pairs_go_with_a_bet_and_without_replacements_and_necessity() -> None:
    looks = {"design": {"pair_looks": [15, 30], "pair_replacements": 0}, "thresholds": {"gate3": {"bet": 0.9}}}
    registered = to_registration(load(looks))
    assert (registered.feedback_looks, registered.bet) == ((15, 30), 0.9)
    assert (registered.feedback_interval_method, registered.null_interval_method) == (
        "betting_sequence",
        "paired_binary_exact",
    )
    for change, words in (
        ({"design": {"pair_looks": [15, 20]}}, "design.pair_looks"),
        ({"design": {"pair_looks": None}}, "give both"),
        ({"thresholds": {"gate3": {"bet": None}}}, "give both"),
        ({"thresholds": {"gate3": {"bet": 1.0}}}, "above 0 and below 1 or null"),
        ({"design": {"pair_replacements": 3}}, "must be 0 with design.pair_looks"),
        ({"claim": {"necessity": True}}, "a fixed number of neutral branches"),
    ):
        assert words in complaint(looks, change), words
    assert not {"pair_looks", "gate2_looks"} & load({}).parts()["design"].keys()
    assert "bet" not in load({}).parts()["thresholds"]["gate3"]


def test_one_look_is_registered_as_it_was_before_there_were_several() -> None:
    assert "gate2_looks" not in load({"design": {"gate2_looks": None}}).parts()["design"]


def test_roles_of_an_audit_by_another_party() -> None:
    alone = {"claim": {"roles": {"self_audited": False, "claimant": "Ada", "auditor": "ada "}}}
    assert "the same name" in complaint(alone)
    assert not load(merged(alone, {"claim": {"roles": {"auditor": "Grace"}}})).claim.roles.self_audited


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("limits: {candidate_bytes: 65536}", "limits.candidate_bytes"),
        ("design: {misled_null_episodes: 8}", "thresholds.gate3.misled_min_misses"),
        ("execution: {results: 'out/{case}'}", "execution.results"),
        ("execution: {results: ../out}", "execution.results"),
        ("execution: {results: .}", "execution.results"),
        ("execution: {nonce_file: results/mine.nonce}", "execution.nonce_file"),
        ("execution: {results: config, nonce_file: config/nonces/n}", "execution.nonce_file"),
        ("execution: {registry: results/registry}", "execution.registry"),
    ],
)
def test_values_that_cannot_stand_together(text: str, key: str) -> None:
    assert complaint(yaml.safe_load(text)).startswith(f"{key} = ")


# --- the Web -----------------------------------------------------------------------------------------------


def test_without_the_web_the_contract_says_nothing_of_it() -> None:
    assert load({"information": {"web": None}}).parts()["information"] == {"checkpoint": "before_first_experiment"}
    assert load({}).parts()["information"]["web"]["site"] == "sqlite-notes.test"


@pytest.mark.parametrize(
    ("web", "key", "said"),
    [
        ({"https_hosts": ["https://a.test"]}, "https_hosts", "host name"),
        ({"https_hosts": ["a.test", "A.test"]}, "https_hosts", "host name"),
        ({"https_hosts": ["a.test:443"]}, "https_hosts", "host name"),
        ({"https_hosts": ["*.a.test"]}, "https_hosts", "host name"),
        ({"http_hosts": ["127.0.0.1"]}, "http_hosts", "host name"),
        ({"http_hosts": ["::1"]}, "http_hosts", "host name"),
        ({"http_hosts": [""]}, "http_hosts", "host name"),
        ({"https_hosts": ["b\u00fccher.test"]}, "https_hosts", "host name"),
        ({"http_hosts": ["sqlite-notes.test"]}, "http_hosts", "pages on this machine"),
        ({"site": None}, "", "names no site and no host"),
        ({"text_bytes": 16_385}, "text_bytes", "a quarter of limits.message_bytes"),
        ({"requests": 0}, "requests", "from 1"),
        ({"fetch_seconds": 61}, "fetch_seconds", "limits.wall_seconds"),
        ({"fetch_seconds": 0}, "fetch_seconds", "above 0"),
        ({"ports": [8080]}, "ports", "unknown key"),
    ],
    ids=str,
)
def test_what_is_said_of_the_web_is_checked(web: dict[str, Any], key: str, said: str) -> None:
    line = complaint({"information": {"web": web}})
    assert line.startswith(f"information.web.{key}".rstrip("."))
    assert said in line


def test_all_pages_together_fit_into_a_first_message() -> None:
    many = {"information": {"web": {"requests": 1_000}}}
    assert load(merged(many, nested("limits.message_bytes", 65_536))).information.web
    line = complaint(
        merged(many, {"information": {"web": {"text_bytes": 16_800}}}, nested("limits.message_bytes", 2**20))
    )
    assert line.startswith("information.web.requests") and "all pages are given as files" in line


@pytest.mark.parametrize("web", [True, "null", [], 7])
def test_the_web_is_a_section_or_null(web: object) -> None:
    assert "must be a section" in complaint({"information": {"web": web}})


def test_registered_hosts_have_the_form_in_which_addresses_have_them() -> None:
    from dcpflow.records.urls import canonical

    for host in ("a.test", "xn--bcher-kva.test", "a-b.c_d.test", "localhost", "a1.test"):
        assert load({"information": {"web": {"https_hosts": [host]}}}).information.web
        assert canonical(f"https://{host}/") == f"https://{host}/"


# --- agents of four kinds, and what they may cost ----------------------------------------------------------

PROGRAM = {"command": ["{python}", "/agent/mine.py"], "files": ["agents/mine.py"]}
ASKED = {"base_url": "https://api.example.org/v1"}


@pytest.mark.parametrize(
    "agent",
    [
        {"kind": "command", "program": PROGRAM},
        {"kind": "command", "program": PROGRAM, "model": ASKED},
        {"kind": "mcp", "program": PROGRAM | {"command": ["host", "{mcp}", "{model}"]}, "model": ASKED},
        {"kind": "mcp", "program": PROGRAM | {"mounts": ["/opt/host"], "environment": {"URL": "{mcp}"}}},
        {"kind": "chat", "model": ASKED},
        {"kind": "chat", "model": {"base_url": "http://127.0.0.1:8000/v1"}},
    ],
)
def test_agents_that_can_be_started(agent: dict[str, Any]) -> None:
    assert load({"agent": agent}).agent.kind == agent["kind"]


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        ({"kind": "command"}, "agent.program.command: names no program"),
        ({"kind": "mcp", "program": {"files": ["a.py"]}}, "agent.program.command: names no program"),
        ({"kind": "builtin", "program": PROGRAM}, "agent.program: goes with the kinds command and mcp"),
        ({"kind": "builtin", "model": ASKED}, "agent.model: an agent that ships with dcpflow asks no model"),
        ({"kind": "chat"}, "agent.model: is missing"),
        ({"kind": "chat", "model": {"base_url": "api.example.org"}}, "must be an address with http or https"),
        ({"kind": "chat", "model": {"base_url": "https://me:pw@api.example.org"}}, "must be an address"),
        ({"kind": "chat", "model": {"base_url": "http://api.example.org/v1"}}, "must be https"),
        ({"kind": "command", "program": PROGRAM | {"command": ["x", "{model}"]}}, "does not have: {model}"),
        ({"kind": "command", "program": PROGRAM | {"environment": {"U": "{mcp}"}}}, "does not have: {mcp}"),
        ({"kind": "command", "program": PROGRAM | {"environment": {"A=B": ""}}}, "name of an environment variable"),
        ({"kind": "command", "program": PROGRAM | {"files": ["/etc/passwd"]}}, "below the folder of the Snakefile"),
        ({"kind": "command", "program": PROGRAM | {"files": ["../mine.py"]}}, "below the folder of the Snakefile"),
        (
            {"kind": "command", "program": PROGRAM | {"files": ["a/x.py", "b/x.py"]}},
            "second file that would be /agent/x",
        ),
        ({"kind": "command", "program": PROGRAM | {"mounts": ["opt"]}}, "must be an absolute path"),
        ({"kind": "command", "program": PROGRAM | {"mounts": ["/proc/1"]}}, "the sandbox has its own there"),
    ],
)
def test_agents_that_cannot(agent: dict[str, Any], says: str) -> None:
    assert says in complaint({"agent": agent})


@pytest.mark.parametrize(
    ("budget", "agent", "says"),
    [
        (
            {"max_usd": 5.0, "input_usd": 1.0},
            {"kind": "chat", "model": ASKED},
            "budget.max_usd_per_episode: is missing",
        ),
        ({"max_usd_per_episode": 5.0}, {"kind": "chat", "model": ASKED}, "says nothing while the model has no price"),
        ({"max_usd_per_episode": 5.0, "output_usd": 1.0}, {}, "limits what agent.model costs, and there is none"),
    ],
)
def test_budgets_that_limit_nothing(budget: dict[str, Any], agent: dict[str, Any], says: str) -> None:
    assert says in complaint({"budget": budget, "agent": agent})


def test_an_agent_without_program_and_model_has_the_contract_that_it_had() -> None:
    assert load({}).parts()["agent"].keys() == {"kind", "name", "model_id", "settings"}
