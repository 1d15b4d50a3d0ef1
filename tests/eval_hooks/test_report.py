"""The report: what its numbers are, and a page that is whole, harmless and readable."""

import dataclasses
import json
import shlex

import pytest

from eval_hooks.intervals import Estimate
from eval_hooks.records import score_completion, write_records
from eval_hooks.report import main
from eval_hooks.report_chart import Series, curve
from eval_hooks.report_numbers import Place, pairs, part_numbers, places
from eval_hooks.report_tables import clip_shown
from recipes.loader import to_yaml

HOSTILE = '</script><img src=x onerror="document.title=1"> <!-- \x1b[2J \ud800 \u202e'
TWINS = (
    "data.parts.2x2_straight={task: jigshape, count: 4, paired_with: 2x2, "
    "spec: {grid: 2, shape: false, piece_px: 17, tab_ratio: 0.47}}"
)


@pytest.fixture
def answered(mixture_of, completion_of):
    """`answered(count, *overrides, texts=[...])`: records of gold answers, but where a text is given."""

    def build(count, *overrides, texts=(), **about):
        puzzles = list(mixture_of(count, *overrides))
        golds = [posed.task.gold(posed.puzzle.target) for posed in puzzles]
        answers = [*texts, *golds[len(texts) :]]
        return [
            score_completion(posed, completion_of(text), **{"model": "m", "step": 7} | about)
            for posed, text in zip(puzzles, answers, strict=True)
        ]

    return build


@pytest.fixture
def page_of(recipe_of, in_tmp_path, read_page):
    """`page_of(records, *words, recipe=True)`: the page of these records, in a run's folder or in none."""

    def build(records, *words, recipe=True):
        run = in_tmp_path / "run"
        file = run / "records" / "final.jsonl"
        write_records(file, records)
        if recipe:
            (run / "recipe.yaml").write_text(to_yaml(recipe_of()), encoding="utf-8")
            (run / "environment.json").write_text('{"git_commit": "1a2b3c"}', encoding="utf-8")
        assert main([f"records={file}", *words]) == 0
        text = file.with_suffix(".html").read_text(encoding="utf-8")
        return text, read_page(text)

    return build


def by_part(records):
    return {part: [r for r in records if r.part == part] for part in dict.fromkeys(r.part for r in records)}


def numbers_of(records, solved=None):
    return {part: part_numbers(part, own, solved or {}) for part, own in by_part(records).items()}


def test_a_report_shows_scores_references_pictures_prompt_and_how_to_reproduce(answered, page_of):
    records = answered(3, texts=["no idea"])
    _, page = page_of(records)
    assert "2x2" in page.words
    assert "flats only guesser" in page.words
    assert "no_json" in page.words
    assert "no idea" in page.words
    assert "[image]" in page.words
    assert "python -m eval_hooks.report records=" in page.words
    assert "greedy" in page.words
    assert "git_commit" in page.words
    maps = 3  # displacement of both parts, fits of one
    assert len(page.of("img")) == len(records) + maps
    assert len(page.of("article")) == len(records)


def test_without_the_photos_the_page_has_no_pictures_of_them_and_says_so(answered, page_of):
    records = answered(2)
    _, page = page_of(records, recipe=False)
    assert "Without pictures of photos: no recipe was named" in page.words
    assert [image for image in page.of("img") if image["alt"] == "the answer, drawn"] == []
    assert len(page.of("article")) == len(records)
    other = [dataclasses.replace(record, photo_id=record.photo_id and "gone") for record in records]
    _, page = page_of(other)
    assert "No picture: its photo is not among those of the recipe on this machine" in page.words


@pytest.mark.parametrize("text", [HOSTILE, HOSTILE * 20_000, "a" * 10**6], ids=["once", "often", "long"])
def test_a_hostile_completion_and_name_are_text_and_no_more(text, answered, page_of):
    plain, _ = page_of(answered(2, texts=["x"], model="m"))
    hostile, page = page_of(answered(2, texts=[text], model=text, protocol=text))
    assert page.of("script") == []
    assert len(page.of("img")) == len(page_of(answered(2, texts=["x"]))[1].of("img"))
    assert len(hostile) < len(plain) + 100_000
    assert [c for c in hostile if not c.isprintable() and c != "\n"] == []
    assert page.words.count(text[:8]) > 2  # title, completion, model


def test_the_commands_to_copy_choose_the_same_answers_as_the_page(answered, page_of):
    records = [*answered(1), *answered(1, model="a b")]
    _, page = page_of(records, "model=a b", "part=2x2")
    for name in ("report", "diagnose"):
        (line,) = [line for line in page.words.splitlines() if f"-m eval_hooks.{name} " in line]
        assert {"model=a b", "part=2x2"} < set(shlex.split(line))


def test_a_command_to_copy_runs_nothing_that_a_record_names(answered, page_of):
    records = [dataclasses.replace(r, split="eval; rm -rf ~\nreboot #'") for r in answered(1)]
    _, page = page_of(records)
    (line,) = [line for line in page.words.splitlines() if "eval_hooks.baselines" in line]
    assert shlex.split(line)[-2:] == ["split=eval; rm -rf ~ reboot #'", "count=1"]


def test_a_report_of_votes_tells_how_the_answers_are_asked_and_voted_on(answered, page_of):
    _, page = page_of(answered(1, protocol="sampled t=1 p=1 vote of 8"))
    lines = page.words.splitlines()
    asked = next(at for at, line in enumerate(lines) if "-m eval_hooks.run " in line)
    assert "eval.samples=8" in lines[asked].split()
    assert lines[asked + 2] == "python -m eval_hooks.votes records=RECORDS"


def test_parts_that_share_photos_and_seeds_are_compared_puzzle_by_puzzle(answered):
    records = answered(3, TWINS, "data.parts.missing=null")
    wrong = json.dumps({str(i): c for i, c in enumerate(records[0].target["cells"][::-1])})
    records = answered(3, TWINS, "data.parts.missing=null", texts=[wrong])
    (pair,) = pairs(by_part(records), numbers_of(records))
    assert (pair.base, pair.twin) == ("2x2", "2x2_straight")
    assert pair.changed["shape"] == (True, False)
    found = pair.differences["em"]
    assert (found.n, found.one, found.other) == (3, 2 / 3, 1)
    assert found.difference == pytest.approx(-1 / 3)
    assert next(iter(pair.differences)) == "pa"


def test_parts_that_share_no_puzzle_are_no_twins(answered):
    records = answered(2)
    assert pairs(by_part(records), numbers_of(records)) == []


def test_scores_have_the_primary_first_and_stand_beside_guessers_programs_and_published_figures(answered):
    records = by_part(answered(2))["2x2"]
    solved = {("joint solver", record.key): {"pa": 1.0} for record in records}
    own = part_numbers("2x2", records, solved)
    assert next(iter(own.scores)) == "pa"
    assert {ref.name: ref.kind for ref in own.references} == {
        "random": "guesser", "flats only": "guesser", "joint solver": "program",
    }  # fmt: skip
    assert own.primary.mean == 1
    assert own.primary.low < 1


def test_answers_without_the_score_that_ranks_are_refused(answered):
    record = answered(1, "data.parts.missing=null")[0]
    with pytest.raises(ValueError, match="without a score pa"):
        part_numbers("2x2", [dataclasses.replace(record, scores={"em": 1.0})], {})


def test_published_figures_stand_beside_puzzles_of_their_kind_alone(answered):
    like_the_paper = "data.parts.4x4={task: jigshape, count: 4, spec: {grid: 4}}"
    records = by_part(answered(1, like_the_paper, "data.photos.min_piece_px=8"))["4x4"]
    own = part_numbers("4x4", records, {})
    assert {"GPT-5.5 zero-shot", "Qwen3-VL-8B SFT"} <= {r.name for r in own.references if r.kind == "published"}
    votes = [dataclasses.replace(record, protocol="votes") for record in records]
    assert [r for r in part_numbers("4x4", votes, {}).references if r.kind == "published"] == []


def test_lines_join_parts_that_differ_in_one_number_alone(answered):
    own = next(iter(numbers_of(answered(1)).values()))

    def part(**changes):
        return dataclasses.replace(own, spec={"grid": 4, "clues": 0, "shape": True, "noise": 0.0} | changes)

    grids = {"big": part(grid=8), "straight": part(shape=False), "small": part(), "huge": part(grid=16)}
    curve = [Place("small", False), Place("big", True), Place("huge", True)]
    assert places(grids) == [*curve, Place("straight", False)]
    assert places(grids | {"loud": part(grid=16, noise=9.0), "odd": part(grid=2, clues=1, noise=1.0)}) == [
        *curve, Place("straight", False), Place("loud", False), Place("odd", False),
    ]  # fmt: skip
    hints = {"c32": part(grid=8, clues=32), "c16": part(grid=8, clues=16), "c48": part(grid=8, clues=48)}
    assert places(grids | hints) == [
        Place("big", False), Place("c16", True), Place("c32", True), Place("c48", True), Place("straight", False),
        Place("small", False), Place("huge", True),
    ]  # fmt: skip
    assert places({"a": part(), "b": part()}) == [Place("a", False), Place("b", False)]


def test_a_chart_has_a_mark_for_every_point_and_escapes_its_labels(read_page):
    point = Estimate(0.5, 0.4, 0.6, 9)
    chart = curve(
        ["<b>", "y"], [False, True], [Series("<i>", "run", [point, None]), Series("g", "guesser", [point] * 2)], "w"
    )
    page = read_page(chart)
    assert len([a for a in page.of("path") if a.get("class") == "mark"]) == 3 + 2  # two in the legend
    assert page.of("b") == page.of("i") == []
    assert "<b>" in page.words


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["records=none.jsonl"], 'records: got "none.jsonl"'),
        (["records={file}", "out={file}"], "out: got"),
        (["records={file}", "cases=no"], 'cases: got "no"'),
        (["records={file}", "prat=2x2"], "did you mean part"),
        (["records={file}", "part=3x3"], 'part: got "3x3"'),
        (["records={file}", "recipe=nothing"], "recipe"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_refused_with_advice(words, told, answered, in_tmp_path, capsys):
    file = in_tmp_path / "some.jsonl"
    write_records(file, answered(1))
    assert main([word.format(file=file) for word in words]) == 2
    assert told in capsys.readouterr().err
    assert list(in_tmp_path.glob("*.html")) == []


def test_a_thousand_records_are_less_than_five_megabytes(answered, page_of):
    some = answered(2, texts=["a" * 5000])
    many = [dataclasses.replace(record, sample=sample) for record in some for sample in range(250)]
    assert len(many) == 1000
    text, _ = page_of(many, "cases=20")
    assert len(text.encode()) < 5_000_000


def test_texts_of_escapes_alone_and_any_number_of_cases_stay_below_five_megabytes(answered, page_of, caplog):
    some = answered(2, texts=["\U000e0001" * 3000] * 4)
    many = [dataclasses.replace(record, sample=sample) for record in some for sample in range(61)]
    text, page = page_of(many, "cases=1000", recipe=False)
    assert len(text.encode()) < 5_000_000
    assert len(page.of("article")) == 240
    assert "40 of each kind are shown" in caplog.text


def test_a_text_is_clipped_by_what_it_takes_on_the_page():
    assert clip_shown("<b>", 9) == "&lt;b&gt;"
    assert clip_shown("<b>", 8) == "&lt;b … and 1 more characters"
    assert clip_shown("中中", 3) == "中 … and 1 more characters"
    assert clip_shown("\ud800", 3) == " … and 1 more characters"


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_it_without_complaint_and_never_wider_than_the_screen(width, answered, page_of, browse):
    text, _ = page_of(answered(2, TWINS, texts=[HOSTILE, "x" * 10**5]))
    look = """
      said.title = document.title;
      said.fits = document.documentElement.scrollWidth <= window.innerWidth;
      said.broken = [...document.images].filter((image) => image.complete && !image.naturalWidth).length;
      said.width = window.innerWidth
    """
    assert browse(text, width, look) == {"title": "m, step 7", "fits": True, "broken": 0, "width": width}
