import yaml, pytest, json, dataclasses
from pathlib import Path
from dcpflow.bundles import interchange
from dcpflow.bundles.export import export
from dcpflow.bundles.verify import verify
from dcp.api import verify_bundle
SMALL={"challengers": 6,"controls": 4,"pairs": 3,"null_pairs": 4,"misled_null_episodes": 12,"pair_replacements": 0,"null_pair_replacements": 0}
@pytest.mark.parametrize("case", sorted(Path('config/cases').glob('*.yaml')), ids=lambda p:p.stem)
def test_case(case,new_audit,backend,tmp_path):
    s=yaml.safe_load(case.read_text())
    s.pop("execution",None); d=s.setdefault("design",{}); d.update(SMALL); s["isolation"]={"backend":backend}
    a=new_audit(**s); a=dataclasses.replace(a, settings={**a.settings, "task": {**a.settings["task"], "settings": s.get("task",{}).get("settings",{})}}); a.run_all()
    export(a.results,tmp_path/"c.dcp")
    v=verify(tmp_path/"c.dcp"); assert v.ok,v.error
    print(case.stem,v.core["status"],v.evidence["status"], json.loads((a.results/"decision.json").read_text())["core"])
    m=interchange.export(a.results,tmp_path/"o"); assert verify_bundle(tmp_path/"o")["ok"]; w=verify(tmp_path/"o"); assert w.ok,w.error
    print(m)
