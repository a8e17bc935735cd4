#!/bin/sh
# Run once by the image of PostgreSQL, when its volume is new: a role that owns Sluice's database and
# may do nothing else on the server. Needs SLUICE_ROLE_PASSWORD.
set -eu
psql --set ON_ERROR_STOP=1 --no-psqlrc --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\getenv password SLUICE_ROLE_PASSWORD
CREATE ROLE sluice LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
CREATE DATABASE sluice OWNER sluice;
SQL
