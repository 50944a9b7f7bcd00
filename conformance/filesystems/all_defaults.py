"""gcsfs without any setting but the URL: all_defaults.py URL. It asks by gRPC what kind of bucket each one is, and is told at once."""

import sys

import gcsfs

from report import media


def main(url):
    store = gcsfs.GCSFileSystem(project="test", token="anon", endpoint_url=url)
    # Else the library without what it does by default would be tested once more.
    assert type(store).__name__ == "ExtendedGcsFileSystem", type(store)
    store.mkdir("barn")
    # The second goes in a session.
    for length in 1000, 6_000_000:
        data = media(length, seed=length)
        with store.open("barn/cow", "wb") as file:
            file.write(data)
        assert store.cat("barn/cow") == data, "other bytes came back"
    store.rm("barn", recursive=True)
    assert not store.exists("barn")


if __name__ == "__main__":
    main(sys.argv[1])
