"""Cases in which a proxy, or the server, takes what is malformed and reads on where a strict reader sees one request and closes the connection.

Behind such a proxy the server reads the requests that the proxy has passed on, and no others: the case is held to that alone. In front of it there must
be no other one that reads otherwise. The versions are those of Debian 12.
"""

LF_IN_CHUNKS = (
    "chunks: LF behind the size",
    "chunks: last chunk: LF LF",
    "chunks: last chunk: LF CR LF",
    "chunks: last chunk: LF behind its extension",
    "extension of a chunk: LF, and the hidden request where only one reading has it",
)
LF_LF = "chunks: last chunk: CR LF LF", "chunks: last chunk: CR LF LF behind a trailer"
LF_BEHIND_DATA = ("chunks: LF behind the data", "chunks: less data than the size")
BAD_TRAILERS = tuple(f"malformed trailers: {name}" for name in ("space before the colon", "space in the name", "NUL", "folded"))
BOTH = tuple(f"length and chunks: {name}, the chunks end first" for name in (
    "plain", "in capitals", "mixed case", "behind a tab", "behind many spaces", "without a space", "before a tab", "folded", "folded by a tab",
    "behind a line of LF alone", "named by Connection", "with the length named by Connection", "the coding before the length"))

# Proxy: what it does: the cases.
OWN_READINGS = {
    # All three proxies write chunks anew, so that it never comes from them.
    "server": {"LF is no empty line, and the request behind it is taken for trailers; hyper does not say so": LF_LF},
    "nginx": {
        "LF alone ends a line of chunks": (*LF_IN_CHUNKS, *LF_LF, *LF_BEHIND_DATA, "chunks: last chunk: LF in its extension"),
        "anything may follow the size of a chunk": ("size of a chunk, as zero: 0 5",),
        "trailers are not looked at": (
            *BAD_TRAILERS, "malformed trailers: no colon", "malformed trailers: begins with a space",
            "malformed trailers: the hidden request is read as trailers", "chunks: last chunk: no empty line"),
    },
    "haproxy": {
        "LF alone ends a line of chunks": (*LF_IN_CHUNKS, *LF_LF, *LF_BEHIND_DATA),
        "trailers are passed on as they are": (*BAD_TRAILERS, "malformed trailers: begins with a space"),
        "the length is taken for zero, and passed on as it is, which the server refuses": ("length: 2^64",),
        "after a refused CONNECT it reads on": ("method: CONNECT", "method: CONNECT, in chunks", "method: CONNECT, the hidden request behind it"),
    },
    "caddy": {
        "with both framings the chunks count, and the connection is kept": (*BOTH, "length and chunks: two lengths that differ", "Expect, length and chunks"),
        "LF alone ends a line of chunks, and CR before its end is passed over": (
            *LF_IN_CHUNKS, *LF_LF, "chunks: CR CR LF behind the size", "chunks: last chunk: CR CR LF", "chunks: last chunk: CR in its extension"),
        "an empty number is zero": (
            "length: empty", "size of a chunk, as zero: empty", "size of a chunk, as zero: only a space", "chunks: a chunk without a size"),
        "trailers are not looked at": (*BAD_TRAILERS, "malformed trailers: a bare CR"),
        "after a refused CONNECT it reads on": ("method: CONNECT, the hidden request behind it",),
        "chunks do not count in HTTP/1.0": (
            "HTTP/1.0: chunks, kept alive", "HTTP/1.0: chunks around the hidden request, kept alive", "HTTP/1.0: length and chunks, the length ends first"),
    },
}


def reads_two(name):
    """The cases, with what the proxy or the server does."""
    return {case: what for what, cases in OWN_READINGS[name].items() for case in cases}
