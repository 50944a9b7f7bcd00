"""What a server holds. BigQuery gives no media back, so it is read where docs/durability.md says that it is."""

import json
import pathlib
import sqlite3


def held(data_directory, job_id):
    """The bytes of the one job with this id."""
    data = pathlib.Path(data_directory)
    ledger = sqlite3.connect(f"{(data / 'ledger.sqlite').as_uri()}?mode=ro", uri=True)
    try:
        rows = ledger.execute("SELECT body, media, length FROM resources").fetchall()
        of_job = [row for row in rows if json.loads(row[0]).get("jobReference", {}).get("jobId") == job_id]
        assert len(of_job) == 1, f"{len(of_job)} jobs have the id {job_id}"
        _, media, length = of_job[0]
        small = ledger.execute("SELECT bytes FROM small_media WHERE id = ?", (media,)).fetchone()
    finally:
        ledger.close()
    if small is not None:
        return small[0]
    name = media.hex()
    return (data / "vault" / name[:2] / name[2:4] / name).read_bytes()[:length]
