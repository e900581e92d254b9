#!/bin/bash
# Provides a Chromium for the tests of the hosted pages: one that is on the PATH, else Debian's, installed with apt together
# with the font that the pictures in docs/reference/ui are drawn with. A second run finds it there and does nothing.
#
#   scripts/debian-browser.sh
#
# Needs root, apt and a mirror where there is none yet. Without them it says `not run here: ...`: exit 0, but 1 where CI is set.
set -euo pipefail

say() { echo "debian-browser: $*"; }
not_run_here() { echo "not run here: $*"; [ -z "${CI:-}" ] || exit 1; exit 0; }

for name in chromium chromium-browser google-chrome; do
  if found=$(command -v "$name"); then
    say "$found is there"
    exit 0
  fi
done

command -v apt-get >/dev/null || not_run_here "this system has no apt to install Chromium with"
[ "$(id -u)" = 0 ] || not_run_here "only root can install Chromium"

install() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install chromium fonts-liberation >/dev/null
}

say "installs chromium and fonts-liberation"
install || { say "fetches the package lists" && apt-get -qq update && install; } || not_run_here "Chromium cannot be installed"
