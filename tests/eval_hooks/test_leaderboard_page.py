"""The page: whole, of one file, harmless whatever the records say; in a real browser sortable and filtered."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from eval_hooks.leaderboard_page import page
from eval_hooks.ranking import boards
from eval_hooks.run_records import Answer, Entrant, Skipped, one_line
from tasks import TASKS

HOSTILE = [
    "</script><script>document.title='x'</script>", '"><img src=x onerror=alert(1)>', "../../x", "a\x00\x1b[2J\nb",
    "\ud800", "x" * 10**6,
]  # fmt: skip


def entrant_of(run, pa, *, step=1, split="eval", protocol="greedy", model="m", part="4x4"):
    spec = json.dumps(TASKS["jigshape"].Spec(grid=4).model_dump(mode="json"))
    scores = {"pa": pa, "em": float(pa == 1)}
    answers = [Answer(f"jigshape-{index}", 0, part, "jigshape", 2, spec, scores) for index in range(5)]
    return Entrant(one_line(run), model, step, protocol, split, {part: answers})


class Page(HTMLParser):
    """Tags with their attributes, text outside of scripts and styles, and whether every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def test_the_page_is_whole_and_reaches_for_nothing_outside():
    text = page(boards([entrant_of("one", 0.5)], {}), [])
    parsed = Page(text)
    assert parsed.open == []
    assert {name for _, attributes in parsed.tags for name in attributes} & {"src", "href", "action"} == set()
    assert "http:" not in text
    assert "https:" not in text
    assert "@import" not in text
    assert "url(" not in text


def test_the_pages_policy_allows_its_own_script_and_no_other():
    text = page(boards([entrant_of("one", 0.5)], {}), [])
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(a["content"] for tag, a in Page(text).tags if tag == "meta" and "http-equiv" in a)
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name[:12]))
def test_a_hostile_name_is_shown_as_text_and_does_nothing(name):
    skipped = [Skipped(one_line(name), one_line(name))]
    plain = Page(page(boards([entrant_of("a", 0.5)], {}), [Skipped("a", "a")]))
    given = [entrant_of(name, 0.5, split=name, protocol=name, model=name, part=name)]
    text = page(boards(given, {}), skipped)
    text.encode("utf-8")
    assert len(text) < 100_000
    parsed = Page(text)
    rows = [tag for tag, _ in plain.tags].count("tr")
    tags = [tag for tag, _ in parsed.tags]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert 0 < tags.count("tr") <= rows
    assert not any(attribute.startswith("on") for _, attributes in parsed.tags for attribute in attributes)
    assert one_line(name, 60) in "".join(parsed.text)
    control = [c for c in text if not c.isprintable() and c != "\n"]
    assert control == []


def test_a_thousand_rows_stay_a_small_page():
    given = [entrant_of(f"run-{index}", 0.5, step=index) for index in range(1000)]
    assert len(page(boards(given, {}), [])) < 5_000_000


def test_sections_carry_what_the_filters_ask_for():
    given = [entrant_of("a", 0.5), entrant_of("b", 0.5, split="test"), entrant_of("c", 0.5, protocol="k=5")]
    parsed = Page(page(boards(given, {}), []))
    sections = [{k: json.loads(v) for k, v in a.items() if k != "id"} for tag, a in parsed.tags if tag == "section"]
    assert {(*s["data-protocol"], *s["data-split"], *s["data-version"]) for s in sections} == {
        ("greedy", "eval", "jigshape 2"),
        ("greedy", "test", "jigshape 2"),
        ("k=5", "eval", "jigshape 2"),
    }
    assert [tag for tag, _ in parsed.tags].count("select") == 3


TRY = """
const table = document.querySelector("section table");
const order = () => [...table.tBodies[0].rows].filter((row) => row.dataset.kind === "run")
  .map((row) => row.cells[1].dataset.value + row.cells[2].dataset.value);
const head = (name) => [...table.querySelectorAll("th button")].find((button) => button.innerText.startsWith(name));
said.start = order();
head("run").click(); said.byRun = order();
head("run").click(); said.byRunDown = order();
head("step").click(); said.byStep = order();
said.sorted = head("step").closest("th").getAttribute("aria-sort");
said.kinds = [...table.tBodies[0].rows].slice(0, 4).map((row) => row.dataset.kind === "run");
head("#").focus(); said.focus = document.activeElement === head("#");
const split = document.querySelector("select[name=split]");
split.value = "test"; split.dispatchEvent(new Event("change"));
said.hidden = [...document.querySelectorAll("section")].map((section) => section.hidden);
const best = document.querySelector("input[name=best]");
best.checked = true; best.dispatchEvent(new Event("change"));
said.best = [...document.querySelectorAll("section:not([hidden]) > .scroll tr[data-kind=run]")]
  .filter((row) => row.offsetParent !== null).length;
said.wide = document.documentElement.scrollWidth <= window.innerWidth;
said.title = document.title;
said.width = window.innerWidth;
"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_sorts_filters_and_has_nothing_to_complain_about(width, browse):
    given = [
        entrant_of("b", 0.75, step=10), entrant_of("a", 0.25, step=9), entrant_of("a", 0.5, step=100),
        entrant_of(HOSTILE[0], 0.5, split="test", model=HOSTILE[1]), entrant_of("a", 0.5, split="test"),
        entrant_of("a", 0.25, split="test", step=2),
    ]  # fmt: skip
    text = page(boards(given, {}), [Skipped(HOSTILE[0], HOSTILE[0])])
    said = browse(text, width, TRY)
    assert said == {
        "start": ["b10", "a100", "a9"],
        "byRun": ["a100", "a9", "b10"],
        "byRunDown": ["b10", "a100", "a9"],
        "byStep": ["a100", "b10", "a9"],
        "sorted": "descending",
        "kinds": [True, True, True, False],
        "focus": True,
        "hidden": [True, False],
        "best": 2,
        "wide": True,
        "title": "Leaderboard",
        "width": width,
    }
