"""The page in a browser: Chromium shows it without a complaint, and axe-core finds nothing that keeps anybody out.

Skipped where there is no Chromium, or no axe-core and no npm to fetch it with.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dcpflow.report import page
from dcpflow.report.material import Material

AXE = "axe-core@4.10.3"
PATIENCE = 120
NARROWEST = 500
# the answer is written into the outer page, from where it can be read
LISTEN = """
window.addEventListener('message', event => {
  const answer = document.createElement('pre');
  answer.id = 'answer';
  answer.textContent = event.data;
  document.body.append(answer);
});
"""
# all parts opened, since what is folded away is looked at too
ASK = """
document.querySelectorAll('details').forEach(part => { part.open = true; });
axe.run(document, { resultTypes: ['violations'] }).then(found => window.parent.postMessage(JSON.stringify({
  width: window.innerWidth,
  needed: document.documentElement.scrollWidth,
  passed: found.passes.length,
  violations: found.violations.map(one => one.id + ': ' + one.nodes.map(node => node.html).join(' ').slice(0, 300)),
}), '*'));
"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("there is no Chromium")
    profile = tmp_path_factory.mktemp("chromium")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
        ]
        return subprocess.run(
            [program, *options, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    return run


@pytest.fixture(scope="module")
def axe(made_once: Callable[..., Path]) -> str:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm to fetch axe-core with")
    install = [npm, "install", "--no-audit", "--no-fund", "--prefer-offline", AXE]

    def fetch(folder: Path) -> None:
        subprocess.run(install, cwd=folder, capture_output=True, timeout=PATIENCE, check=False)

    script = made_once("axe", fetch) / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        pytest.skip("axe-core cannot be fetched")
    return script.read_text("utf-8")


def test_the_browser_has_nothing_to_complain_about(
    small: Material, chromium: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Neither a script nor a request that the page's own policy would refuse: both would be told on the console."""
    path = tmp_path / "report.html"
    path.write_bytes(page.render(small))
    shown = chromium("--enable-logging=stderr", "--v=0", "--dump-dom", path.as_uri())
    assert "What this does not show" in shown.stdout
    assert "CONSOLE" not in shown.stderr
    path.write_bytes(page.render(small).replace(b"</main>", b"<img src='http://127.0.0.1:1/x'></main>"))
    assert "CONSOLE" in chromium("--enable-logging=stderr", "--v=0", "--dump-dom", path.as_uri()).stderr


@pytest.mark.parametrize("width", [1280, 390])
def test_nobody_is_kept_out(
    small: Material, chromium: Callable[..., subprocess.CompletedProcess[str]], axe: str, tmp_path: Path, width: int
) -> None:
    found = _asked(page.render(small).decode(), chromium, axe, tmp_path, width)
    assert found["violations"] == []
    assert found["passed"] > 20
    assert found["needed"] <= found["width"] == width


def _asked(
    text: str, chromium: Callable[..., subprocess.CompletedProcess[str]], axe: str, folder: Path, width: int
) -> dict[str, Any]:
    """Axe's answer on a page, which is given scripts and loses the policy that forbids them.

    Chromium opens no narrow window; a frame can be as narrow as a phone.
    """
    without_policy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert without_policy != text
    scripts = f"<script>{LISTEN}</script><script>{axe}</script><script>{ASK}</script>"
    path, frame = folder / "report.html", folder / "frame.html"
    path.write_text(without_policy.replace("</body>", f"{scripts}</body>"), "utf-8")
    narrow = f'<iframe src="report.html" width="{width}" height="900" style="border: 0"></iframe>'
    frame.write_text(f"<!doctype html><body><script>{LISTEN}</script>{narrow}</body>", "utf-8")
    opened = frame if width < NARROWEST else path
    shown = chromium(f"--window-size={width},900", "--virtual-time-budget=20000", "--dump-dom", opened.as_uri())
    answer = re.search(r'<pre id="answer">(.*?)</pre>', shown.stdout, re.DOTALL)
    assert answer, shown.stderr
    found: dict[str, Any] = json.loads(html.unescape(answer[1]))
    return found
