#!/bin/sh
# Run once by the image of PostgreSQL, when its volume is new: the product's role is none that may do everything.
set -eu
psql --set ON_ERROR_STOP=1 --username postgres <<'END'
\getenv password ALLOWANCE_PASSWORD
CREATE ROLE allowance LOGIN PASSWORD :'password';
CREATE DATABASE allowance OWNER allowance;
END
