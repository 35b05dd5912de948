"""Help texts: options in sections, the most important in ``--help``, all in ``--help-all``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

_F = TypeVar("_F", bound=Callable[..., Any])
MAX_SHORT_HELP = 150
SETTINGS = "Settings"  # only in --help-all
SECTIONS = ("Agent", "Faults", "Limits", "Output", "Other", SETTINGS)


class Option(click.Option):
    """An option with its section in the help."""

    def __init__(self, *names: Any, section: str = "Other", **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        assert section in SECTIONS
        self.section = section


def option(*names: str, **attributes: Any) -> Callable[[_F], _F]:
    """``click.option`` with a ``section``."""
    return click.option(*names, cls=Option, **attributes)


def _print_all(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


ALL = "wirefault.cli.help.all"  # set in a context whose help must show every option
HELP_ALL = Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_all,
    help="Show every option and exit.",
)


@add_completion_class
class _BashComplete(BashComplete):
    """Bash ends a word at "=": the value of ``--set KEY=VALUE`` is completed alone."""

    _key = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, begun = super().get_completion_args()
        words = [*args, begun, ""] if begun == "=" else [*args, begun]
        if words[-4:-3] != ["--set"] or words[-2] != "=":
            return args, begun
        self._key = f"{words[-3]}="
        return words[:-3], self._key + words[-1]

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{item.value.removeprefix(self._key)}"


class Command(click.Command):
    """A command with ``examples`` in its help; ``brief``: the options in ``--help``, by default all."""

    def __init__(
        self, *args: Any, examples: Sequence[str] = (), brief: Sequence[str] = (), **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self.examples, self.brief = examples, brief

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        return params if all(self._is_brief(param) for param in params) else [*params, HELP_ALL]

    def _is_brief(self, param: click.Parameter) -> bool:
        """Whether it is in ``--help``."""
        if param is HELP_ALL or not isinstance(param, Option):
            return True
        return param.name in self.brief if self.brief else param.section != SETTINGS

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the options of ``--help``; another one once no other begins like that."""
        items = super().shell_complete(ctx, incomplete)
        others = [param for param in self.get_params(ctx) if not self._is_brief(param)]
        hidden = {name for param in others for name in (*param.opts, *param.secondary_opts)}
        return [item for item in items if item.value not in hidden] or items

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {section: [] for section in SECTIONS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record and (ctx.meta.get(ALL) or self._is_brief(param)):
                section = getattr(param, "section", "Other")
                # a command's usual settings are about its faults
                sections["Faults" if section == SETTINGS and param.name in self.brief else section].append(
                    record
                )
        filled = {section: records for section, records in sections.items() if records}
        for section, records in filled.items():
            with formatter.section("Options" if len(filled) == 1 else section):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {example}\n" for example in self.examples))


class CommandWithProgram(Command):
    """A command that passes the words after a lone ``--`` as the parameter ``program``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.params["program"] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])


class Group(click.Group):
    """A group that suggests the closest command for a misspelt one."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(MAX_SHORT_HELP)) for name, command in commands if command]
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from wirefault.core.errors import nearest

            ctx.fail(f"unknown command {args[0]!r}{nearest(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)
