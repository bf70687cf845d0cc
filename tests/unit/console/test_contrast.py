"""Text can be read on what is behind it, in both themes, whatever colours a program chose."""

from __future__ import annotations

import re
from itertools import product

import pytest

from tests.unit.console.javascript import STATIC, ask

Rgb = tuple[float, ...]

LEAST_OF_TEXT = 4.5
LEAST_OF_EDGES = 3.0
COLOURS = [None, *(str(number) for number in range(16)), "#123456", "#ff0000"]


def rules(name: str) -> dict[str, dict[str, str]]:
    """Return what each selector of a style sheet declares; what is in a media query is left out."""
    text = re.sub(r"/\*.*?\*/", "", (STATIC / name).read_text(), flags=re.S)
    found: dict[str, dict[str, str]] = {}
    for selectors, body in re.findall(r"^([^\s@}][^{}]*)\{([^{}]*)\}", text, flags=re.M):
        declared = dict(re.findall(r"([\w-]+):\s*([^;]+);", body))
        for selector in selectors.split(","):
            found.setdefault(selector.strip(), {}).update(declared)
    return found


STYLE, OUTPUT = rules("style.css"), rules("components/output.css")
THEMES = {"light": STYLE[":root"], "dark": STYLE[":root"] | STYLE[":root[data-theme='dark']"]}


def colour(value: str, names: dict[str, str]) -> Rgb:
    """Compute a colour the way a browser does."""
    if named := re.fullmatch(r"var\((--[\w-]+)\)", value):
        return colour(names[named[1]], names)
    if mixed := re.fullmatch(r"color-mix\(in srgb, (.+) (\d+)%, (.+)\)", value):
        part = int(mixed[2]) / 100
        pair = zip(colour(mixed[1], names), colour(mixed[3], names), strict=True)
        return tuple(part * one + (1 - part) * other for one, other in pair)
    assert re.fullmatch(r"#[0-9a-f]{6}", value), value
    return tuple(int(value[at : at + 2], 16) / 255 for at in (1, 3, 5))


def contrast(one: Rgb, other: Rgb) -> float:
    def luminance(rgb: Rgb) -> float:
        linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in rgb]
        return sum(share * value for share, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def shown(classes: list[str], names: dict[str, str]) -> tuple[Rgb, Rgb]:
    """Return the colours of text and of what is behind it."""
    ink, back = "var(--text)", "var(--code-bg)"
    declared = {name: value for each in classes for name, value in OUTPUT[f".{each}"].items()}
    if "--ink" in declared:
        ink = declared["--ink"]
    if "ansi-dim" in classes:
        ink = OUTPUT[".ansi-dim"]["color"].replace("var(--ink, var(--muted))", declared.get("--ink", "var(--muted)"))
    return colour(ink, names), colour(declared.get("background", back), names)


@pytest.mark.processes
def test_no_colours_of_a_program_hide_its_text() -> None:
    styles = [
        {name: value for name, value in zip(("fg", "bg", "inverse", "dim"), chosen, strict=True) if value}
        for chosen in product(COLOURS, COLOURS, (None, True), (None, True))
    ]
    looks = ask("lib/ansi.js", "styles.map((style) => module.lookOf(style))", styles=styles)
    faint = []
    for style, look in zip(styles, looks, strict=True):
        classes = look["class"].split() if look else []
        if "ansi-bg-own" in classes or "ansi-fg-own" in classes:
            # The theme sets how light such a colour is, which holds against the page's own colours only.
            assert not any(each.startswith("ansi-fg-") for each in classes if "ansi-bg-own" in classes)
            assert not any(each.startswith("ansi-bg-") for each in classes if "ansi-fg-own" in classes)
            continue
        faint += [
            (theme, style, ratio)
            for theme, names in THEMES.items()
            if (ratio := contrast(*shown(classes, names))) < LEAST_OF_TEXT
        ]
    assert faint == []


@pytest.mark.parametrize("theme", THEMES)
def test_a_match_can_be_read(theme: str) -> None:
    names = THEMES[theme]
    match, current = OUTPUT[".output-view mark"], OUTPUT[".output-view mark.is-current"]
    behind = colour(match["background"].replace("transparent", "var(--code-bg)"), names)
    assert contrast(colour(match["color"], names), behind) >= LEAST_OF_TEXT
    assert contrast(colour(current["color"], names), colour(current["background"], names)) >= LEAST_OF_TEXT
    # What a program chose for a piece of it does not count.
    assert OUTPUT[".output-view mark *"] == {"background": "none", "color": "inherit"}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("behind", ["--code-bg", "--surface", "--bad-soft"])
def test_a_program_can_be_read(theme: str, behind: str) -> None:
    names = THEMES[theme]
    ratios = {
        name: contrast(colour(names[name], names), colour(names[behind], names)) for name in names if "--hl" in name
    }
    assert {name for name, ratio in ratios.items() if ratio < LEAST_OF_TEXT} == set()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("behind", ["--surface", "--bg"])
def test_the_edge_of_a_field_can_be_seen(theme: str, behind: str) -> None:
    names = THEMES[theme]
    edge = STYLE["textarea"]["border"].removeprefix("1px solid ")
    assert contrast(colour(edge, names), colour(names[behind], names)) >= LEAST_OF_EDGES
