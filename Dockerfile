# The stock consumer and the relay, on a slim Debian, as a user without rights.
#
#   docker build --tag inbox .
#
# A consumer of your own: copy this file, and build your package instead of the two here (docs/deploying.md).

# A tag can be moved to another image, a digest cannot: `--build-arg RUST_IMAGE=NAME:TAG@sha256:…` (docs/deploying.md,
# "Images by digest"). The stable Rust that the tests last ran with; a test keeps it from being older than Cargo.toml takes.
ARG RUST_IMAGE=rust:1.95.0-slim-bookworm
ARG DEBIAN_IMAGE=debian:bookworm-slim

FROM ${RUST_IMAGE} AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends g++ libssl-dev make perl pkg-config \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY api api
COPY bench bench
COPY examples examples
COPY inbox-conformance inbox-conformance
COPY inbox-consumer inbox-consumer
COPY inbox-engine inbox-engine
COPY inbox-handler inbox-handler
COPY inbox-intake inbox-intake
COPY inbox-kafka inbox-kafka
COPY inbox-runtime inbox-runtime
COPY inbox-schemas inbox-schemas
COPY inbox-store inbox-store
COPY migrations migrations
COPY outbox-core outbox-core
COPY outbox-relay outbox-relay
COPY service-kit service-kit
COPY tests tests
COPY xtask xtask
COPY LICENSE-APACHE LICENSE-MIT ./
RUN cargo build --release --locked --package inbox-consumer --features sqlite,tls,opentelemetry,jemalloc --bin inbox-consumer \
 && cargo build --release --locked --package inbox-outbox-relay --features tls,opentelemetry,webhook --bin outbox-relay

FROM ${DEBIAN_IMAGE}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates libssl3 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/inbox-consumer /src/target/release/outbox-relay /usr/local/bin/
# No name is needed, and nothing in the image belongs to it.
USER 10001:10001
WORKDIR /config
# `docker stop` sends SIGTERM: open transactions finish, partitions are let go. Give it 30 seconds (--time 30).
STOPSIGNAL SIGTERM
ENTRYPOINT ["inbox-consumer"]
CMD ["run"]
