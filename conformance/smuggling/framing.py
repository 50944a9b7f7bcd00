"""Where a body ends: both framings, lengths, chunks, trailers."""

from cases import CHUNKED, END, UPLOAD, Case, chunk, in_chunks, length

# Transfer codings as a line of the head. Each is refused, or is `chunked` for everybody.
CODINGS = {
    "plain": CHUNKED,
    "in capitals": b"TRANSFER-ENCODING: CHUNKED\r\n",
    "mixed case": b"tRaNsFeR-eNcOdInG: cHuNkEd\r\n",
    "behind a tab": b"Transfer-Encoding:\tchunked\r\n",
    "behind many spaces": b"Transfer-Encoding:" + b" " * 500 + b"chunked\r\n",
    "without a space": b"Transfer-Encoding:chunked\r\n",
    "before a tab": b"Transfer-Encoding: chunked\t\r\n",
    "space before the colon": b"Transfer-Encoding : chunked\r\n",
    "tab before the colon": b"Transfer-Encoding\t: chunked\r\n",
    "xchunked": b"Transfer-Encoding: xchunked\r\n",
    "chunkedx": b"Transfer-Encoding: chunkedx\r\n",
    "chunked, identity": b"Transfer-Encoding: chunked, identity\r\n",
    "identity, chunked": b"Transfer-Encoding: identity, chunked\r\n",
    "chunked, chunked": b"Transfer-Encoding: chunked, chunked\r\n",
    "gzip, chunked": b"Transfer-Encoding: gzip, chunked\r\n",
    "chunked, and a comma": b"Transfer-Encoding: chunked,\r\n",
    "a comma, and chunked": b"Transfer-Encoding: ,chunked\r\n",
    "chunked with a parameter": b"Transfer-Encoding: chunked;q=1\r\n",
    "in quotes": b'Transfer-Encoding: "chunked"\r\n',
    "in single quotes": b"Transfer-Encoding: 'chunked'\r\n",
    "empty": b"Transfer-Encoding: \r\n",
    "twice": CHUNKED * 2,
    "and identity in a second line": CHUNKED + b"Transfer-Encoding: identity\r\n",
    "behind a line with identity": b"Transfer-Encoding: identity\r\n" + CHUNKED,
    "behind a line with nonsense": b"Transfer-Encoding: cow\r\n" + CHUNKED,
    "folded": b"Transfer-Encoding:\r\n chunked\r\n",
    "folded by a tab": b"Transfer-Encoding:\r\n\tchunked\r\n",
    "behind NUL": b"Transfer-Encoding: \0chunked\r\n",
    "before NUL": b"Transfer-Encoding: chunked\0\r\n",
    "NUL in the name": b"Transfer-Encoding\0: chunked\r\n",
    "behind a vertical tab": b"Transfer-Encoding: \x0bchunked\r\n",
    "before a vertical tab": b"Transfer-Encoding: chunked\x0b\r\n",
    "behind a form feed": b"Transfer-Encoding: \x0cchunked\r\n",
    "behind DEL": b"Transfer-Encoding: \x7fchunked\r\n",
    "behind a no-break space": b"Transfer-Encoding: \xa0chunked\r\n",
    "with the Kelvin sign": "Transfer-Encoding: chun\u212aed\r\n".encode(),
    "behind a line of LF alone": b"X: y\nTransfer-Encoding: chunked\r\n",
    "before a bare CR": b"Transfer-Encoding: chunked\rX: y\r\n",
    "named by Connection": b"Connection: Transfer-Encoding\r\n" + CHUNKED,
    "with the length named by Connection": b"Connection: Content-Length\r\n" + CHUNKED,
}
# These are no transfer coding by a strict reading: the length counts, or the request is refused.
NO_CODINGS = {
    "underscore in the name": b"Transfer_Encoding: chunked\r\n",
    "a prefix to the name": b"X-Transfer-Encoding: chunked\r\n",
    "space before the name": b"X: y\r\n Transfer-Encoding: chunked\r\n",
    "behind a bare CR": b"X: y\rTransfer-Encoding: chunked\r\n",
    "behind NUL in another value": b"X: y\0Transfer-Encoding: chunked\r\n",
}


def chunks_end_first(coding):
    """Who counts chunks has the hidden request behind the last one; who counts the length has it in the body."""
    return lambda hidden: UPLOAD + length(len(END + hidden.bytes)) + coding + b"\r\n" + END + hidden.bytes


def length_ends_first(coding):
    """The other way round."""
    def bytes_of(hidden):
        size = b"%x\r\n" % len(hidden.bytes)
        return UPLOAD + coding + length(len(size)) + b"\r\n" + size + hidden.bytes + b"\r\n" + END
    return bytes_of


def of_both():
    for name, coding in (CODINGS | NO_CODINGS).items():
        yield Case(f"length and chunks: {name}, the chunks end first", chunks_end_first(coding))
    for name, coding in CODINGS.items():
        yield Case(f"length and chunks: {name}, the length ends first", length_ends_first(coding))
    yield Case("length and chunks: the coding before the length, the chunks end first",
               lambda hidden: UPLOAD + CHUNKED + length(len(END + hidden.bytes)) + b"\r\n" + END + hidden.bytes)
    yield Case("length and chunks: two lengths that differ",
               lambda hidden: UPLOAD + length(0) + CHUNKED + length(len(END + hidden.bytes)) + b"\r\n" + END + hidden.bytes)


# Lengths, with %d for that of the hidden request, which is the body. Who reads another number, or none, finds it behind the body.
LENGTHS = {
    "twice alike": b"Content-Length: %d\r\nContent-Length: %d\r\n",
    "N, N": b"Content-Length: %d, %d\r\n",
    "zero, then N": b"Content-Length: 0\r\nContent-Length: %d\r\n",
    "N, then zero": b"Content-Length: %d\r\nContent-Length: 0\r\n",
    "0, N": b"Content-Length: 0, %d\r\n",
    "N, 0": b"Content-Length: %d, 0\r\n",
    "N, N and N again": b"Content-Length: %d, %d\r\nContent-Length: %d\r\n",
    "N and a comma": b"Content-Length: %d,\r\n",
    "+N": b"Content-Length: +%d\r\n",
    "-N": b"Content-Length: -%d\r\n",
    "-0": b"Content-Length: -0\r\n",
    "hexadecimal": b"Content-Length: 0x%x\r\n",
    "octal": b"Content-Length: 0o%o\r\n",
    "with an exponent": b"Content-Length: %de0\r\n",
    "with a fraction": b"Content-Length: %d.0\r\n",
    "with an underscore": b"Content-Length: 0_%d\r\n",
    "with a space inside": b"Content-Length: 0 %d\r\n",
    "zero behind a space": b"Content-Length: %d 0\r\n",
    "with leading zeros": b"Content-Length: 0000%d\r\n",
    "with a hundred leading zeros": b"Content-Length: " + b"0" * 100 + b"%d\r\n",
    "in spaces and tabs": b"Content-Length: \t %d \t\r\n",
    "in quotes": b'Content-Length: "%d"\r\n',
    "with a parameter": b"Content-Length: %d;q=1\r\n",
    "empty": b"Content-Length: \r\n",
    "empty, then N": b"Content-Length: \r\nContent-Length: %d\r\n",
    "behind a vertical tab": b"Content-Length: \x0b%d\r\n",
    "before NUL": b"Content-Length: 0\0%d\r\n",
    "digits that are not ASCII": "Content-Length: \uff10\r\n".encode(),
    "space before the colon": b"Content-Length : %d\r\n",
    "NUL in the name": b"Content-Length\0: %d\r\n",
    "folded": b"Content-Length:\r\n %d\r\n",
    "zero, and N in a folded line": b"Content-Length: 0\r\n %d\r\n",
    "before a bare CR": b"Content-Length: %d\rContent-Length: 0\r\n",
    "behind a line of LF alone": b"X: y\nContent-Length: %d\r\n",
    "named by Connection": b"Connection: Content-Length\r\nContent-Length: %d\r\n",
    "2^32": b"Content-Length: 4294967296\r\n",
    "2^63": b"Content-Length: 9223372036854775808\r\n",
    "2^64": b"Content-Length: 18446744073709551616\r\n",
    "2^64 and N": b"Content-Length: 18446744073709551616\r\nContent-Length: %d\r\n",
    "forty digits": b"Content-Length: 1" + b"0" * 39 + b"\r\n",
}


def of_lengths():
    def bytes_of(lines):
        return lambda hidden: UPLOAD + lines % ((len(hidden.bytes),) * lines.count(b"%")) + b"\r\n" + hidden.bytes

    for name, lines in LENGTHS.items():
        yield Case(f"length: {name}", bytes_of(lines))


# Sizes of chunks in which other readers see a zero: the hidden request is behind what they take for the last chunk.
ZEROS = {
    "+0": b"+0", "-0": b"-0", "0x0": b"0x0", "0X": b"0X", "0_0": b"0_0", "0.0": b"0.0", "0g": b"0g", "0,5": b"0,5", "h": b"h",
    "0 5": b"0 5", "empty": b"", "only a space": b" ", "space before it": b" 0", "vertical tab before it": b"\x0b0",
    "vertical tab behind it": b"0\x0b", "NUL behind it": b"0\0", "in quotes": b'"0"', "2^64": b"1" + b"0" * 16, "2^64, leading zeros": b"0001" + b"0" * 16,
    "2^32": b"100000000", "2^63": b"8" + b"0" * 15, "2^128": b"1" + b"0" * 32, "-1": b"-1", "digits that are not ASCII": "\uff10".encode(),
}
# Sizes, with %x for that of the hidden request, which is in the chunk.
SIZES = {
    "in capitals": b"%X", "leading zeros": b"0000%x", "a thousand leading zeros": b"0" * 1000 + b"%x", "space behind it": b"%x ",
    "tab behind it": b"%x\t", "0x": b"0x%x", "+": b"+%x", "-": b"-%x", "underscore": b"0_%x", "space before it": b" %x",
}
# Extensions, behind the size of the chunk with the hidden request.
EXTENSIONS = {
    "a name": b";name", "a value": b";name=value", "a quoted value": b';name="; a \\" b"', "of 1 KB": b";a=" + b"b" * 1000, "of 20 KB": b";a=" + b"b" * 20_000,
    "2000 of them": b";a=b" * 2000, "spaces around": b" ; a = b", "only a semicolon": b";", "a quote that is not closed": b';a="', "NUL": b";a\0b", "NUL first": b";\0",
    "a vertical tab": b";\x0b", "bytes beyond ASCII": b";\xff\xfe", "a bare CR": b";a\rb", "a size": b";\r0",
}
# Chunks after which the hidden request follows as if the body had ended. Each is malformed.
ENDS = {
    "LF behind the size": b"5\nhello\r\n" + END,
    "CR behind the size": b"5\rhello\r\n" + END,
    "CR CR LF behind the size": b"5\r\r\nhello\r\n" + END,
    "nothing behind the data": b"5\r\nhello" + END,
    "LF behind the data": b"5\r\nhello\n" + END,
    "CR behind the data": b"5\r\nhello\r" + END,
    "two other bytes behind the data": b"5\r\nhelloXX" + END,
    "LF CR behind the data": b"5\r\nhello\n\r" + END,
    "more data than the size": b"3\r\nhello\r\n" + END,
    "less data than the size": b"6\r\nhello\r\n" + END,
    "last chunk: LF LF": b"0\n\n",
    "last chunk: CR CR": b"0\r\r",
    "last chunk: LF CR LF": b"0\n\r\n",
    "last chunk: CR LF LF": b"0\r\n\n",
    "last chunk: CR LF LF behind a trailer": b"0\r\nX: y\r\n\n",
    "last chunk: CR CR LF": b"0\r\r\n\r\n",
    "last chunk: CR LF CR": b"0\r\n\r",
    "last chunk: CR LF CR CR LF": b"0\r\n\r\r\n",
    "last chunk: no empty line": b"0\r\n",
    "last chunk: LF in its extension": b"0;a\nb\r\n\r\n",
    "last chunk: LF behind its extension": b"0;a\n\r\n",
    "last chunk: CR in its extension": b"0;a\rb\r\n\r\n",
    "a chunk without a size": b"\r\n\r\n",
    "no chunk at all": b"",
}


def of_chunks():
    def behind(body):
        return lambda hidden: UPLOAD + CHUNKED + b"\r\n" + body + hidden.bytes

    def inside(size):
        def bytes_of(hidden):
            written = size.replace(b"%X", b"%x") % len(hidden.bytes) if b"%" in size else size
            return UPLOAD + CHUNKED + b"\r\n" + chunk(hidden.bytes, written.upper() if b"%X" in size else written) + END
        return bytes_of

    for name, size in ZEROS.items():
        yield Case(f"size of a chunk, as zero: {name}", behind(size + b"\r\n\r\n"))
    for name, size in SIZES.items():
        yield Case(f"size of a chunk: {name}", inside(size))
    for name, extension in EXTENSIONS.items():
        yield Case(f"extension of a chunk: {name}", inside(b"%x" + extension))
    for name, body in ENDS.items():
        yield Case(f"chunks: {name}", behind(body))
    yield Case("extension of a chunk: LF, and the hidden request where only one reading has it", lf_in_extension)
    yield Case("extension of a chunk: LF, the other way round", lf_ends_extension)
    yield Case("chunks: one for each byte", lambda hidden: UPLOAD + CHUNKED + b"\r\n" + b"".join(chunk(bytes([it])) for it in hidden.bytes) + END)


def lf_in_extension(hidden):
    """For who ends the line at LF the hidden request is behind the last chunk; for others it is in a chunk."""
    inner = END + hidden.bytes
    return UPLOAD + CHUNKED + b"\r\n" + b"%x;\n" % len(inner) + b"a" * len(inner) + b"\r\n" + inner + b"\r\n" + END


def lf_ends_extension(hidden):
    line = b"a" * 20
    return UPLOAD + CHUNKED + b"\r\n" + b"%x;\n" % (len(line) + 2 + len(hidden.bytes)) + line + b"\r\n" + hidden.bytes + b"\r\n" + END


# Trailers behind a chunk with the hidden request: as fields of the head they would end the body before it.
TRAILERS = {
    "Content-Length": b"Content-Length: 0\r\n",
    "Transfer-Encoding": b"Transfer-Encoding: identity\r\n",
    "Connection": b"Connection: close, Content-Length, Transfer-Encoding\r\n",
    "an early end of the head": b"X: y\r\nContent-Length: 0\r\n",
    "announced": b"Content-Length: 0\r\nHost: evil.example\r\nExpect: 100-continue\r\n",
    "200 of them": b"X: y\r\n" * 200,
    "of 100 KB": b"X: " + b"y" * 100_000 + b"\r\n",
}
# Malformed trailers, with the hidden request behind them.
BAD_TRAILERS = {
    "the hidden request is read as trailers": b"0\r\nX: y\r\n",
    "no colon": b"0\r\nX\r\n\r\n",
    "space before the colon": b"0\r\nX : y\r\n\r\n",
    "space in the name": b"0\r\nX Y: z\r\n\r\n",
    "NUL": b"0\r\nX: \0\r\n\r\n",
    "a bare CR": b"0\r\nX: y\rZ: z\r\n\r\n",
    "folded": b"0\r\nX: y\r\n z\r\n\r\n",
    "begins with a space": b"0\r\n X: y\r\n\r\n",
}


def of_trailers():
    def behind(trailers):
        return lambda hidden: UPLOAD + b"Trailer: Content-Length, Host\r\n" + CHUNKED + b"\r\n" + chunk(hidden.bytes) + b"0\r\n" + trailers + b"\r\n"

    def bad(body):
        return lambda hidden: UPLOAD + CHUNKED + b"\r\n" + body + hidden.bytes

    for name, trailers in TRAILERS.items():
        yield Case(f"trailers: {name}", behind(trailers))
    for name, body in BAD_TRAILERS.items():
        yield Case(f"malformed trailers: {name}", bad(body))
    yield Case("trailers: LF for the end, and the hidden request in the body", lf_for_the_end)
    yield Case("trailers: Host changes no URL", host_in_trailer, also=no_evil)
    yield Case("trailers: Authorization is no credential", authorization_in_trailer, guarded=True, status=401)


def lf_for_the_end(hidden):
    return in_chunks(UPLOAD, hidden.bytes).removesuffix(END) + b"0\r\n\n"


def host_in_trailer(_):
    start = b"POST /upload/farm/v1/animals?uploadType=resumable HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return start + CHUNKED + b"\r\n" + chunk(b"{}") + b"0\r\nHost: evil.example\r\nX-Forwarded-Host: evil.example\r\n\r\n"


def authorization_in_trailer(hidden):
    create = b"POST /farm/v1/animals HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return create + CHUNKED + b"\r\n" + chunk(hidden.metadata) + b"0\r\n" + hidden.authorization + b"\r\n"


def no_evil(replies):
    assert not any(b"evil" in reply.head for reply in replies), replies


def cases():
    yield from of_both()
    yield from of_lengths()
    yield from of_chunks()
    yield from of_trailers()
