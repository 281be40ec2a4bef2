#!/usr/bin/env python3
"""Sends 300 rows in 3 flushes through the published Python client and waits for their acks.

    real_client.py ADDR [KEYS]    needs questdb==6.0.0; used by tests/tests/real_clients

KEYS are further keys of the connect string.
"""
import datetime
import sys
import uuid

import questdb as q

ROWS, FLUSHES, TS0 = 300, 3, 1_750_000_000_000_000_000


def put(sender, n):
    sender.row(
        "py_trades",
        symbols={"sym": f"S{n % 5}", "side": "B" if n % 2 else "S"},
        columns={"price": n + 0.25, "size": n * 10, "live": n % 3 == 0, "note": f"row {n} é"},
        at=q.TimestampNanos(TS0 + n),
    )
    if n % 10 == 0:
        sender.row(
            "py_events",
            columns={
                "id": uuid.UUID(int=n),
                "seen": q.TimestampMicros(TS0 // 1000 + n),
                "day": q.DateMillis(n),
            },
            at=datetime.datetime.fromtimestamp(n, datetime.timezone.utc),
        )


def main():
    sender = q.Sender.from_conf(f"ws::addr={sys.argv[1]};{''.join(sys.argv[2:])}", auto_flush=False)
    sender.establish()
    for flush in range(FLUSHES):
        for n in range(flush * ROWS // FLUSHES, (flush + 1) * ROWS // FLUSHES):
            put(sender, n)
        sender.flush()
    if not sender.await_acked_fsn(sender.published_fsn(), 20_000):
        sys.exit("no ack within 20 s")
    sender.close_drain()
    print("acked", sender.acked_fsn() if hasattr(sender, "acked_fsn") else "")


if __name__ == "__main__":
    main()
