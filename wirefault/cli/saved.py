"""Saved experiments as commands open them: to show, to resume, or to run again under a new id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from wirefault.cli.options import environ_below, logs_in
from wirefault.core.errors import InputError, UserError, error_text
from wirefault.core.identity import new_run_id
from wirefault.experiments.experiment import IN_PLACE
from wirefault.experiments.experiment_file import is_module_name, load_experiments, load_from_module
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.recorded import RecordedArm, recording_of, repeated_part, saved_plan
from wirefault.experiments.saved import SavedExperiment, load_saved, save
from wirefault.wiring.wiring import is_wiring_file, load_wiring


def saved_experiment(experiment: str, out: Path | None, files: Sequence[Path] = ()) -> SavedExperiment:
    """Load the saved experiment of that id. Raises ``UserError``.

    ``files``: the experiment's file, so that its functions run even if another user signed the plan.
    """
    environ = environ_below(out)
    return _trusting(load_saved(logs_in(environ), experiment, environ), files, environ)


def resumed_experiment(experiment: str, out: Path | None, files: Sequence[Path] = ()) -> SavedExperiment:
    """Load the saved experiment of that id, to run the rest of it. Raises ``UserError``."""
    saved = saved_experiment(experiment, out, files)
    saved.require_own_plan("--resume", with_code=False)
    _check_function(saved)
    return saved


def repeated_experiment(
    name: str, episodes: Sequence[str], arms: Sequence[str], out: Path | None, files: Sequence[Path] = ()
) -> SavedExperiment:
    """Save the plan of that experiment, or the selected parts, under a new id. Raises ``UserError``.

    The id of one arm's run selects that arm.
    """
    environ = environ_below(out)
    saved, arm_of_run = saved_plan(logs_in(environ), name, environ)
    saved = _trusting(saved, files, environ)
    saved.require_own_plan("--again", with_code=True)
    _check_function(saved)
    return saved_anew(repeated_part(saved.plan, episodes, arms or arm_of_run))


def own_recording(name: str, arm: str | None, out: Path | None) -> tuple[SavedExperiment, RecordedArm]:
    """Return a recorded experiment whose plan may be run, and its arm. Raises ``UserError``."""
    environ = environ_below(out)
    saved, of_run = saved_plan(logs_in(environ), name, environ)
    saved.require_own_plan("--again", with_code=True)
    _check_function(saved)
    return saved, recording_of(saved).arm(arm or next(iter(of_run), None))


def _check_function(saved: SavedExperiment) -> None:
    """Raise ``InputError`` if its subject was a function of a process that has ended."""
    subject = saved.plan.experiment.subject
    if isinstance(subject, str) and subject.startswith(IN_PLACE):
        raise InputError(
            f"its subject was the function {subject.removeprefix(IN_PLACE)} of the process that ran it:"
            " name the experiment, too, as MODULE:NAME"
        )


def _trusting(saved: SavedExperiment, files: Sequence[Path], environ: Mapping[str, str]) -> SavedExperiment:
    if not files:
        return saved
    if len(files) > 1:
        raise InputError(f"name one file, the one of {saved.experiment_id}, not {len(files)}")
    named = is_module_name(files[0])
    if not named and is_wiring_file(files[0]):
        wiring = load_wiring(files[0])
        plan = replace(saved.plan, configuration=replace(saved.plan.configuration, wiring=wiring))
        return saved.trusting(plan)
    loaded = load_from_module(str(files[0])) if named else load_experiments(files[0])
    plans = [plan_experiment(each, environ) for each in loaded]
    plan = next((each for each in plans if each.experiment.title == saved.plan.experiment.title), plans[0])
    trusted = saved.trusting(plan)
    if plan.experiment.is_in_place:
        experiment = saved.plan.experiment.model_copy(update={"subject": plan.experiment.subject})
        trusted = replace(trusted, plan=replace(saved.plan, experiment=experiment))
    return trusted


def saved_anew(plan: ExperimentPlan) -> SavedExperiment:
    """Save the plan under a new id without running it. Raises ``UserError``."""
    with explained_file_errors():
        return save(plan, new_run_id())


@contextmanager
def explained_file_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(error_text(error)) from None
