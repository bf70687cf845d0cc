from orchestrator.faces.mcp.matches import MAX_MATCHES, matching_lines


def test_lines_with_the_text_are_found_with_number_and_offset():
    found, count = matching_lines(b"one\nAn Error\nthree\nerror 2", "error")
    assert [(match.line, match.offset, match.text) for match in found] == [(2, 4, "An Error"), (4, 19, "error 2")]
    assert count == 2


def test_signs_of_regular_expressions_mean_themselves():
    found, _ = matching_lines(b"a.c\nabc\n", "a.c")
    assert [match.text for match in found] == ["a.c"]


def test_a_long_line_is_shown_around_the_match():
    found, _ = matching_lines(b"x" * 5000 + b"needle" + b"y" * 5000, "needle")
    assert "needle" in found[0].text
    assert len(found[0].text) < 500


def test_matches_are_limited_and_counted_and_go_on_from_an_offset():
    data = b"hit\n" * 300
    found, count = matching_lines(data, "hit")
    rest, _ = matching_lines(data, "hit", from_offset=found[-1].offset + 1)
    assert (len(found), count) == (MAX_MATCHES, 300)
    assert rest[0].line == MAX_MATCHES + 1
