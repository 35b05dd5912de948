"""Run all benchmarks (``make bench``): print each figure with its target, then one JSON object."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from bench import (
    coverage,
    delay,
    episodes,
    faults,
    gateway,
    ingress,
    lab,
    lab_startup,
    page,
    reports,
    search,
    startup,
    tls,
    toxiproxy,
    verdicts,
)
from wirefault.lab.toxiproxy import Choice


def main() -> None:
    figures: dict[str, object] = {}
    executable = shutil.which("toxiproxy-server")
    choices = {"embedded": Choice("embedded")}
    if executable:
        choices["toxiproxy-server"] = Choice("executable", executable=executable)
    else:
        print("no toxiproxy-server on PATH: measured with the embedded Toxiproxy only")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configuration = lab.in_folder(folder)
        for kind, choice in choices.items():
            ready = lab.ready_s(configuration, choice)
            print(
                f"lab ready, {kind}: {ready[0]:.2f} to {ready[-1]:.2f} s, n = {len(ready)} (target: under 4)"
            )
            figures[f"ready_s {kind}"] = ready
            for probability in (0.1, 0.3, 1.0):
                arming = lab.arming_ms(configuration, choice, probability)
                print(f"request to armed, {kind}: {rounded(arming)} ms (target at 0.1: p99 under 25)")
                figures[f"arming_ms {kind} {probability}"] = arming
        figures["forking"] = starts = lab_startup.measure_forking(configuration)
        print(
            f"start of a lab, with forked and with spawned processes: {starts} (target: cpu_s at most 0.67)"
        )
        sample = lab.sample_run_s(folder)
        print(f"sample prompts without faults: {rounded(sample)} (target: 24 in under 5 s)")
        figures["sample"] = sample
    figures["coverage"] = missed = coverage.measure_coverage(verdicts.RUNS)
    print(f"ends of intervals that miss: {missed} (targets: exact ones 0.05, others 0.075 from n = 60 on)")
    figures["verdicts"] = rates = verdicts.measure_verdicts()
    print(f"error rates of verdicts: {rates} (target: wrong ones at most 0.05)")
    figures["search"] = searches = search.measure_searches()
    print(
        f"searches over simulated agents: {searches} (targets: standard deviation 0.87, coverage 0.95,"
        " exact pairs 0.95, 299 episodes)"
    )
    figures["page"] = drawn = page.measure_page()
    print(f"page of 10,000 episodes: {drawn} (targets: 10 MB, opened in 2 s, filtered in 0.2 s)")
    with tempfile.TemporaryDirectory() as name:
        figures["episodes"] = per_lane = episodes.measure_episodes(Path(name))
        figures["reports"] = read = reports.measure_reports(Path(name) / "logs")
    print(f"episodes of three calls: {per_lane} (targets: per_second 60, history_bytes under 4000)")
    print(f"figures of a large arm: {read} (target: kept_ms at most 0.1)")
    figures["toxiproxy"] = compared = toxiproxy.measure_toxiproxy()
    print(
        f"embedded Toxiproxy compared with the real one: {compared} (targets:"
        " p50 at most 2, per_second at least 0.33)"
    )
    figures["gateway"] = ratios = gateway.measure_gateway()
    print(f"gateway: {ratios} (targets: p50 at most 2.5, per_second_32 at least 0.5, times_mitmproxy 8)")
    figures["ingress"] = intercepted = ingress.measure_ingress()
    print(f"the ingress: {intercepted} (target: new TLS connections at least half of new plain ones)")
    figures["tls"] = secure = tls.measure_tls()
    print(f"TLS at the gateway: {secure} (target: new_per_second, tls over plain at least 0.5)")
    figures["memory"] = memory = gateway.measure_memory()
    print(f"gateway's memory: {memory} (target: flat)")
    figures["matching"] = matching = faults.measure_matching()
    print(f"200 armed faults: {matching} (target: at most 0.2 more than with one)")
    figures["delay"] = exact = delay.measure_delay()
    print(f"injected delay: {exact} (targets: error_ms p50 under 2, p99 under 10)")
    figures["startup"] = starting = startup.measure_startup()
    print(f"start-up: {starting} (target: each command under {startup.TARGET_MS} ms)")
    print(json.dumps(figures, default=str))


def rounded(figures: dict[str, object]) -> dict[str, object]:
    return {key: round(value, 2) if isinstance(value, float) else value for key, value in figures.items()}


if __name__ == "__main__":
    main()
