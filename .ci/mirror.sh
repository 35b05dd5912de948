#!/usr/bin/env bash
# Print the Debian mirror that this machine's apt uses.   mirror.sh
set -euo pipefail

# shellcheck disable=SC2016  # a format of apt's, not of the shell's
mirror() { apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | sed -n 1p; }

found=$(mirror)
if [[ -z $found ]]; then # apt knows the mirror only after its first update
    flock "$0" apt-get -qq update >/dev/null 2>&1 # apt would refuse one of two scripts at the same time
    found=$(mirror)
fi
[[ -n $found ]] && echo "$found"
