"""Whether an experiment would come out the same again from its seed, by any number of workers; or why not."""

from __future__ import annotations

from wirefault.experiments.run_experiment import ExperimentResult


def obstacles_in(flight: ExperimentResult) -> dict[str, list[str]]:
    """By arm what depended on order, on the clock or on a model that is not the lab's; of arms without any
    nothing. Of a run that cannot be read nothing is known, which the verdict says."""
    saved = flight.saved
    reasons = {
        arm.name: [
            reason for run_id in saved.run_ids(arm) for reason in saved.facts_of_run(arm, run_id).decided_by
        ]
        for arm in saved.plan.arms
    }
    if not flight.is_whole:
        reasons["experiment"] = ["not all of it was flown"]
    return {place: list(dict.fromkeys(of_place)) for place, of_place in reasons.items() if of_place}
