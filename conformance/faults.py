"""A proxy to a server that does to uploads what networks and overloaded servers do to them.

It reads the heads of requests and replies, and passes everything on as it is. One request at a time on each connection: no library of
the suites sends the next one before it has the reply to the last.
"""

import asyncio
import http.client
import socket
import ssl
import struct
import threading
import time

# The connection is reset while a body with media is on its way; the server has a part of it.
CUT = "cut"
# A request with media is answered 503, and the server does not see it.
UNAVAILABLE = "503 in the middle"
# The server has taken the media, and the connection ends without a reply: to a request that did not end its upload, or to one that did.
LOST_REPLY, LOST_FINAL_REPLY = "lost reply", "lost final reply"
# The same for the start of a session, and for a request without media.
LOST_START, LOST_DOWNLOAD = "lost start", "lost download"
# The server has taken the media; the client reads 503.
LOST_TO_503 = "503 instead of the reply"
# A request with media arrives when its session has expired.
EXPIRED = "expired"

OF_REQUESTS = CUT, UNAVAILABLE, EXPIRED
PIECE = 64 * 1024
HEAD_LIMIT = 256 * 1024
PATIENCE = 30
NOT_NOW = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n\r\nnot now"


class FaultProxy:
    """Strikes the first `times` requests that a fault is about, after `skip` of them.

    A cut lets `after` bytes of the body pass: without it, half of them. `tls` is the context for the clients; the server is
    then spoken to over TLS as well. `struck` counts the strikes, `seen` has all requests.
    """

    def __init__(self, port, fault, times=1, skip=0, after=None, tls=None):
        self.port, self.fault, self.left, self.skip, self.after = port, fault, times, skip, after
        self.to_server = ssl._create_unverified_context() if tls else None
        self.struck = 0
        self.seen = []
        # The length of the media, as the last request in tus or the IETF draft that had it.
        self.total = None
        self.tasks = set()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.listener = self._run(asyncio.start_server(self._connection, "127.0.0.1", 0, limit=HEAD_LIMIT, ssl=tls))
        self.own_port = self.listener.sockets[0].getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.own_port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._run(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(timeout=PATIENCE)
        self.loop.close()

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)

    async def _end(self):
        self.listener.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _connection(self, client, answer):
        task = asyncio.current_task()
        self.tasks.add(task)
        try:
            while await self._exchange(client, answer):
                pass
            answer.close()
            await answer.wait_closed()
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            answer.transport.abort()
            self.tasks.discard(task)

    async def _exchange(self, client, answer):
        """A request and its reply. Tells whether the connection goes on."""
        head = await head_of(client)
        if head is None:
            return False
        request = Request(head)
        self.seen.append(request)
        self.total = request.headers.get("upload-length", self.total)
        strikes = self.fault in OF_REQUESTS and request.kind == "data" and self._strikes()
        if strikes and self.fault == UNAVAILABLE:
            async for _ in body_of(client, request):
                pass
            answer.write(NOT_NOW)
            await answer.drain()
            return True
        if strikes and self.fault == EXPIRED:
            await asyncio.to_thread(self._outlive, request)
        reader, server = await asyncio.open_connection("127.0.0.1", self.port, limit=HEAD_LIMIT, ssl=self.to_server)
        try:
            if strikes and self.fault == CUT:
                await send(request, client, server, request.middle if self.after is None else self.after)
                reset(answer)
                return False
            sending = asyncio.create_task(send(request, client, server))
            try:
                goes_on = await self._reply(request, reader, answer)
                # An early reply ends the connection: nobody reads the rest of the request.
                await asyncio.wait({sending}, timeout=1)
                return goes_on and sending.done() and sending.exception() is None
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        finally:
            server.close()

    async def _reply(self, request, server, answer):
        reply = None
        while reply is None or reply.status < 200:
            head = await head_of(server)
            if head is None:
                raise EOFError("no reply")
            reply = Reply(head, request)
            if reply.status < 200:
                answer.write(head)
        if self._is_about(request, reply) and self._strikes():
            if self.fault != LOST_TO_503:
                raise EOFError("the reply is lost")
            answer.write(NOT_NOW)
            await answer.drain()
            return True
        answer.write(head)
        async for data in body_of(server, reply):
            answer.write(data)
            await answer.drain()
        return not reply.closes

    def _is_about(self, request, reply):
        return {
            LOST_START: request.kind == "start",
            LOST_REPLY: request.kind == "data" and not reply.is_final(self.total),
            LOST_FINAL_REPLY: request.kind in ("data", "query") and reply.is_final(self.total),
            LOST_TO_503: request.kind == "data",
            LOST_DOWNLOAD: request.method == "GET",
        }.get(self.fault, False)

    def _strikes(self):
        if self.skip:
            self.skip -= 1
            return False
        if not self.left:
            return False
        self.left -= 1
        self.struck += 1
        return True

    def _outlive(self, request):
        """Waits until the server does not know the session any more."""
        end = time.monotonic() + PATIENCE
        while self._lives(request):
            assert time.monotonic() < end, "the session does not expire"
            time.sleep(0.05)

    def _lives(self, request):
        if self.to_server:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=self.to_server)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            if "x-goog-upload-command" in request.headers:
                connection.request("POST", request.target, headers={"X-Goog-Upload-Command": "query"})
            elif request.is_patching:
                connection.request("HEAD", request.target, headers={"Tus-Resumable": "1.0.0"})
            else:
                connection.request("PUT", request.target, headers={"Content-Range": "bytes */*"})
            return connection.getresponse().status in (200, 308)
        finally:
            connection.close()


class Message:
    """The head of a request or a reply."""

    def __init__(self, head):
        self.head = head
        self.first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        fields = (line.partition(":") for line in lines)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in fields}

    @property
    def is_chunked(self):
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def closes(self):
        return "close" in self.headers.get("connection", "").lower()


class Request(Message):
    def __init__(self, head):
        super().__init__(head)
        self.method, self.target, _ = self.first.split(" ", 2)
        self.length = int(self.headers.get("content-length", 0))

    @property
    def kind(self):
        """`start` of a session, `data` with media, `query` within a session without media, or `other`."""
        command = self.headers.get("x-goog-upload-command")
        with_body = self.is_chunked or self.length > 0
        if self.is_patching:
            method = self.headers.get("x-http-method-override", self.method)
            return {"POST": "start", "PATCH": "data" if with_body else "query", "HEAD": "query"}.get(method, "other")
        if command == "start" or ("uploadType=resumable" in self.target and "upload_id=" not in self.target):
            return "start"
        if command is None and "content-range" not in self.headers and not self._is_upload:
            return "other"
        return "data" if with_body else "query"

    @property
    def is_patching(self):
        """Whether it is in tus or the IETF draft, which append by PATCH."""
        return "tus-resumable" in self.headers or "upload-draft-interop-version" in self.headers

    @property
    def _is_upload(self):
        return self.target.startswith(("/upload/", "/resumable/upload/")) or "x-goog-upload-protocol" in self.headers

    @property
    def middle(self):
        return PIECE if self.is_chunked else self.length // 2


class Reply(Message):
    def __init__(self, head, request):
        super().__init__(head)
        self.status = int(self.first.split(" ")[1])
        self.request = request
        empty = request.method == "HEAD" or self.status in (204, 304)
        # Without a length a reply ends with its connection.
        self.length = 0 if empty else int(self.headers["content-length"]) if "content-length" in self.headers else None

    @property
    def closes(self):
        return super().closes or (self.length is None and not self.is_chunked)

    def is_final(self, total):
        """Whether it ends the upload of so many bytes, in each of the forms in which a server says that more is expected."""
        if "upload-offset" in self.headers:
            return 200 <= self.status < 300 and self.headers["upload-offset"] == total
        overridden = self.headers.get("x-http-status-code-override") == "308"
        state = self.headers.get("x-goog-upload-status", "final")
        return 200 <= self.status < 300 and not overridden and state == "final"


async def head_of(reader):
    """The bytes of a head; None at the end of the connection."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None


async def body_of(reader, message):
    """The bytes of a body as they are on the wire."""
    if not message.is_chunked:
        async for data in exactly(reader, message.length):
            yield data
        return
    size = None
    while size != 0:
        line = await reader.readuntil(b"\r\n")
        yield line
        size = int(line.split(b";")[0], 16)
        if size:
            async for data in exactly(reader, size + 2):
                yield data
    line = None
    while line != b"\r\n":
        line = await reader.readuntil(b"\r\n")
        yield line


async def exactly(reader, length):
    """So many bytes in pieces; all there are if the length is None."""
    while length is None or length > 0:
        data = await reader.read(PIECE if length is None else min(length, PIECE))
        if not data:
            if length is None:
                return
            raise EOFError("a body breaks off")
        if length is not None:
            length -= len(data)
        yield data


async def send(request, client, server, most=None):
    """Passes a request on, or only `most` bytes of its body."""
    server.write(request.head)
    async for data in body_of(client, request):
        server.write(data if most is None else data[:most])
        await server.drain()
        if most is not None:
            most -= len(data)
            if most <= 0:
                return


def reset(writer):
    """Ends a connection so that the other side reads an error, and not an end."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
