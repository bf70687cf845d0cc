"""Completion for shells, made from the commands themselves: a script that knows all of them and starts nothing.

A program that is asked at each press of the key would take half a second to start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

PROGRAM = "code-executor"
FUNCTION = "_code_executor"
NAMES_OF_FILES = ("file", "directory")  # of parameters that take a path as text


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"


@dataclass(frozen=True, slots=True)
class Value:
    """What may follow: one of some words, a file, or something that only the user knows."""

    words: tuple[str, ...] = ()
    is_file: bool = False
    is_list: bool = False  # of the words, with commas between them


@dataclass(frozen=True, slots=True)
class Option:
    names: tuple[str, ...]
    about: str
    value: Value | None  # None for a flag


@dataclass(frozen=True, slots=True)
class Command:
    path: tuple[str, ...]
    about: str
    options: tuple[Option, ...]
    arguments: tuple[Value, ...]
    commands: tuple[Command, ...]

    @property
    def key(self) -> str:
        return " ".join((PROGRAM, *self.path))

    def walk(self) -> Iterator[Command]:
        yield self
        for command in self.commands:
            yield from command.walk()


def completion(context: typer.Context, shell: Shell) -> None:
    """Print the completion script of a shell; `make install` puts it where the shell looks."""
    root = described(context.find_root().command, ())
    typer.echo(for_bash(root) if shell is Shell.BASH else for_zsh(root), nl=False)


def described(command: Any, path: tuple[str, ...]) -> Command:
    """Describe a command of typer's, whose own types come from a click of its own."""
    assert isinstance(command, TyperCommand | TyperGroup)  # noqa: S101  (there is no other kind)
    children = command.commands if isinstance(command, TyperGroup) else {}
    options = [parameter for parameter in command.params if isinstance(parameter, TyperOption)]
    arguments = [parameter for parameter in command.params if isinstance(parameter, TyperArgument)]
    return Command(
        path,
        command.get_short_help_str(limit=100),
        (
            *(Option((*each.opts, *each.secondary_opts), each.help or "", _value_of(each)) for each in options),
            Option(("--help",), "Show the help.", None),
        ),
        tuple(_value(each) for each in arguments),
        tuple(described(child, (*path, name)) for name, child in children.items()),
    )


def _value_of(option: TyperOption) -> Value | None:
    return None if option.is_flag else _value(option)


def _value(parameter: TyperOption | TyperArgument) -> Value:
    declared = parameter.type_descriptor.annotation
    kind = next(iter(get_args(declared)), declared)  # what a list is of
    member = getattr(kind, "OF", kind)  # of a list in one word
    words = tuple(str(each.value) for each in member) if isinstance(member, type) and issubclass(member, Enum) else ()
    return Value(words, is_file=kind is Path or parameter.name in NAMES_OF_FILES, is_list=member is not kind)


def for_bash(root: Command) -> str:
    values, words, files = [], [], []
    for command in root.walk():
        offered = [name for option in command.options for name in option.names]
        offered += [child.path[-1] for child in command.commands]
        offered += [word for value in command.arguments for word in value.words]
        words.append(f"    [{_quoted(command.key)}]={_quoted(' '.join(offered))}")
        if any(value.is_file for value in command.arguments):
            files.append(f"    [{_quoted(command.key)}]=1")
        for option in command.options:
            if option.value is not None:
                told = "<file>" if option.value.is_file else " ".join(option.value.words)
                values += [f"    [{_quoted(f'{command.key} {name}')}]={_quoted(told)}" for name in option.names]
    template = resources.files(__package__).joinpath("completion.bash").read_text()
    return template.format(
        program=PROGRAM, function=FUNCTION, words="\n".join(words), values="\n".join(values), files="\n".join(files)
    )


def for_zsh(root: Command) -> str:
    functions = [_zsh_function(command) for command in root.walk()]
    return f"#compdef {PROGRAM}\n\n" + "\n".join(functions) + f'\n{FUNCTION} "$@"\n'


def _zsh_function(command: Command) -> str:
    lines = [_zsh_option(option) for option in command.options]
    if command.commands:
        described_children = " ".join(_quoted(f"{child.path[-1]}:{_in_zsh(child.about)}") for child in command.commands)
        cases = "\n".join(f"        {child.path[-1]}) {_zsh_name(child)} ;;" for child in command.commands)
        return (
            f"{_zsh_name(command)}() {{\n    local line state\n    local -a commands=({described_children})\n"
            f"    _arguments -C {' '.join(lines)} '1: :->command' '*::argument:->rest'\n"
            f"    case $state in\n    command) _describe command commands ;;\n"
            f"    rest)\n        case $line[1] in\n{cases}\n        esac ;;\n    esac\n}}\n"
        )
    lines += [_quoted(f"*:value:{_zsh_action(value)}") for value in command.arguments[:1]]
    return f"{_zsh_name(command)}() {{\n    _arguments {' '.join(lines)}\n}}\n"


def _zsh_option(option: Option) -> str:
    about = f"[{_in_zsh(option.about)}]"
    value = "" if option.value is None else f":value:{_zsh_action(option.value)}"
    return " ".join(_quoted(f"{name}{about}{value}") for name in option.names)


def _zsh_action(value: Value) -> str:
    if value.is_file:
        return "_files"
    if value.is_list:
        return f"_sequence compadd - {' '.join(value.words)}"
    return f"({' '.join(value.words)})" if value.words else " "


def _zsh_name(command: Command) -> str:
    return "_".join((FUNCTION, *(re.sub(r"\W", "_", name) for name in command.path)))


def _in_zsh(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", " ".join(text.split()))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
