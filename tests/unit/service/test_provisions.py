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


async def test_the_files_of_all_contributors_are_gathered():
    recipe, files = await Provisions([Contributor("a", "b"), Contributor("c")]).for_role(ADMIN, Language.PYTHON)
    assert set(files) == {"a.python", "b.python", "c.python"}
    assert recipe.language is Language.PYTHON


async def test_two_contributors_must_not_give_the_same_file():
    with pytest.raises(ValueError, match=r"two contributors give a\.python"):
        await Provisions([Contributor("a"), Contributor("a", "b")]).for_role(ADMIN, Language.PYTHON)


async def test_a_recipe_names_its_files_by_their_content():
    provisions = Provisions([Contributor("a")])
    recipes = {(await provisions.for_role(role, language))[0] for role in (ADMIN, DEVELOPER) for language in Language}
    assert len(recipes) == 4
    others = Provisions([Contributor("a")])
    others.put_in_force(others.gather([ADMIN, DEVELOPER]))
    assert recipes == set(others.recipes(AccessBook({"x": ADMIN, "y": DEVELOPER}, {}, ())))
    assert len(others.recipes(AccessBook({"x": ADMIN}, {}, ()))) == 2


async def test_nothing_is_gathered_twice_until_a_contributor_changes():
    first, second = Contributor("a"), Contributor("b")
    provisions = Provisions([first, second])
    provisions.put_in_force(provisions.gather([ADMIN]))
    before = [await provisions.for_role(ADMIN, Language.PYTHON) for _ in range(5)]
    provisions.put_in_force(provisions.gather([ADMIN]))
    assert (first.asked, second.asked) == (4, 4)  # for the role, and for sandboxes that are nobody's
    second.version = 1
    assert await provisions.for_role(ADMIN, Language.PYTHON) == before[0]
    provisions.put_in_force(provisions.gather([ADMIN]))
    assert (first.asked, second.asked) == (8, 8)
    assert before[0][0] != (await provisions.for_role(ADMIN, Language.PYTHON))[0]


async def test_a_role_that_nobody_has_gathered_for_gets_its_files_all_the_same():
    contributor = Contributor("a")
    provisions = Provisions([contributor])
    provisions.put_in_force(provisions.gather([ADMIN]))
    for _ in range(3):
        _, files = await provisions.for_role(DEVELOPER, Language.PYTHON)
        assert files == {"a.python": "developer 0"}
    assert contributor.asked == 5


async def test_bare_sandboxes_are_wanted_for_a_while_after_one_was_used():
    provisions = Provisions([Contributor("a")])
    provisions.put_in_force(provisions.gather([ADMIN]))
    book = AccessBook({"x": ADMIN}, {}, ())
    assert len(provisions.recipes(book)) == 2
    recipe, files = await provisions.bare(Language.PYTHON)
    assert files == {"a.python": "(nobody) 0"}
    assert recipe in provisions.recipes(book)
    provisions.put_in_force(provisions.gather([ADMIN]))
    assert recipe in provisions.recipes(book)


async def test_files_whose_contents_could_be_confused_have_different_recipes():
    class Fixed:
        version = 0

        def __init__(self, files):
            self._files = files

        def files(self, role, language):
            return self._files

    recipes = {
        (await Provisions([Fixed(files)]).for_role(ADMIN, Language.PYTHON))[0]
        for files in ({"ab": "c"}, {"a": "bc"}, {"a": "b", "c": ""}, {"a": "", "b": "c"}, {})
    }
    assert len(recipes) == 5
