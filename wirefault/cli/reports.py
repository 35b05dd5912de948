"""``wirefault run --reports FOLDER``: what a pipeline keeps of its experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wirefault.core.errors import InputError, UserError
from wirefault.experiments.bundle import write_bundle
from wirefault.experiments.recorded import recording_of
from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.judging.ending import FailOn
from wirefault.report.junit import junit

SUMMARY, JUNIT, VERDICT = "summary.md", "junit.xml", "verdict.json"


def make_reports_folder(folder: Path) -> None:
    """Make the folder, before anything runs. Raises ``InputError``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--reports {folder}: {error.strerror}") from None


def write_reports(
    folder: Path, results: Sequence[ExperimentResult], verdict: str, fail_on: FailOn = "risky"
) -> None:
    """Write ``summary.md``, ``junit.xml``, ``verdict.json``, and ``ID.html`` and ``ID.tar.gz`` of each.

    Earlier bundles with the same name are replaced. ``verdict``: the text of ``--json``. ``fail_on``: as in
    ``junit``. Raises ``InputError``.
    """
    from wirefault.report.page.markdown import failure_markdown, markdown
    from wirefault.report.page.write import (  # the template engine is slow to import
        page_content,
        write_page_to,
    )

    summaries = []
    try:
        (folder / VERDICT).write_text(verdict, encoding="utf-8")
        (folder / JUNIT).write_text(junit(list(results), fail_on), encoding="utf-8")
        for result in results:
            name, title = result.saved.experiment_id, result.plan.experiment.title
            bundle = folder / f"{name}.tar.gz"
            bundle.unlink(missing_ok=True)
            try:
                recording = recording_of(result.saved)
                content = page_content(recording)
                write_page_to(content, folder / f"{name}.html")
                write_bundle(result.saved.logs, name, bundle)
                summaries.append(markdown(content, recording))
            except UserError as error:  # it did not run far enough to have a page
                summaries.append(failure_markdown(title, str(error)))
        (folder / SUMMARY).write_text("\n".join(summaries), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--reports {error.filename or folder}: {error.strerror}") from None
