"""mod_auth_openidc, configured as its README says: a provider, a client, a redirect URI and a passphrase."""

import os
import tempfile
from pathlib import Path

import pytest
from program import Program, free_port

MODULES = "/usr/lib/apache2/modules"
CONFIGURATION = """
ServerName localhost
ServerRoot {folder}
PidFile {folder}/pid
ErrorLog {folder}/error.log
Mutex file:{folder}
Listen 127.0.0.1:{port}
DocumentRoot {folder}/site
{user}
{modules}

OIDCProviderMetadataURL {issuer}/.well-known/openid-configuration
OIDCClientID {client_id}
OIDCClientSecret {client_secret}
OIDCRedirectURI {site}/secure/redirect_uri
OIDCCryptoPassphrase a-passphrase-of-the-test
OIDCScope "openid email profile"

<Location /secure>
    AuthType openid-connect
    Require valid-user
    Header set X-Email "expr=%{{req:OIDC_CLAIM_email}}"
</Location>
"""
NEEDED = ["mpm_event", "authn_core", "authz_core", "authz_user", "headers", "auth_openidc"]


@pytest.fixture
def site(demo, api):
    # Not in pytest's folders: Apache's own user reads the pages.
    with tempfile.TemporaryDirectory(prefix="sarsen-apache-") as name:
        folder, port = Path(name), free_port()
        folder.chmod(0o755)
        address = f"http://localhost:{port}"
        client = api.create_client(f"{address}/secure/redirect_uri")
        configuration = folder / "apache.conf"
        configuration.write_text(configured(demo, client, folder, port, address))
        (folder / "site/secure").mkdir(parents=True)
        (folder / "site/secure/page.txt").write_text("a protected page")
        (folder / "site/bye.txt").write_text("goodbye")
        command = ["/usr/sbin/apache2", "-f", str(configuration), "-DFOREGROUND"]
        program = Program(command, port, folder / "error.log")
        yield address, client
        program.stop()


def configured(demo, client, folder, port, address):
    return CONFIGURATION.format(
        folder=folder,
        port=port,
        site=address,
        issuer=demo.issuer,
        user="User www-data\nGroup www-data" if os.geteuid() == 0 else "",
        modules="\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in NEEDED),
        client_id=client["client_id"],
        client_secret=client["client_secret"],
    )


def test_sign_in_and_single_logout(demo, api, site, ada):
    address, client = site
    answer = ada.walk(f"{address}/secure/page.txt", until=f"{address}/secure/redirect_uri")
    assert isinstance(answer, str) and ada.steps == ["password"], answer
    page = ada.session.get(answer, timeout=15)
    assert (page.status_code, page.text) == (200, "a protected page")
    assert page.headers["X-Email"] == demo.user("ada")["email"]

    # A logout leads to a page that is registered for it.
    api.change_client(client, post_logout_redirect_uris=[f"{address}/bye.txt"])
    bye = ada.session.get(f"{address}/secure/redirect_uri", params={"logout": f"{address}/bye.txt"}, timeout=15)
    assert (bye.url, bye.text) == (f"{address}/bye.txt", "goodbye")
    again = ada.session.get(f"{address}/secure/page.txt", timeout=15)
    assert 'name="password"' in again.text, "signed out at the provider too"
