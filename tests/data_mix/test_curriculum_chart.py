"""The chart shows each part's share of each phase."""

from xml.etree import ElementTree

from data_mix.curriculum_chart import shares_chart
from data_mix.phases import Phase

SVG = "{http://www.w3.org/2000/svg}"
PHASES = [Phase(0, "one", {"a": 1}), Phase(10, "two", {"a": 1, "<b>": 3}), Phase(40, "later", {"<b>": 1})]


def told(steps):
    root = ElementTree.fromstring(shares_chart(PHASES, ["a", "<b>"], steps))
    areas = [area for area in root.iter(f"{SVG}rect") if area.find(f"{SVG}title") is not None]
    return {area.find(f"{SVG}title").text: (float(area.get("width")), float(area.get("height"))) for area in areas}


def test_an_area_is_as_wide_as_its_phase_is_long_and_as_high_as_its_share():
    assert told(30) == {
        "steps 0 to 9: a 100.0 %": (240, 220),
        "steps 10 to 29: a 25.0 %": (480, 55),
        "steps 10 to 29: <b> 75.0 %": (480, 165),
    }


def test_a_phase_that_is_decided_but_not_begun_is_not_drawn():
    assert list(told(10)) == ["steps 0 to 9: a 100.0 %"]
    assert [name for name in told(50) if "40" in name] == ["steps 40 to 49: <b> 100.0 %"]
