#!/usr/bin/env bash
# Run the experiments, write the step's summary, and record the exit code for the last step.
# WIREFAULT_RUN: words after `wirefault run`; WIREFAULT_BASELINE, WIREFAULT_FAIL_ON: a gate; all optional.
set -uo pipefail

# a line end would add outputs, and a slash would leave the folder
name=${WIREFAULT_NAME:-wirefault}
reports=$(mktemp -d "${RUNNER_TEMP:-/tmp}/${name//[^A-Za-z0-9_.-]/_}-XXXXXX")
# xargs splits quoted words as a shell does, and evaluates nothing
mapfile -t words < <(xargs -n 1 printf '%s\n' <<<"${WIREFAULT_RUN:-wirefault.audit.yaml}")

wirefault run "${words[@]}" --reports "$reports" 2> >(tee "$reports/console.txt" >&2)
code=$?

if [ ! -s "$reports/summary.md" ]; then
    {
        echo "## Wirefault: did not run (exit code $code)"
        echo
        tail -n 20 "$reports/console.txt" | tr -d '\000-\010\013-\037' | sed 's/^/    /'
    } >"$reports/summary.md"
elif [ -n "${WIREFAULT_BASELINE:-}" ] && [ "$code" -le 2 ]; then
    # the baseline decides: what was accepted before fails nothing
    ids=$(python3 -c 'import json, sys
data = json.load(open(sys.argv[1]))
print(*[each["experiment"] for each in (data if isinstance(data, list) else [data])])' "$reports/verdict.json")
    code=0
    for id in $ids; do
        wirefault compare --baseline "$WIREFAULT_BASELINE" "$id" \
            ${WIREFAULT_FAIL_ON:+--fail-on "$WIREFAULT_FAIL_ON"} | tee "$reports/$id.compared.txt"
        gate=${PIPESTATUS[0]}
        { echo; echo "### Against the baseline"; echo; tail -n 12 "$reports/$id.compared.txt" | sed 's/^/    /'; } \
            >>"$reports/summary.md"
        # deviated (1) outweighs unknown (2), and a failure of the lab outweighs both
        if [ "$gate" -gt 2 ] || [ "$gate" -eq 1 ] || [ "$code" -eq 0 ]; then code=$gate; fi
    done
fi

[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$reports/summary.md" >>"$GITHUB_STEP_SUMMARY"
if [ -n "${GITHUB_OUTPUT:-}" ]; then
    printf 'code=%s\nreports=%s\n' "$code" "$reports" >>"$GITHUB_OUTPUT"
else
    echo "reports: $reports"
    exit "$code"
fi
