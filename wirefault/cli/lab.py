"""``wirefault lab``: a lab that stays up, and a folder with the whole lab in it."""

from __future__ import annotations

import json
import os
import shlex
import sys
import textwrap
import webbrowser
from pathlib import Path

import click

from wirefault.cli.help import Group, option
from wirefault.cli.options import check_playbooks, recorded_json_option, toxiproxy_option
from wirefault.lab import daemon
from wirefault.lab.addresses import address_rows, moved_ports
from wirefault.lab.extra import NotInstalled, require_packages
from wirefault.lab.new_folder import FolderInUse, write_lab
from wirefault.lab.process import print_to_stderr
from wirefault.lab.toxiproxy import Choice, choose_toxiproxy
from wirefault.report.plain_table import table_lines, width_of
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.state.effects import check_effects
from wirefault.state.state import check_version
from wirefault.subjects.surroundings import link_variables
from wirefault.wiring.topology import Topology

_WRITTEN = """\
the lab is in {folder}. You can change everything in it:
  agent/         the agent, its tools, its prompts
  flask_tools/   its services          proxy_manager/  the control plane
  experiments/   experiments, sets     wirefault/     the library
next: {go}wirefault demo        or, in containers: {go}docker compose up"""


@click.group("lab", cls=Group)
def lab_command() -> None:
    """Start, stop and show a lab that stays up; write one into a folder."""


@lab_command.command(
    "up", examples=("wirefault lab up", "wirefault lab up --wiring wirefault.yaml && wirefault run --lab")
)
@toxiproxy_option
@option(
    "--wiring",
    type=click.Path(path_type=Path),
    help="Use this wiring file. [WIRING]  [default: the lab's own]",
)
def _up(toxiproxy: str, wiring: Path | None) -> None:
    """Start a lab and leave it running; wirefault run --lab sends prompts through it.

    It prints a shell export line for each link; requests to these addresses pass through the lab. Faults set
    with wirefault faults set act on this traffic, too, while no run is in progress.
    """
    configuration = load_configuration({**os.environ, **({"WIRING": str(wiring)} if wiring else {})})
    require_packages(configuration.wiring)
    choose_toxiproxy(toxiproxy, configuration.environ)
    check_playbooks(configuration.environ)
    check_version(configuration.state)
    if configuration.wiring.is_lab:
        check_effects(configuration.effects)
    code = daemon.bring_up(configuration, toxiproxy, print_to_stderr)
    if code == 0:
        _print_addresses(load_configuration(os.environ).topology)
    sys.exit(code)


def _print_addresses(topology: Topology) -> None:
    width, moved = width_of(sys.stdout), moved_ports(topology)
    for line in table_lines(("link", "agent dials", "gateway", "upstream"), address_rows(topology), width):
        click.echo(line)
    click.echo(f"manager {topology.manager.url}   Toxiproxy {topology.toxiproxy}")
    for link in topology.links:
        for name, value in link_variables(link, topology).items():
            click.echo(f"export {name}={shlex.quote(value)}")
    if moved:
        click.echo(textwrap.fill(f"ports in use, replaced by others: {', '.join(moved)}", width))


@lab_command.command("down", examples=("wirefault lab down", "cd my-lab && wirefault lab down"))
def _down() -> None:
    """Heal and stop the lab that is up."""
    sys.exit(daemon.take_down(load_configuration(os.environ), print_to_stderr))


@lab_command.command("status", examples=("wirefault lab status", "watch wirefault lab status"))
def _status() -> None:
    """Show the lab that is up: addresses, attempt, desired and observed toxics."""
    sys.exit(daemon.print_status(load_configuration(os.environ), click.echo))


@lab_command.command(
    "handoffs",
    examples=(
        "wirefault lab handoffs",
        "wirefault lab handoffs --approve 1",
        "wirefault lab handoffs --page",
    ),
)
@option("--approve", type=int, metavar="ID", help="Let the agent make the call again.")
@option("--deny", type=int, metavar="ID", help="Do not let the agent make the call again.")
@option("--page", is_flag=True, help="Print the page's address, which contains the lab's token.")
def _handoffs(approve: int | None, deny: int | None, page: bool) -> None:
    """List the calls that the lab's agent handed over to a person, or decide one; see RECOVERY=handoff."""
    from wirefault.history.logs import strip_control
    from wirefault.lab.live import HandoffsClient, published_manager

    configuration = load_configuration(os.environ)
    state = configuration.state.parent
    client = HandoffsClient(published_manager(state) or configuration.topology.manager, state)
    for id, decision in ((approve, "approve"), (deny, "deny")):
        if id is not None:
            click.echo(f"handoff {id}: {client.decide(id, decision)['state']}")
    if page:
        click.echo(client.page)
    if page or approve is not None or deny is not None:
        return
    rows = [
        (str(case["id"]), case["state"], f"{case['tool']} {json.dumps(case['arguments'])}", case["reason"])
        for case in client.cases()
    ]
    if not rows:
        click.echo("no call was handed over; the agent does that with RECOVERY=handoff")
        return
    for line in table_lines(("id", "state", "call", "why"), rows, width_of(sys.stdout)):
        click.echo(strip_control(line))


@lab_command.command(
    "serve", examples=("wirefault lab serve", "wirefault lab serve --failure-mode hallucination --port 8011")
)
@option("--port", type=click.IntRange(0, 65535), default=8010, show_default=True, help="Serve on this port.")
@option(
    "--failure-mode",
    default="",
    envvar="FAILURE_MODE",
    help="Fail every message in this mode. [env: FAILURE_MODE]",
)
@option(
    "--probabilistic-failures/--no-probabilistic-failures",
    default=False,
    envvar="PROBABILISTIC_FAILURES",
    help="Draw a mode for each message: wirefault faults show recovery-lab.  [env: PROBABILISTIC_FAILURES]",
)
@option(
    "--failure-rate-multiplier",
    type=click.FloatRange(0, 100),
    default=1.0,
    show_default=True,
    envvar="FAILURE_RATE_MULTIPLIER",
    help="Factor for each mode's stated probability. [env: FAILURE_RATE_MULTIPLIER]",
)
@option(
    "--queue",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="At most this many messages wait.",
)
@option("--open", "opens", is_flag=True, help="Open the page in the browser, with the token.")
@option("--link", is_flag=True, help="Print the page's address with the token, for a container's log.")
@option("--host", default="127.0.0.1", show_default=True, help="Listen on this address, in a container.")
@toxiproxy_option
def _serve(
    port: int,
    failure_mode: str,
    probabilistic_failures: bool,
    failure_rate_multiplier: float,
    queue: int,
    opens: bool,
    link: bool,
    host: str,
    toxiproxy: str,
) -> None:
    """Talk to the lab's agent while it fails: a page and an HTTP API, with sessions, modes and both sides.

    The page is at /, the API's paths are at /docs. Sessions are in state/conversations.db, or where
    DATABASE_URL says. Without a mode nothing fails, unless TOXIC_PROB or ERROR_PROB is set.
    """
    configuration, choice = _for_conversations("lab serve", toxiproxy)
    from wirefault.conversation.serving import serve_conversations

    options = (failure_mode, probabilistic_failures, failure_rate_multiplier)
    show = webbrowser.open if opens else print_to_stderr if link else None
    serve_conversations(configuration, choice, port, options, queue, print_to_stderr, show, host)


def _for_conversations(command: str, toxiproxy: str) -> tuple[Configuration, Choice]:
    """Return what a lab in conversation needs; without the settings' own faults unless they are set."""
    try:
        import alembic  # noqa: F401
        import sqlalchemy  # noqa: F401
    except ModuleNotFoundError as error:
        raise NotInstalled(
            f"{command} needs {error.name}: pip install 'wirefault[lab,conversation]'"
        ) from None
    chances = ("toxic_prob", "error_prob")
    from wirefault.conversation.serving import own_names

    surroundings = load_configuration(os.environ).environ
    quiet = {name: 0 for name in chances if name.upper() not in surroundings}
    configuration = load_configuration({**own_names(surroundings), **os.environ}, quiet)
    require_packages(configuration.wiring)
    check_version(configuration.state)
    check_effects(configuration.effects)
    return configuration, choose_toxiproxy(toxiproxy, configuration.environ)


@lab_command.command(
    "insurance",
    examples=(
        "wirefault lab insurance",
        "wirefault lab insurance --costs my-costs.yaml --json",
    ),
)
@option(
    "--costs",
    type=click.Path(path_type=Path),
    help="Use this cost model, YAML.  [default: the one in docs/conversation-lab.md]",
)
@recorded_json_option
@toxiproxy_option
def _insurance(costs: Path | None, as_json: bool, toxiproxy: str) -> None:
    """Compare a claim after an accident, in ten turns of which six fail, with and without mitigations.

    Both conversations have the same messages, seed and failures. The figures are counted in what happened:
    requests, waiting, wrong answers, turns handed to a clerk; a cost model turns them into money.
    """
    configuration, choice = _for_conversations("lab insurance", toxiproxy)
    from wirefault.conversation import insurance

    claim = insurance.load_claim()
    model = insurance.load_costs(costs or insurance.COSTS, claim)
    result = insurance.run_insurance(configuration, choice, model, claim, print_to_stderr)
    click.echo(insurance.insurance_text(result, width_of(sys.stdout), as_json=as_json))


@lab_command.command(
    "init", examples=("wirefault lab init my-lab", "wirefault lab init my-lab && cd my-lab && wirefault demo")
)
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=Path())
def _init(folder: Path) -> None:
    """Write the lab into a folder, for you to change: agent, services, prompts, fault sets, Compose files."""
    try:
        write_lab(folder)
    except FolderInUse as error:
        raise click.UsageError(str(error), None) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder}: {error.strerror or error}") from None
    go = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    click.echo(_WRITTEN.format(folder="this folder" if folder == Path() else folder, go=go))
