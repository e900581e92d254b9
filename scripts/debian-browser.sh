#!/bin/bash
# Provides a Chromium for the tests of the hosted pages: Debian's headless shell, installed with apt together with the font
# used for the pictures in docs/reference/ui. If it cannot be installed, a Chromium on the PATH also works, but takes twice
# as long. A second run finds the installation and does nothing.
#
#   scripts/debian-browser.sh
#
# Installing needs root, apt and a mirror. Without them it prints `not run here: ...` and exits with 0, or with 1 if CI is set.
set -euo pipefail

say() { echo "debian-browser: $*"; }
not_run_here() { echo "not run here: $*"; [ -z "${CI:-}" ] || exit 1; exit 0; }

if found=$(command -v chromium-headless-shell); then
  say "$found is installed"
  exit 0
fi

install() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install chromium-headless-shell fonts-liberation >/dev/null
}

if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  say "installing chromium-headless-shell and fonts-liberation"
  if install || { say "fetching the package lists" && apt-get -qq update && install; }; then
    exit 0
  fi
fi

for name in chromium chromium-browser google-chrome; do
  if found=$(command -v "$name"); then
    say "$found is installed"
    exit 0
  fi
done
not_run_here "there is no Chromium, and none can be installed without root, apt and a mirror"
