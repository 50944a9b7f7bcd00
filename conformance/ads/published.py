"""The documents as Google publishes them, out of the packages of the library."""

import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import googleapiclient

DOCUMENTS = pathlib.Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
# The last version whose document for Play Games has the upload of images.
LAST_WITH_IMAGES = "google-api-python-client==2.68.0"
GAMES = "gamesConfiguration.v1configuration.json"


def current(name):
    return str(DOCUMENTS / name)


def with_images(folder):
    """The document of Play Games from the old package. Kept beside the virtual environment."""
    kept = pathlib.Path(sys.prefix) / GAMES
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=folder) as into:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
            subprocess.run([*pip, "--dest", into, LAST_WITH_IMAGES], check=True)
            (wheel,) = pathlib.Path(into).glob("*.whl")
            with zipfile.ZipFile(wheel) as package:
                text = package.read(f"googleapiclient/discovery_cache/documents/{GAMES}")
        assert "imageConfigurations" in json.loads(text)["resources"]
        kept.write_bytes(text)
    return str(kept)
