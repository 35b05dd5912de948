#!/usr/bin/env bash
# Prints the Debian mirror that this machine's own apt uses.   mirror.sh
set -euo pipefail

# shellcheck disable=SC2016  # a format of apt's, not of the shell's
mirror() { apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | sed -n 1p; }

found=$(mirror)
if [[ -z $found ]]; then # before the first update apt does not know whose mirror it is
    flock "$0" apt-get -qq update >/dev/null 2>&1 # two scripts may ask at once, and apt would refuse one
    found=$(mirror)
fi
[[ -n $found ]] && echo "$found"
