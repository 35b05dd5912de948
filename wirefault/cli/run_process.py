"""``python -m wirefault.cli.run_process DOCUMENT``: the process of one run, started by a launcher."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from msgspec.json import decode
from rich.console import Console

from wirefault.core.errors import (
    DISK_FULL,
    LAB_FAILED,
    UNKNOWN,
    USAGE,
    InputError,
    UserError,
    error_text,
    resource_problem,
)
from wirefault.core.files import UnsafeFileError
from wirefault.core.interrupts import INTERRUPTED, INTERRUPTED_LINE, end_at_interrupt, end_quickly
from wirefault.core.lab_folder import logs_folder
from wirefault.gateway.cassettes import check_cassettes
from wirefault.history.logs import log_error, strip_control
from wirefault.judging.oracle.expect import expect_check
from wirefault.lab.extra import require_packages
from wirefault.lab.run_document import RunDocument
from wirefault.report.console import ConsoleAudience
from wirefault.report.next_command import print_why
from wirefault.report.reproduce import as_user_named, command
from wirefault.report.summary import print_summary
from wirefault.report.terminal import plain_console
from wirefault.runner.interruption import EndedByLauncher, InterruptibleSubject, interrupt_once
from wirefault.runner.run import PromptsRun, run_prompts
from wirefault.settings.configuration import Configuration, load_configuration
from wirefault.settings.settings import SettingsError
from wirefault.state.state import check_version
from wirefault.subjects.loading import load_subject
from wirefault.subjects.opening import open_wired_subject
from wirefault.wiring.links import Links
from wirefault.wiring.prompts import (
    Prompts,
    PromptsError,
    PromptsSource,
    load_prompts,
    prompts_from_texts,
    prompts_name,
)


def main(path: str) -> int:
    """Execute the document and return the exit code, after one line for an error that is meant for people."""
    try:
        document = decode(Path(path).read_bytes(), type=RunDocument)
    except FileNotFoundError:  # its files were removed
        sys.stderr.write("error: the launcher ended before the run began\n")
        return LAB_FAILED
    try:
        return carry_out(load_configuration(os.environ, decided=document.settings), document)
    except SettingsError as error:
        complain(logs_folder(os.environ), str(error))
        return USAGE
    except UserError as error:
        sys.stderr.write(f"error: {strip_control(str(error))}\n")
        return USAGE if isinstance(error, InputError) else LAB_FAILED
    except KeyboardInterrupt as end:
        sys.stderr.write(f"{str(end) or INTERRUPTED_LINE}\n")
        return INTERRUPTED


def load_source(source: PromptsSource, links: Links) -> Prompts:
    """Load the prompts of the source. Raises ``PromptsError``."""
    if source.texts:
        return prompts_from_texts(source.texts)
    file = Path(source.file)
    name = prompts_name(file, os.environ)
    return load_prompts(file, source.only, source.match, expect_check(links), name=name)


def carry_out(configuration: Configuration, document: RunDocument) -> int:
    """Run the prompts in the running lab, show the results and return the exit code. Raises ``UserError``."""
    configuration = replace(configuration, faults_name=document.faults_name)
    logs, subject = configuration.logs, document.subject
    try:
        require_packages(configuration.wiring, subject)
        links = configuration.wiring.links
        prompts = load_source(document.source, links)
        prompts = replace(prompts, source=as_user_named(prompts.source, configuration.environ))
        if document.is_portion:
            prompts = prompts.without_places()
        # selected prompts keep their numbers in the file
        whole = document.all_prompts or (document.source.file if document.source.picked else "")
        everything = load_prompts(Path(whole), check_expect=expect_check(links)).entries if whole else ()
        check_version(configuration.state)
        check_cassettes(configuration.settings)
        # a Ctrl-C during an import ends this process at once
        open_subject = load_subject(subject) if subject else partial(open_wired_subject, configuration.wiring)
        raise_again = interrupt_once(os.environ)
        with open_subject(configuration) as opened:
            raise_again()
            opened = InterruptibleSubject(opened, raise_again)
            # with --json, standard output contains only the object
            console = plain_console(stderr=document.as_json or document.on_stderr)
            keys = [prompt.key for prompt in everything]
            alone = not document.is_part and not document.on_stderr
            audience = ConsoleAudience(console, alone=alone, whole=keys)
            try:
                run = run_prompts(
                    document.run_id, configuration, opened, prompts, audience, document.control_in
                )
                audience.close()
                if not document.is_part:
                    _show(console, configuration, document, run)
            except UnsafeFileError:
                raise  # the message is complete
            except OSError as error:
                hint = "" if resource_problem(error) else f"; is LOGS_DIR={logs} a writable folder?"
                complain(logs, error_text(error) + hint)
                return LAB_FAILED
    except EndedByLauncher:  # before the first prompt the launcher reports the reason
        return LAB_FAILED
    except (SettingsError, PromptsError) as error:
        complain(logs, str(error))
        return USAGE
    if run.failure and not run.record.launcher_tells:
        complain(logs, run.failure)
    if run.record.interrupted:
        return INTERRUPTED
    if run.failure:
        return LAB_FAILED
    if run.summary.servers_failed_because:
        complain(logs, run.summary.servers_failed_because)
        return UNKNOWN
    return 0


def _show(console: Console, configuration: Configuration, document: RunDocument, run: PromptsRun) -> None:
    summary = run.summary
    repeat = command(
        run.settings,
        summary.prompts_source,
        summary.lab_id,
        configuration.environ,
        summary.wiring_arguments,
        configuration.wiring.links,
        document.subject or None,
        summary.faults_name,
        summary.lab_files,
    )
    print_summary(
        console, summary, repeat, omitted=[run.failure], logs=configuration.logs, verbose=document.verbose
    )
    console.print(f"history: {configuration.logs}/runs/{summary.run_id}", soft_wrap=True)
    if document.shows_why and not document.on_stderr:  # else the launcher has more to show
        print_why(console, summary, configuration.logs)
    if document.as_json:
        sys.stdout.write(json.dumps(summary.as_json(), ensure_ascii=False) + "\n")


def complain(logs: Path, message: str) -> None:
    """Write the error to the console and to info.log."""
    sys.stderr.write(f"error: {message}\n")
    unwritten = log_error(logs, message)
    if unwritten and DISK_FULL not in message:
        sys.stderr.write(f"error: {unwritten}\n")


if __name__ == "__main__":
    end_at_interrupt(in_background=True)
    try:
        sys.exit(main(sys.argv[1]))
    finally:
        end_quickly()
