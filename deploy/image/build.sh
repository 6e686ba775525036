#!/bin/sh
# Builds the stock consumer and the relay with all that the documents offer, stripped, into the folder FOLDER:
#
#   deploy/image/build.sh FOLDER
#
# The Dockerfile runs it, and so does `cargo xtask dist`, without a container.
set -eu
folder=$1
cargo build --release --locked --package inbox-consumer --features sqlite,intake,schemas,tls,opentelemetry,jemalloc --bin inbox-consumer
cargo build --release --locked --package inbox-outbox-relay --features sqlite,tls,opentelemetry,webhook --bin outbox-relay
mkdir -p "$folder"
for program in inbox-consumer outbox-relay; do
    strip -o "$folder/$program" "${CARGO_TARGET_DIR:-target}/release/$program"
done
