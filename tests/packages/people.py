"""ada signs in at a product of a demo, from the lines that it printed and with no browser but a person's."""

import re

from person import Person


def ada_signs_in(printed):
    product = re.search(r"Product +(\S+)", printed)[1]
    email, password = re.search(r"Sign in as +(ada@\S+) +(\S+)", printed).groups()
    ada = Person(email, password)
    address = ada.walk(f"{product}/login", until=f"{product}/callback")
    page = ada.session.get(address, timeout=15)
    assert page.ok and page.url == product and email in page.text, page.text[:2000]
