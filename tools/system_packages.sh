#!/bin/sh
# Installs what the tests need from the system (a real browser), or says what to install.
set -eu
command -v chromium >/dev/null 2>&1 && command -v chromedriver >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "Installing Chromium for the tests that open a report in a real browser ..."
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium chromium-driver >/dev/null
else
  echo "The tests open reports in a real browser. Please install it first:" >&2
  echo "  sudo apt-get install chromium chromium-driver" >&2
  exit 1
fi
