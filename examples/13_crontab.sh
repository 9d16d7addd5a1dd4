#!/bin/sh
# A crontab without cron, and without Python:
#
#   crontab -l | sh 13_crontab.sh
#
# The comment above a line becomes its title; what cannot be carried over is said on stderr. Lines
# run as cron runs them, by /bin/sh, and what they print is in the logs of their jobs.
set -eu

duly import crontab --zone Europe/Berlin > schedules.toml
duly plan schedules.toml
exec duly up schedules.toml --allow shell
