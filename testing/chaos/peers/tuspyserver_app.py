"""tuspyserver on uvicorn, as its README sets it up: python tuspyserver_app.py DIRECTORY | --version

It leaves downloads to the application: here a GET of an upload's URL answers with the file as it is.
"""

import importlib.metadata
import os
import socket
import sys

import uvicorn
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from tuspyserver import create_tus_router


def main(directory):
    os.makedirs(directory, exist_ok=True)
    app = FastAPI()
    app.include_router(create_tus_router(prefix="files", files_dir=directory))
    app.mount("/files", StaticFiles(directory=directory))

    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    # Nobody reads what it would say about every request.
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1] == "--version":
        names = ["tuspyserver", "uvicorn"]
        print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in names))
    else:
        main(sys.argv[1])
