#!/bin/sh
# Installs what the tests need from the system, or says what to install: a real browser, `ip` for a network of its own,
# and a real PostgreSQL (Debian keeps its programs off the PATH).
set -eu
PACKAGES="chromium chromium-driver iproute2 postgresql"
for initdb in "$(command -v initdb || true)" /usr/lib/postgresql/*/bin/initdb; do
  test -x "$initdb" && break
done
command -v chromium >/dev/null 2>&1 && command -v chromedriver >/dev/null 2>&1 && command -v ip >/dev/null 2>&1 &&
  test -x "$initdb" && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing what the tests need from the system: $PACKAGES ..."
  apt-get update -qq
  # shellcheck disable=SC2086 # one word per package
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $PACKAGES >/dev/null
else
  echo "The tests open reports in a real browser, make a network of their own and start a PostgreSQL. Please install:" >&2
  echo "  sudo apt-get install $PACKAGES" >&2
  exit 1
fi
