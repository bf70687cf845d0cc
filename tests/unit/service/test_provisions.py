import pytest

from orchestrator.domain.access import AccessBook, Role
from orchestrator.domain.execution import Language
from orchestrator.service.provisions import Provisions

DEVELOPER = Role("developer", frozenset({"postgres"}))
ADMIN = Role("admin", frozenset({"*"}))


class Contributor:
    def __init__(self, *names):
        self.names = names
        self.version = 0
        self.asked = 0

    def files(self, role, language):
        self.asked += 1
        return {f"{name}.{language}": f"{role.name} {self.version}" for name in self.names}


def test_the_files_of_all_contributors_are_gathered():
    recipe, files = Provisions([Contributor("a", "b"), Contributor("c")]).for_role(ADMIN, Language.PYTHON)
    assert set(files) == {"a.python", "b.python", "c.python"}
    assert recipe.language is Language.PYTHON


def test_two_contributors_must_not_give_the_same_file():
    with pytest.raises(ValueError, match=r"two contributors give a\.python"):
        Provisions([Contributor("a"), Contributor("a", "b")]).for_role(ADMIN, Language.PYTHON)


def test_a_recipe_names_its_files_by_their_content():
    provisions = Provisions([Contributor("a")])
    recipes = {provisions.for_role(role, language)[0] for role in (ADMIN, DEVELOPER) for language in Language}
    assert len(recipes) == 4
    assert recipes == set(Provisions([Contributor("a")]).recipes(AccessBook({"x": ADMIN, "y": DEVELOPER}, {}, ())))


def test_nothing_is_gathered_twice_until_a_contributor_changes():
    first, second = Contributor("a"), Contributor("b")
    provisions = Provisions([first, second])
    before = [provisions.for_role(ADMIN, Language.PYTHON) for _ in range(5)]
    assert (first.asked, second.asked) == (1, 1)
    second.version = 1
    after = provisions.for_role(ADMIN, Language.PYTHON)
    assert (first.asked, second.asked) == (2, 2)
    assert before[0][0] != after[0]


def test_files_whose_contents_could_be_confused_have_different_recipes():
    class Fixed:
        version = 0

        def __init__(self, files):
            self._files = files

        def files(self, role, language):
            return self._files

    recipes = {
        Provisions([Fixed(files)]).for_role(ADMIN, Language.PYTHON)[0]
        for files in ({"ab": "c"}, {"a": "bc"}, {"a": "b", "c": ""}, {"a": "", "b": "c"}, {})
    }
    assert len(recipes) == 5
