"""Commands on a recipe: `recipe=NAME split=test count=3 key=value ...`, a few words of the command's own among them.

Some have their own words only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from recipes.fields import did_you_mean, problem, shown
from recipes.loader import RecipeError, load_recipe
from recipes.schema import Recipe

Default = TypeVar("Default", int, None)


class CommandLine:
    """The command's own words are taken out; the rest names the recipe. Problems are gathered, and told all at once."""

    def __init__(self, argv: Sequence[str], own: Sequence[str]) -> None:
        self._own = own
        self._given: dict[str, str] = {}
        self._rest: list[str] = []
        self.problems: list[str] = []
        for token in argv:
            name, _, value = token.partition("=")
            if name not in own:
                self._rest.append(token)
            elif name in self._given:
                self.problems.append(problem(name, "two values", "one", "do remove one of them"))
            elif not value:
                self.problems.append(problem(name, "nothing", "a value", f"do write {name}=VALUE, or leave it out"))
            else:
                self._given[name] = value

    def text(self, name: str) -> str | None:
        """A word as it stands; None where it is left out."""
        return self._given.get(name)

    def required(self, name: str, what: str) -> str:
        """A word that must be given, as it stands; `what` it is."""
        if name not in self._given and not any(line.startswith(f"{name}:") for line in self.problems):
            self.problems.append(problem(name, "nothing", what, f"do write {name}=..."))
        return self._given.get(name, "")

    def choice(self, name: str, options: Sequence[str], default: str | None = None) -> str:
        """One of some words; without a default it must be given."""
        given = self._given.get(name, default)
        if given in options:
            return str(given)
        advice = did_you_mean(given, options) if given else f"do write {name}={options[0]}"
        got = shown(given) if given else "nothing"
        self.problems.append(problem(name, got, " | ".join(options), advice))
        return options[0]

    def number(self, name: str, default: Default) -> int | Default:
        """A whole number from 1."""
        text = self._given.get(name)
        if text is None:
            return default
        if text.isascii() and text.isdigit() and len(text) < 10 and int(text):
            return int(text)
        self.problems.append(problem(name, shown(text), "a whole number from 1", f"do write {name}={default or 100}"))
        return default

    def decimal(self, name: str, default: float, *, most: float) -> float:
        """A number above 0, at most `most`."""
        text = self._given.get(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if 0 < value <= most:
            return value
        allowed = f"a number above 0, at most {most:g}"
        self.problems.append(problem(name, shown(text), allowed, f"do write {name}={default:g}"))
        return default

    def without_recipe(self) -> None:
        """For a command that has its own words only.

        Raises:
            RecipeError: every problem of the command line.
        """
        names = [token.partition("=")[0] for token in self._rest]
        unknown = [
            problem(name, "an unknown name", ", ".join(self._own), did_you_mean(name, self._own)) for name in names
        ]
        if unknown or self.problems:
            raise RecipeError([*unknown, *self.problems])

    def _misspelt(self, name: str) -> bool:
        """Whether it is likely meant for one of the command's own words."""
        if "." in name or name.startswith("-") or name in ("recipe", *Recipe.model_fields):
            return False
        return did_you_mean(name, self._own).startswith("did you mean")

    def recipe(self) -> Recipe:
        """The recipe that the rest names.

        Raises:
            RecipeError: every problem of the command line and of the recipe.
        """
        names = dict.fromkeys(token.partition("=")[0] for token in self._rest if "=" in token)
        likely = [name for name in names if self._misspelt(name)]
        self.problems += [
            problem(name, "an unknown name", ", ".join(self._own), did_you_mean(name, self._own)) for name in likely
        ]
        try:
            recipe = load_recipe([token for token in self._rest if token.partition("=")[0] not in likely])
        except RecipeError as error:
            raise RecipeError([*self.problems, *error.problems]) from None
        if self.problems:
            raise RecipeError(self.problems)
        return recipe


def run_command(
    argv: Sequence[str], usage: str, work: Callable[[Sequence[str]], str | tuple[str, bool]], *, stopped: str = ""
) -> int:
    """The exit status of a command: 0 with what `work(argv)` says printed, 1 when it says that something is missing, 2
    when it was refused, 130 after Ctrl-C.

    Args:
        work: gives what to print, and may say beside it whether all was done.
        usage: what is printed without words or for help.
        stopped: what to say after Ctrl-C of what is left.
    """
    if not argv or any(token in ("help", "--help", "-h") for token in argv):
        print(usage)
        return 0 if argv else 2
    try:
        said = work(argv)
        text, complete = (said, True) if isinstance(said, str) else said
        print(text)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # a full disk, for one
        print(f"error: {error}; do mend that and run the command again", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nstopped; {stopped}" if stopped else "\nstopped", file=sys.stderr)
        return 130
    return 0 if complete else 1
