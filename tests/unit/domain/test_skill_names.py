import builtins
import keyword

import pytest

from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.names import tool_identifier
from orchestrator.domain.skills import MAX_NAME_CHARACTERS, SKILL_NAME, require_skill_name


def words(text):
    return tuple(text.split())


# Reserved words, those of strict mode and of modules, literals, and what a TypeScript function cannot be called.
TYPESCRIPT = words(
    """
    arguments await break case catch class const continue debugger default delete do else enum eval export extends
    false finally for function if implements import in instanceof interface let new null package private protected
    public return static super switch this throw true try typeof undefined var void while with yield
    """
)
# Names that mean something to whatever loads or awaits a module, and what the generated modules need themselves.
OF_GENERATED_CODE = words("annotations builtins constructor exports index overload prototype require run then")
# Special only in some places, where no name of a function stands.
CONTEXTUAL = words(
    """
    abstract any as asserts async bigint boolean constructor declare from get global infer is keyof match module
    namespace never number object of out override readonly satisfies set string symbol type unique unknown using
    """
)


@pytest.mark.parametrize("name", sorted({*TYPESCRIPT, *OF_GENERATED_CODE, *keyword.kwlist}))
def test_a_word_of_either_language_or_of_the_generated_code_is_refused(name):
    with pytest.raises(InvalidRequest, match="`name` must"):
        require_skill_name(name)


@pytest.mark.parametrize("name", sorted({*keyword.softkwlist, *dir(builtins), *CONTEXTUAL}))
def test_a_name_is_taken_only_if_generated_code_spells_it_the_same(name):
    try:
        require_skill_name(name)
    except InvalidRequest:
        assert tool_identifier(name) != name or not SKILL_NAME.fullmatch(name)
    else:
        assert tool_identifier(name) == name


@pytest.mark.parametrize(
    "name", ["weekly_report", "a", "a1_2", "list", "match", "run_all", "requires", "a" * MAX_NAME_CHARACTERS]
)
def test_other_names_are_taken(name):
    assert require_skill_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "_a", "a_", "a__b", "1a", "A", "a-b", "a b", "ä", "a\n", "a" * (MAX_NAME_CHARACTERS + 1)]
)
def test_a_name_must_be_words_joined_by_underscores(name):
    with pytest.raises(InvalidRequest, match="lower-case words"):
        require_skill_name(name)
