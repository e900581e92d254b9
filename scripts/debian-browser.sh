#!/bin/bash
# Provides a Chromium for the tests of the hosted pages: the headless shell of Debian, installed with apt together with the font
# that the pictures in docs/reference/ui are drawn with. Where it cannot be installed, a Chromium on the PATH does as well, and
# takes twice as long. A second run finds it there and does nothing.
#
#   scripts/debian-browser.sh
#
# Needs root, apt and a mirror where there is none yet. Without them it says `not run here: ...`: exit 0, but 1 where CI is set.
set -euo pipefail

say() { echo "debian-browser: $*"; }
not_run_here() { echo "not run here: $*"; [ -z "${CI:-}" ] || exit 1; exit 0; }

if found=$(command -v chromium-headless-shell); then
  say "$found is there"
  exit 0
fi

install() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install chromium-headless-shell fonts-liberation >/dev/null
}

if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  say "installs chromium-headless-shell and fonts-liberation"
  if install || { say "fetches the package lists" && apt-get -qq update && install; }; then
    exit 0
  fi
fi

for name in chromium chromium-browser google-chrome; do
  if found=$(command -v "$name"); then
    say "$found is there"
    exit 0
  fi
done
not_run_here "there is no Chromium, and none can be installed without root, apt and a mirror"
