"""A service in another language: pays orders, and appends to the outbox in the same transaction, by plain SQL."""

import json
import os
import time
import uuid

import psycopg

# docs/outbox-table.md is the contract of this statement. An event whose key is there already is left out.
APPEND = """INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, occurred_at_ms,
                                       headers, payload, dedup_key, deliver_after)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, now() + make_interval(secs => %s))
            ON CONFLICT (dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING"""


def append(connection, event_type, aggregate, order, payload, seconds=None):
    """Answers how many events are new: 1 or 0."""
    headers = [["correlation_id", f"checkout-{order}"], ["signature", {"base64": "/wA="}]]
    row = (
        uuid.uuid4(),
        event_type,
        aggregate,
        str(order),
        time.time_ns() // 1_000_000,
        json.dumps(headers),
        json.dumps(payload).encode(),
        f"{event_type}/{order}",
        seconds,
    )
    return connection.execute(APPEND, row).rowcount


def pay(connection, order):
    # All of it, or nothing. The UPDATE locks the order, so that its events are in the order of commits.
    with connection.transaction():
        amount = connection.execute(
            "UPDATE orders SET paid = true WHERE id = %s RETURNING amount", (order,)
        ).fetchone()[0]
        new = append(connection, "OrderPaid", "Order", order, {"amount": amount})
        # An aggregate of its own: what comes behind a late event of an aggregate waits for it.
        return new + append(connection, "ReviewAsked", "Review", order, {"order": order}, seconds=3)


# Relays are woken by the trigger: there is nothing to be said of them here.
with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
    print(sum(pay(connection, order) for order in range(1, 6)))
