"""A proxy for programs whose server's name is fixed: whatever host they ask for, it connects them to a port of this machine."""

import socket
import socketserver
import threading


class ConnectProxy(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, port):
        super().__init__(("127.0.0.1", 0), Tunnel)
        self.port = port
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Tunnel(socketserver.StreamRequestHandler):
    def handle(self):
        assert self.rfile.readline().startswith(b"CONNECT ")
        while self.rfile.readline() not in (b"\r\n", b""):
            pass
        with socket.create_connection(("127.0.0.1", self.server.port)) as server:
            self.connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=carry, args=(server, self.connection), daemon=True)
            back.start()
            carry(self.connection, server)
            back.join()


def carry(source, target):
    """Until one of both ends, which ends the other direction as well."""
    try:
        while data := source.recv(64 * 1024):
            target.sendall(data)
    except OSError:
        pass
    for end in source, target:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
