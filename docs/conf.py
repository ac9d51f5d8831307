"""Sphinx configuration of the design reference. It builds without a network, warnings as errors."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from mqdocs import versions

project = "mqspec"
author = "the authors of mqspec"
copyright = f"2026, {author}"  # noqa: A001  (Sphinx's own name)
version = release = installed_version("mqspec")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "mqdocs",
]
if html_baseurl := versions.own_address():  # where it is published, it has a map
    extensions.append("sphinx_sitemap")
    sitemap_url_scheme = "{link}"
    sitemap_locales = [None]  # each language has a map of its own
exclude_patterns = ["_ext", "_templates", "locale"]
nitpicky = True
# Types of other projects and of the standard library: their pages are elsewhere.
nitpick_ignore_regex = [
    (
        r"py:.*",
        r"(_asyncio|argparse|asyncio|collections|contextlib|enum|logging|mmap|msgspec|numpy|pathlib"
        r"|selectors|ssl|struct|typing)\..*",
    ),
    (r"py:.*", r"(Callable|DataclassInstance|Mapping|Path|SSLContext|Sequence|optional)"),
    # Aliases of plain types, which their modules describe, and type variables.
    (
        r"py:class",
        r"(Topic|Group|TopicQueue|Heads|Numbers|Answered|Served|Conversation|ReviveMessage|Visible|[A-Z]"
        r"|mq[\w.]+\.(_\w+|[A-Z]))",
    ),
]
# Annotations name a class by its short name, which some packages share: `Step` is the core's there.
suppress_warnings = ["ref.python"]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

# English, and with -D language=zh_CN Chinese: of these pages no sentence may lack its translation.
mqspec_translated = [
    "index",
    "symptoms",
    "log-lines",
    "faq",
    "guarantees",
    "glossary",
    "getting-started",
    "tour",
    "incidents/*",
    "explorer",
    "how-to/*",
]
locale_dirs = ["locale"]
gettext_compact = False
gettext_location = False
gettext_uuid = False
templates_path = ["_templates"]

html_theme = "furo"
html_title = f"mqspec {release}"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["mqspec.css"]
html_js_files = ["mqspec.js"]
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "native"


def setup(app: Sphinx) -> None:
    """The Chinese book is published in a folder of the English one."""
    app.connect("config-inited", _publish_in_folder)


def _publish_in_folder(_: Sphinx, config: Config) -> None:
    if config.language == "zh_CN" and config.html_baseurl:
        config.html_baseurl += "zh/"
