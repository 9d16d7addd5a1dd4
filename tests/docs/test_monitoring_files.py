"""The rules for Prometheus and the dashboard for Grafana name metrics that exist."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/duly.rules.yml"
DASHBOARD = ROOT / "deploy/grafana/duly.json"
METRIC = re.compile(r"\bduly_\w+")
ROW = r"^\| `(duly_\w+)` \| (\w+) \|([^|]*)\|"
# With the labels that are listed for it, and le of histograms.
LISTED = {
    name: {*re.findall(r"`(\w+)`", labels), *(["le"] if kind == "histogram" else [])}
    for name, kind, labels in re.findall(
        r"^\| `(duly_\w+)` \| (\w+) \|([^|]*)\|",
        (ROOT / "docs/metrics.md").read_text(),
        re.MULTILINE,
    )
}
OF_SCRAPE = {"instance"}


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    for panel in panels():
        yield from (target["expr"] for target in panel["targets"])


@pytest.mark.parametrize("expression", list(expressions()))
def test_every_metric_and_label_exists(expression: str) -> None:
    names = {name.removesuffix("_bucket") for name in METRIC.findall(expression)}
    assert names
    assert names <= LISTED.keys()
    labels = set(re.findall(r"(\w+)=~?\"", expression))
    for found in re.findall(r"by \(([^)]*)\)", expression):
        labels |= set(re.split(r",\s*", found))
    assert labels <= set().union(*(LISTED[name] for name in names), OF_SCRAPE)


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {name.removesuffix("_bucket") for one in panels() for target in one["targets"]
             for name in METRIC.findall(target["expr"])}  # fmt: skip
    assert LISTED.keys() - shown == {"duly_info"}


def test_panels_do_not_overlap() -> None:
    places = [
        (column, row)
        for panel in panels()
        for at in [panel["gridPos"]]
        for column in range(at["x"], at["x"] + at["w"])
        for row in range(at["y"], at["y"] + at["h"])
    ]
    assert len(places) == len(set(places))
    assert max(column for column, _ in places) < 24
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_every_rule_says_what_is_wrong() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    assert all(rule["annotations"]["summary"] for rule in rules())


@pytest.mark.skipif(
    not shutil.which("promtool"),
    reason="promtool is not on the PATH (Debian: in the package prometheus)",
)
def test_prometheus_accepts_the_rules_and_expressions(tmp_path: Path) -> None:
    checked = tmp_path / "all.yml"
    texts = [re.sub(r"\$__rate_interval", "5m", one) for one in expressions()]
    recorded = [{"record": f"check:{n}", "expr": text} for n, text in enumerate(texts)]
    checked.write_text(json.dumps({"groups": [{"name": "all", "rules": recorded}]}))
    for file in (RULES, checked):
        done = subprocess.run(
            ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
