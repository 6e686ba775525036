# The stock consumer and the relay, on a slim Debian, as a user without rights.
#
#   docker build --tag inbox .
#
# For a consumer of your own, copy this file and let build.sh build your package (docs/deploying.md).

# A tag can be moved to another image, a digest cannot: `--build-arg RUST_IMAGE=NAME:TAG@sha256:…` (docs/deploying.md,
# "Images by digest"). The stable Rust that the tests last ran with; a test compares it with Cargo.toml.
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
COPY inbox-runtime inbox-runtime
COPY inbox-schemas inbox-schemas
COPY inbox-store inbox-store
COPY kafka-kit kafka-kit
COPY migrations migrations
COPY outbox-core outbox-core
COPY outbox-debezium outbox-debezium
COPY outbox-planner outbox-planner
COPY outbox-relay outbox-relay
COPY outbox-webhook outbox-webhook
COPY service-kit service-kit
COPY tests tests
COPY xtask xtask
COPY LICENSE-APACHE LICENSE-MIT ./
COPY deploy/image deploy/image
# Where messages and `check` send readers for documentation.
ARG BUILD_DOCS_URL=https://inbox-rs.github.io/inbox/docs
RUN BUILD_DOCS_URL=${BUILD_DOCS_URL} deploy/image/build.sh /programs

FROM ${DEBIAN_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="inbox" \
      org.opencontainers.image.description="Exactly-once effects from Kafka in SQL, in order per aggregate, with an outbox relay" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.source="https://github.com/inbox-rs/inbox" \
      org.opencontainers.image.documentation="https://inbox-rs.github.io/inbox"
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates libssl3 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /programs/inbox-consumer /programs/outbox-relay /usr/local/bin/
COPY deploy/image/health.sh /usr/local/bin/inbox-health
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/inbox/
# Metrics and health, where a probe and a scraper reach them. The environment overrides `http.listen` of the file.
ENV INBOX_HTTP__LISTEN=0.0.0.0:9464 \
    OUTBOX_HTTP__LISTEN=0.0.0.0:9465
EXPOSE 9464 9465
# No name is needed, and nothing in the image belongs to it.
USER 10001:10001
WORKDIR /config
# `docker stop` sends SIGTERM: open transactions finish, partitions are released. Give it 30 seconds (--time 30).
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s --retries=3 CMD ["inbox-health"]
ENTRYPOINT ["inbox-consumer"]
CMD ["run"]
