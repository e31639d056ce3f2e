"""Pages in a browser: Chromium shows them without a complaint, and axe-core finds nothing that keeps anybody out.

Skipped where there is no Chromium, or no axe-core and no npm to fetch it with.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dcpflow.report import page, sheet
from dcpflow.report.material import Material
from dcpflow.report.times import StageTimes, Times
from report.conftest import example, priced

AXE = "axe-core@4.10.3"
PATIENCE = 120
# answers are written into the outer page, from where they can be read
LISTEN = """
window.addEventListener('message', event => {
  const answer = document.createElement('pre');
  answer.className = 'answer';
  answer.textContent = event.data;
  document.body.append(answer);
});
"""
# all parts opened, since what is folded away is looked at too
ASK = """
document.querySelectorAll('details').forEach(part => { part.open = true; });
axe.run(document, { resultTypes: ['violations'] }).then(found => window.parent.postMessage(JSON.stringify({
  page: document.title,
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
    pages: Sequence[bytes], chromium: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Neither a script nor a request that a page's own policy would refuse: both would be told on the console."""
    listening = ("--enable-logging=stderr", "--v=0", "--dump-dom")
    shown = chromium(*listening, _framed(pages, tmp_path, 1280))
    assert shown.stdout.count("<iframe") == len(pages)
    assert "CONSOLE" not in shown.stderr
    asking = [data.replace(b"</main>", b"<img src='http://127.0.0.1:1/x'></main>") for data in pages]
    told = chromium(*listening, _framed(asking, tmp_path, 1280)).stderr
    assert all(f"page{number}.html" in told for number in range(len(pages)))


@pytest.mark.parametrize("width", [1280, 390])
def test_nobody_is_kept_out(
    pages: Sequence[bytes],
    chromium: Callable[..., subprocess.CompletedProcess[str]],
    axe: str,
    tmp_path: Path,
    width: int,
) -> None:
    found = _asked(pages, chromium, axe, tmp_path, width)
    assert len({one["page"] for one in found}) == len(pages)
    for one in found:
        assert one["violations"] == []
        assert one["passed"] > 20
        assert one["needed"] <= one["width"] == width


@pytest.fixture(scope="module")
def pages(small: Material) -> Sequence[bytes]:
    """The report with all that can be added to it, and a page with a figure of each kind."""
    times = Times((StageTimes("challengers", 6, 12.0, 1.0),), 9.0)
    return page.render(small, times, [priced("target", 1, 0.25)]), sheet.render(example())


def _framed(pages: Sequence[bytes], folder: Path, width: int) -> str:
    """The address of a page that shows these in frames.

    Chromium opens no narrow window; a frame can be as narrow as a phone.
    """
    frames = []
    for number, data in enumerate(pages):
        (folder / f"page{number}.html").write_bytes(data)
        frames.append(f'<iframe src="page{number}.html" width="{width}" height="900" style="border: 0"></iframe>')
    outer = folder / "frames.html"
    outer.write_text(f"<!doctype html><body><script>{LISTEN}</script>{''.join(frames)}</body>", "utf-8")
    return outer.as_uri()


def _asked(
    pages: Sequence[bytes],
    chromium: Callable[..., subprocess.CompletedProcess[str]],
    axe: str,
    folder: Path,
    width: int,
) -> list[dict[str, Any]]:
    """Axe's answers on pages, which are given scripts and lose the policy that forbids them."""
    scripts = f"<script>{axe}</script><script>{ASK}</script>"
    scripted = []
    for text in (data.decode() for data in pages):
        without_policy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
        assert without_policy != text
        scripted.append(without_policy.replace("</body>", f"{scripts}</body>").encode())
    opened = _framed(scripted, folder, width)
    shown = chromium("--window-size=1400,900", "--virtual-time-budget=20000", "--dump-dom", opened)
    answers = re.findall(r'<pre class="answer">(.*?)</pre>', shown.stdout, re.DOTALL)
    assert answers, shown.stderr
    return [json.loads(html.unescape(answer)) for answer in answers]
