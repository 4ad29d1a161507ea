#!/bin/sh
# Installs what the tests need from the system (a real browser, and `ip` for a network of its own), or says what to install.
set -eu
command -v chromium >/dev/null 2>&1 && command -v chromedriver >/dev/null 2>&1 && command -v ip >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing what the tests need from the system: chromium, chromium-driver, iproute2 ..."
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium chromium-driver iproute2 >/dev/null
else
  echo "The tests open reports in a real browser and make a network of their own. Please install first:" >&2
  echo "  sudo apt-get install chromium chromium-driver iproute2" >&2
  exit 1
fi
