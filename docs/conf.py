"""The documentation site: ``make docs`` builds it from the pages of the repository.

The pages are plain Markdown that reads well in the repository. Here is what only the site needs:
the navigation, by what a reader wants, and links to files that are no pages.
"""

import re
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx

from duly.version import __version__

ROOT: Final = Path(__file__).parents[1]
HOME: Final = "README"
NAVIGATION: Final = {
    "Start": [
        "docs/from-cron",
        "docs/from-celery-beat",
        "docs/celery",
        "docs/from-apscheduler",
        "docs/from-rq",
        "docs/from-django-tasks-scheduler",
        "examples/README",
        "examples/14_at_six",
    ],
    "Guides": [
        "docs/schedules",
        "docs/time",
        "docs/overlap",
        "docs/workers",
        "docs/retries",
        "docs/limits",
        "docs/flows",
        "docs/events",
        "docs/testing",
        "docs/django",
        "docs/web-frameworks",
        "docs/hand-off",
        "docs/engines",
        "docs/http-worker",
    ],
    "Operate": [
        "docs/deploy",
        "docs/postgresql",
        "docs/operating",
        "docs/incidents",
        "docs/capacity",
        "docs/alerts",
        "docs/observability",
        "docs/dashboard",
    ],
    "Reference": [
        "docs/api",
        "docs/commands",
        "docs/settings",
        "docs/rules",
        "docs/http-api",
        "docs/http-reference",
        "docs/metrics",
        "docs/schema",
        "docs/states",
        "docs/ledger",
        "CHANGELOG",
    ],
    "Why": [
        "docs/promises",
        "docs/comparison",
        "docs/architecture",
        "docs/decisions/README",
        "SECURITY",
        "CONTRIBUTING",
    ],
    "Proof": ["docs/proof", "docs/performance", "docs/scale"],
}

project = "duly"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = HOME
include_patterns = ["*.md", "docs/**", "examples/**"]
html_theme = "furo"
html_title = f"duly {__version__}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
# As the pages of the repository have them: a link to a heading leads there in both.
myst_heading_anchors = 4
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}

_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")


def setup(app: Sphinx) -> None:
    app.connect("source-read", _adapt)
    app.connect("autodoc-skip-member", _skip)
    app.connect("build-finished", _write_front_page)


def _adapt(_: Sphinx, page: str, source: list[str]) -> None:
    folder = (ROOT / page).parent
    # A browser cannot draw Mermaid without a script from elsewhere; its text can be read.
    source[0] = source[0].replace("```mermaid", "```text")
    source[0] = _LINK.sub(lambda found: _link(folder, *found.groups()), source[0])
    if page == HOME:
        source[0] += "".join(map(_section, NAVIGATION))
    if page == "docs/decisions/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"


def _link(folder: Path, text: str, target: str, heading: str | None) -> str:
    """Lead to a page of the site, or name the file of the repository."""
    found = (folder / target).resolve()
    if (found / "README.md").is_file():
        return f"[{text}]({target.rstrip('/')}/README.md)"
    if found.suffix == ".md":
        return f"[{text}]({target}{heading or ''})"
    return f"{text} (`{found.relative_to(ROOT)}`)" if f"`{found.name}`" != text else text


def _skip(_: Sphinx, __: str, name: str, member: object, *___: object) -> bool | None:
    """Leave out async variants, which the page mentions once; else Sphinx decides."""
    is_variant = name.startswith("a") and f".{name}" in getattr(member, "__qualname__", "")
    return True if is_variant and not getattr(member, "__doc__", None) else None


def _section(name: str) -> str:
    """A part of the navigation; a page that no part names is a guide."""
    named = {page for pages in NAVIGATION.values() for page in pages}
    others = {f"docs/{page.stem}" for page in ROOT.glob("docs/*.md")} - named
    found = [*NAVIGATION[name], *(sorted(others) if name == "Guides" else [])]
    pages = "\n".join(f"/{page}" for page in found)
    return f"\n```{{toctree}}\n:hidden:\n:caption: {name}\n\n{pages}\n```\n"


def _write_front_page(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        page = f'<meta http-equiv="refresh" content="0; url={HOME}.html">\n'
        (Path(app.outdir) / "index.html").write_text(page)
