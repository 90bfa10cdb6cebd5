"""A browser, and a product of each test's own."""

import os

import pytest
from playwright.sync_api import expect, sync_playwright
from product import Product

from program import free_port

BROWSER_LIMIT_MS = 60_000  # A framework compiles a page when it is opened for the first time.


@pytest.fixture
def product(request, tmp_path):
    made = Product(request.param, tmp_path, free_port())
    try:
        yield made
    finally:
        made.stop()
        for step, seconds in made.seconds.items():
            print(f"\n{made.template}: {step}: {seconds:.1f} s", end="")
        print(f"\n{made.log()[-6000:]}")


@pytest.fixture
def browser():
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run"]
        program = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        started = playwright.chromium.launch(executable_path=program, args=arguments)
        expect.set_options(timeout=BROWSER_LIMIT_MS)
        yield started
        started.close()


@pytest.fixture
def visitor(browser):
    """A browser that has never been anywhere."""
    context = browser.new_context()
    context.set_default_timeout(BROWSER_LIMIT_MS)
    yield context
    context.close()
