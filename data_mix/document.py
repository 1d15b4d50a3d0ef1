"""The frame and the looks of HTML pages for a person: light and dark, on a phone and on a desk."""

from __future__ import annotations

import base64
import hashlib
import html

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --soft: #f1f3f5; --line: #d0d7de; --dim: #57606a;
  --link: #0759b8; --mark: #ffe58a; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e7eb; --paper: #14171a; --soft: #20252a; --line: #3a424a;
  --dim: #9aa5b1; --link: #79b8ff; --mark: #6b5200; --bad: #ff8a80 } }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.5rem; margin: 0 }
h2 { margin: 2.5rem 0 0; border-bottom: 1px solid var(--line) }
h3 { margin: 0; font-size: 1.1rem }
h4 { margin: 1rem 0 .25rem; font-size: .95rem }
a { color: var(--link) }
article { margin: 1.25rem 0; padding: 1rem; border: 1px solid var(--line); border-radius: .5rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; overflow-wrap: normal; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .75rem .2rem 0; text-align: left; border-bottom: 1px solid var(--line) }
th { font-weight: normal; color: var(--dim) }
.turn { margin: .5rem 0; padding: .5rem .75rem; background: var(--soft); border-radius: .375rem }
.role, .note, figcaption, dt, summary { margin: 0; color: var(--dim); font-size: .85rem }
.text { margin: .25rem 0; white-space: pre-wrap }
.answer, dd { font-family: ui-monospace, monospace; font-size: .875rem }
.bad { color: var(--bad); font-weight: bold }
mark { color: inherit; background: var(--mark) }
figure { display: inline-block; margin: .25rem .5rem .25rem 0; max-width: 100%; vertical-align: top }
img { display: block; max-width: 100%; height: auto }
.steps { image-rendering: pixelated }
ul { margin: .5rem 0; padding-left: 1.25rem }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1rem; margin: 0 }
dd { margin: 0 }
"""


def escaped(text: str) -> str:
    """Escaped for HTML, also within quotes; characters that cannot be seen are written as Python escapes."""
    return html.escape("".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text))


def document(title: str, body: str) -> str:
    """A whole page without scripts, whose images may lie beside it."""
    return _document(title, "", STYLE, body)


def sealed_document(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """A whole page of one file: its own policy lets nothing in from outside, and no script run but this one.

    Args:
        style: what is added to STYLE.
    """
    allowed = f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" if script else "'none'"
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed}; base-uri 'none'"
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    return _document(title, head, STYLE + style, f"{body}<script>{script}</script>\n" if script else body)


def _document(title: str, head: str, style: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{head}'
        f"<title>{escaped(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"<h1>{escaped(title)}</h1>\n{body}</body>\n</html>\n"
    )
