"""Access tokens of a real issuer, oidc-provider: JWTs and opaque ones.

    suite.py BINARY
"""

import base64
import json
import os
import pathlib
import sys
import tempfile
import time
import urllib.error
import urllib.request

from node import Node
from report import Report, media
from server import Server

ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"]
DATA = media(3 * 1024 * 1024 + 12_345, seed=2)
HERE = os.path.dirname(os.path.abspath(__file__))

CREDENTIALS = """
[[jwt]]
issuer = "{issuer}"
audience = [{audiences}]
principal_claim = "client_id"
principal_prefix = "oidc:"
skew = "0s"

[introspection]
url = "{issuer}/token/introspection"
client_id = "windlass"
client_secret_file = "secret"
audience = ["urn:opaque:600"]
principal_prefix = "oidc:"

[[allow]]
principals = ["oidc:uploader"]
"""


def credentials(folder, issuer):
    """The file of credentials of a server that takes tokens of the issuer."""
    audiences = ", ".join(f'"urn:{algorithm}:{seconds}"' for algorithm in ALGORITHMS for seconds in (5, 600))
    file = pathlib.Path(folder, "auth.toml")
    file.write_text(CREDENTIALS.format(issuer=issuer, audiences=audiences), encoding="utf-8")
    pathlib.Path(folder, "secret").write_text("windlass-secret: +/%\n", encoding="utf-8")
    return str(file)


def upload(server, token):
    """The status of an upload with this token, and the challenge if there is one."""
    headers = {"authorization": f"Bearer {token}", "content-type": "image/png"}
    url = f"{server.url}/upload/farm/v1/animals?uploadType=media"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, DATA, headers)) as reply:
            return reply.status, None
    except urllib.error.HTTPError as error:
        return error.code, error.headers["www-authenticate"]


def accepted(server, token):
    found = upload(server, token)
    assert found == (200, None), found


def refused(server, token, said='error="invalid_token"'):
    status, challenge = upload(server, token)
    assert status == 401 and said in challenge, (status, challenge)


def parts(token):
    """Header and claims of a JWT, and all parts as they are written."""
    written = token.split(".")
    return *(json.loads(base64.urlsafe_b64decode(part + "==")) for part in written[:2]), written


def encoded(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def jwts(report, issuer, server, libraries):
    def token(resource, **how):
        return issuer.ask(call="token", resource=resource, **how)

    def library():
        sent = base64.b64encode(DATA).decode()
        said = libraries.ask(call="upload", name="barn", data=sent, token=token("urn:ES256:600"))
        assert said == sent, "other bytes came back"

    def once():
        before = issuer.ask(call="counts")
        for _ in range(5):
            accepted(server, token("urn:ES256:600"))
        assert issuer.ask(call="counts") == before, "the keys were fetched again"

    def type_of_token():
        head, _, _ = parts(token("urn:ES256:600"))
        assert head["typ"] == "at+jwt", head

    def expired():
        short = token("urn:RS256:5")
        accepted(server, short)
        _, claims, _ = parts(short)
        time.sleep(max(0, claims["exp"] - time.time()) + 0.5)
        refused(server, short, "the token has expired")

    def altered():
        _, claims, (head, body, signature) = parts(token("urn:ES256:600"))
        refused(server, f"{head}.{encoded({**claims, 'client_id': 'admin'})}.{signature}")
        refused(server, f"{encoded({'alg': 'none'})}.{body}.")

    def rotated():
        old = token("urn:ES256:600", scope="read")
        before = issuer.ask(call="counts")["fetches"]
        issuer.ask(call="rotate")
        accepted(server, token("urn:ES256:600"))
        assert issuer.ask(call="counts")["fetches"] == before + 1
        refused(server, old)

    for algorithm in ALGORITHMS:
        report.case(f"a JWT by {algorithm}", lambda algorithm=algorithm: accepted(server, token(f"urn:{algorithm}:600")))
    report.case("a JWT has the type of RFC 9068", type_of_token)
    report.case("google-auth-library and @google-cloud/storage with a JWT", library)
    report.case("tokens are verified without further requests", once)
    report.case("an audience of another service", lambda: refused(server, token("urn:ES256:601")))
    report.case("an expired JWT", expired)
    report.case("altered JWTs", altered)
    report.case("keys are rotated: tokens by the new ones are taken, by the old ones refused", rotated)


def opaque(report, issuer, server, libraries):
    def token(resource="urn:opaque:600"):
        return issuer.ask(call="token", resource=resource)

    def library():
        sent = base64.b64encode(DATA).decode()
        said = libraries.ask(call="upload", name="stall", data=sent, token=token())
        assert said == sent, "other bytes came back"

    def once():
        known, unknown = token(), "unknown"
        before = issuer.ask(call="counts")["introspections"]
        for _ in range(3):
            accepted(server, known)
            refused(server, unknown)
        assert issuer.ask(call="counts")["introspections"] == before + 2

    def revoked():
        gone = token()
        issuer.ask(call="revoke", token=gone)
        refused(server, gone)

    report.case("an opaque token", lambda: accepted(server, token()))
    report.case("google-auth-library and @google-cloud/storage with an opaque token", library)
    report.case("a token is introspected once", once)
    report.case("an opaque token for another service", lambda: refused(server, token("urn:opaque:601")))
    report.case("an opaque token that was revoked", revoked)


def main(binary, packages):
    report = Report()
    issuer = Node(os.path.join(HERE, "issuer.mjs"), packages)
    with tempfile.TemporaryDirectory() as scratch:
        file = credentials(scratch, issuer.ask(call="issuer"))
        with Server(binary, "--api", "farm", "--api", "storage", auth_file=file) as server:
            libraries = Node(os.path.join(HERE, "libraries.mjs"), packages, server.url)
            opaque(report, issuer, server, libraries)
            jwts(report, issuer, server, libraries)
            libraries.close()
    issuer.close()
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], os.environ["NODE_PACKAGES"]))
