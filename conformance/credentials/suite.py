"""Google's libraries for credentials, unmodified, which get their tokens from the token endpoint of the server: google-auth and google-auth-library.

    suite.py BINARY
"""

import base64
import io
import json
import os
import pathlib
import sys
import tempfile
import urllib.error
import urllib.request

import googleapiclient
import googleapiclient.errors as errors
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError
from google.cloud import storage
from google.oauth2 import service_account
from google.oauth2.credentials import Credentials as UserCredentials
from googleapiclient.discovery import build
from googleapiclient.http import MediaIoBaseUpload

from node import Node
from report import Report, media
from server import Server

CHUNK = 256 * 1024
LARGE = media(3 * 1024 * 1024 + 12_345, seed=2)
READ = "https://www.googleapis.com/auth/devstorage.read_only"
WRITE = "https://www.googleapis.com/auth/devstorage.read_write"
DRIVE = "https://www.googleapis.com/auth/drive"
ROBOT = "robot@farm.iam.gserviceaccount.com"


def service_account_key(server):
    """The JSON of a service account whose tokens come from this server."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return {
        "type": "service_account", "project_id": "farm", "private_key_id": "1", "private_key": pem, "client_email": ROBOT,
        "client_id": "1", "token_uri": f"{server.url}/token",
    }


def users_file(server, user):
    """The JSON of a user's default credentials, of the kind that names its token endpoint."""
    return {
        "type": "external_account_authorized_user", "audience": "//iam.googleapis.com/locations/global/workforcePools/farm/providers/farm",
        "client_id": "id", "client_secret": "secret", "refresh_token": user, "token_url": f"{server.url}/token",
        "token_info_url": f"{server.url}/introspect",
    }


def write_json(folder, name, value):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file)
    return path


def storage_client(server, credentials):
    return storage.Client(project="farm", credentials=credentials, client_options={"api_endpoint": server.url})


def drive_client(server, credentials):
    document = f"{server.url}/discovery/v1/apis/drive/v3/rest"
    return build("drive", "v3", credentials=credentials, discoveryServiceUrl=document, static_discovery=False)


def read_as_stranger(server, name, bucket="barn"):
    """The media of an object, or the status of the refusal."""
    try:
        with urllib.request.urlopen(f"{server.url}/{bucket}/{name}") as reply:
            return reply.read()
    except urllib.error.HTTPError as error:
        return error.code


def round_trip(client, name):
    blob = client.bucket("barn").blob(name, chunk_size=CHUNK)
    blob.upload_from_file(io.BytesIO(LARGE), content_type="video/mp4")
    assert blob.download_as_bytes() == LARGE, "other bytes came back"


def python(report, server, scratch):
    key = service_account_key(server)
    robot = service_account.Credentials.from_service_account_info(key)
    client = storage_client(server, robot)

    def service_account_uploads():
        client.create_bucket("barn")
        round_trip(client, "cow")

    def default_credentials():
        os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = write_json(scratch, "robot.json", key)
        round_trip(storage.Client(client_options={"api_endpoint": server.url}), "llama")

    def forgotten_token():
        """The library gets another token when the server does not know its token any more."""
        server.kill()
        server.start()
        round_trip(client, "goat")

    def public_object():
        """Everybody reads an object that the library has made public, until it is private again."""
        blob = client.bucket("barn").blob("calf")
        blob.upload_from_string(b"moo")
        assert read_as_stranger(server, "calf") == 401
        blob.make_public()
        assert read_as_stranger(server, "calf") == b"moo", "it is not public"
        assert "READER" in blob.acl.all().get_roles()
        assert read_as_stranger(server, "cow") == 401
        blob.make_private()
        assert read_as_stranger(server, "calf") == 401

    def public_bucket():
        """So are the objects that are uploaded later, and their list."""
        bucket = client.create_bucket("meadow")
        bucket.make_public(future=True)
        bucket.blob("lamb").upload_from_string(b"baa")
        assert read_as_stranger(server, "lamb", "meadow") == b"baa", "it is not public"
        with urllib.request.urlopen(f"{server.url}/storage/v1/b/meadow/o") as reply:
            assert json.load(reply)["items"][0]["name"] == "lamb"

    def refused(credentials):
        """On a 401 the library refreshes its credentials, and says that it cannot."""
        def case():
            try:
                storage_client(server, credentials).bucket("barn").blob("cow").download_as_bytes()
            except GoogleAuthError as error:
                assert "refresh" in str(error), error
            else:
                raise AssertionError("it is let in")
        return case

    def users():
        """Each user, by a refresh token, and a service account in a user's name, uploads to Drive."""
        for credentials in (
            UserCredentials(None, refresh_token="alice", token_uri=f"{server.url}/token", client_id="id", client_secret="s"),
            robot.with_scopes([DRIVE]).with_subject("bob"),
        ):
            upload = MediaIoBaseUpload(io.BytesIO(LARGE), "video/mp4", chunksize=CHUNK, resumable=True)
            files = drive_client(server, credentials).files()
            created = files.create(body={"name": "cow"}, media_body=upload).execute()
            assert files.get_media(fileId=created["id"]).execute() == LARGE, "other bytes came back"

    report.case("python: a service account uploads and downloads", service_account_uploads)
    report.case("python: application default credentials", default_credentials)
    report.case("python: a token that the server has forgotten is refreshed", forgotten_token)
    report.case("python: an object is made public and private", public_object)
    report.case("python: a bucket is made public", public_bucket)
    report.case("python: without credentials", refused(AnonymousCredentials()))
    report.case("python: a wrong token", refused(UserCredentials("wrong")))
    report.case("python: users by refresh tokens, and in whose name a service account acts", users)


def scopes(report, binary):
    """Against the published document, whose methods name their scopes."""
    documents = pathlib.Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
    with Server(binary, "--dev-tokens", "--api", str(documents / "storage.v1.json")) as server:
        key = service_account_key(server)

        def client(scope):
            credentials = service_account.Credentials.from_service_account_info(key).with_scopes([scope])
            # The library would add its own scopes.
            return build("storage", "v1", credentials=credentials, static_discovery=False,
                         discoveryServiceUrl=f"{server.url}/discovery/v1/apis/storage/v1/rest")

        def insert(scope):
            upload = MediaIoBaseUpload(io.BytesIO(b"a cow"), "image/png")
            return client(scope).objects().insert(bucket="barn", name="cow", media_body=upload).execute()

        def right_scope():
            client(WRITE).buckets().insert(project="farm", body={"name": "barn"}).execute()
            insert(WRITE)
            assert client(READ).objects().get_media(bucket="barn", object="cow").execute() == b"a cow"

        def narrow_scope():
            try:
                insert(READ)
            except errors.HttpError as error:
                reason = json.loads(error.content)["error"]["errors"][0]["reason"]
                assert (error.resp.status, reason) == (403, "insufficientPermissions"), error
                challenge = error.resp["www-authenticate"]
                assert 'error="insufficient_scope"' in challenge and WRITE in challenge, challenge
                return
            raise AssertionError("it is let in")

        report.case("python: one of the method's scopes suffices", right_scope)
        report.case("python: a scope that the method does not name is refused", narrow_scope)


def javascript(report, server, scratch):
    os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = write_json(scratch, "user.json", users_file(server, "carol"))
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libraries.mjs")
    libraries = Node(script, os.environ["NODE_PACKAGES"], server.url)

    def default_credentials():
        sent = base64.b64encode(LARGE).decode()
        assert libraries.ask(call="upload", name="sheep", data=sent) == sent, "other bytes came back"

    def user():
        files = drive_client(server, UserCredentials(None, refresh_token="dave", token_uri=f"{server.url}/token", client_id="i", client_secret="s"))
        files.files().create(body={"name": "hay"}).execute()
        assert "hay" in libraries.ask(call="list", user="dave")

    report.case("javascript: application default credentials", default_credentials)
    def public_object():
        libraries.ask(call="publish", name="sheep", public=True)
        assert read_as_stranger(server, "sheep") == LARGE, "it is not public"
        libraries.ask(call="publish", name="sheep", public=False)
        assert read_as_stranger(server, "sheep") == 401

    report.case("javascript: a user by a refresh token", user)
    report.case("javascript: an object is made public and private", public_object)
    libraries.close()


def main(binary):
    report = Report()
    with Server(binary, "--dev-tokens", "--api", "storage", "--api", "drive") as server, tempfile.TemporaryDirectory() as scratch:
        python(report, server, scratch)
        javascript(report, server, scratch)
    scopes(report, binary)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
