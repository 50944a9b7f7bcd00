"""A certificate for this machine, or one that stands for others, of an authority of its own."""

import os
import ssl

import trustme


class Certificates:
    def __init__(self, folder, *names):
        authority = trustme.CA()
        self.authority, chain, key = (os.path.join(folder, f"{name}.pem") for name in ("authority", "chain", "key"))
        certificate = authority.issue_cert("127.0.0.1", "localhost", *names)
        authority.cert_pem.write_to_path(self.authority)
        certificate.private_key_pem.write_to_path(key)
        for pem in certificate.cert_chain_pems:
            pem.write_to_path(chain, append=True)
        self.options = "--tls-cert", chain, "--tls-key", key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(chain, key)
