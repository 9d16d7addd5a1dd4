"""What tasks have said, as text: nothing in it is hidden but secrets, and nothing in it is more."""

import json

import pytest

from duly.web.rendering import as_json, bare, coloured, sentence, shown


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("plain\ttext\nin lines\r\n", "plain\ttext\nin lines\n"),
        ("over\rwritten", "over⟨U+000D⟩written"),
        ("\x00\x1b\x7f\x85", "⟨U+0000⟩⟨U+001B⟩⟨U+007F⟩⟨U+0085⟩"),
        ("abc\u202edef\u2066\u200b", "abc⟨U+202E⟩def⟨U+2066⟩⟨U+200B⟩"),
        ("שלום 👩‍💻", "שלום 👩‍💻"),
        ("token=hunter2", "token=***"),
        (None, ""),
    ],
)
def test_what_would_not_be_seen_is_shown_by_its_number(said: str | None, seen: str) -> None:
    assert shown(said) == seen


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("<b>&", "&lt;b&gt;&amp;"),
        ("\x1b[31m<b>\x1b[0m!", '<span class="ansi-red">&lt;b&gt;</span>!'),
        ("\x1b[1;92mgood\x1b[m.", '<span class="ansi-green ansi-bold">good</span>.'),
        ("\x1b[1;92m\x1b[22mgood", '<span class="ansi-green">good</span>'),
        ("\x1b[38;5;196mred\x1b[38;2;1;31;4mred\x1b[m", "redred"),
        ("\x1b[41mon red\x1b[49m", "on red"),
        ("\x1b[4m_", '<span class="ansi-underlined">_</span>'),
        ("\x1b[4;31m\x1b[24;39;2mfaint", '<span class="ansi-faint">faint</span>'),
        ("\x1b[2J\x1b[10;5Hhome\x1b]8;;http://evil\x07link\x1b]8;;\x1b\\", "homelink"),
        ("\x1b[31", "⟨U+001B⟩[31"),
        ("\x1b[999999999999999999m.", "."),
    ],
)
def test_colours_become_classes_and_other_commands_are_left_out(said: str, seen: str) -> None:
    assert str(coloured(said)) == seen


def test_a_secret_is_hidden_though_its_colour_changes_within() -> None:
    said = "tok\x1b[31men=\x1b[0mhunt\x1b[32mer2"
    assert "er2" not in coloured(said)
    assert "er2" not in bare(said)


def test_json_is_spelled_so_that_it_is_seen_and_means_the_same() -> None:
    said = {"a": "x\u202ey", "b": "ü\x00"}
    assert as_json(said) == '{\n  "a": "x\\u202ey",\n  "b": "ü\\u0000"\n}'
    assert json.loads(as_json(said)) == said


def test_a_sentence_has_a_capital_and_an_end_and_no_secret() -> None:
    assert sentence("password=hunter2 is wrong") == "Password=*** is wrong."
    assert [sentence(one) for one in ("why?", "so.", "")] == ["Why?", "So.", ""]
