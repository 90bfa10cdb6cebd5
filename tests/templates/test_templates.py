"""What a user of each template sees: from an empty folder to a plan that changes on the open page."""

import os
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect
from product import ROOT

# What follows `sarsen dev --`, as the README of each template says; `PORT` is replaced.
COMMANDS = {
    "next": ["npm", "run", "dev"],
    "express": ["npm", "run", "dev"],
    "fastapi": [".venv/bin/python", "main.py"],
    "live": ["cargo", "run", "--", "--listen", "127.0.0.1:PORT"],
}
OPTIONS = {"live": ["--crates", str(ROOT / "crates")]}
SIZES = {"wide": (1200, 800), "phone": (390, 844)}
# The page of `live` keeps the token, in its own tab.
EXPORT_OF_LIVE = """async () => {
  const key = Object.keys(sessionStorage).find((name) => name.startsWith('oidc.user:'));
  const authorization = `Bearer ${JSON.parse(sessionStorage.getItem(key)).access_token}`;
  return (await fetch('/export', { method: 'POST', headers: { authorization } })).status;
}"""

every_template = pytest.mark.parametrize("product", COMMANDS, indirect=True)


def begin(product):
    printed = product.write(*OPTIONS.get(product.template, []))
    assert f"cd {product.folder.name}\n" in printed
    return product.start(*[word.replace("PORT", str(product.port)) for word in COMMANDS[product.template]])


def title(page):
    return page.get_by_role("heading", level=1)


def sign_in(page):
    page.get_by_role("link", name="Sign in").or_(page.get_by_role("button", name="Sign in")).click()


def export_status(product, page):
    if product.template == "live":
        return page.evaluate(EXPORT_OF_LIVE)
    return page.context.request.get(f"{product.site}/export").status


@every_template
def test_from_an_empty_folder_to_a_plan_that_changes_on_the_open_page(product, visitor):
    began = time.monotonic()
    says = begin(product)
    page = visitor.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(product.site)
    expect(title(page)).to_have_text("Welcome")
    picture(page, f"{product.template}-welcome")

    # The printed link signs her in at Sarsen; the product then needs no password.
    link = next(user["sign_in_link"] for user in says["users"] if user["email"] == "ada@example.test")
    at_sarsen = visitor.new_page()
    at_sarsen.goto(link)
    at_sarsen.close()
    sign_in(page)
    expect(title(page)).to_have_text("Hello Ada")
    assert "code=" not in page.url, page.url
    expect(page.locator("#plan")).to_have_text("starter")
    expect(page.get_by_role("status")).to_contain_text("up to date")
    export = page.locator("#export")
    expect(export).to_be_hidden()
    assert export_status(product, page) == 403
    product.seconds["to the page that Ada is signed in to, in all"] = time.monotonic() - began

    page.evaluate("window.isStillTheSame = true")
    changed = time.monotonic()
    product.replace("plan: starter # Try", "plan: pro # Try")
    expect(page.locator("#plan")).to_have_text("pro")
    product.seconds["from sarsen.yaml to the open page"] = time.monotonic() - changed
    product.seconds["to the plan that changed, in all"] = time.monotonic() - began
    expect(export).to_be_visible()
    assert page.evaluate("window.isStillTheSame"), "the page was loaded again"
    assert export_status(product, page) == 200
    with page.expect_download() as download:
        export.click()
    assert download.value.suggested_filename == "export.csv"
    picture(page, f"{product.template}-signed-in")
    cookies = [cookie for cookie in visitor.cookies(product.site) if cookie["name"] in ("session", "appSession")]
    assert len(cookies) == (product.template != "live"), cookies
    for cookie in cookies:
        assert cookie["httpOnly"] and cookie["sameSite"] == "Lax", cookie

    # A page that is open elsewhere notices that she has signed out.
    other = visitor.new_page()
    other.goto(product.site)
    if product.template == "live":
        sign_in(other)
        page.get_by_label("Note").fill("Buy paper")
        page.get_by_role("button", name="Write").click()
        expect(other.locator("#notes")).to_have_text("Buy paper")
        expect(page.locator("#notes")).to_have_text("Buy paper")
    expect(other.get_by_role("status")).to_contain_text("up to date")
    page.get_by_role("button", name="Sign out").click()
    expect(title(page)).to_have_text("Welcome")
    expect(title(other)).to_have_text("Welcome")
    sign_in(page)
    expect(page.locator("input[name=password]")).to_be_visible()
    assert problems == []


@every_template
def test_a_sign_in_that_did_not_work_is_explained(product, visitor):
    begin(product)
    page = visitor.new_page()
    path = "" if product.template == "live" else "callback"
    for query in ["code=wrong&state=wrong", "error=server_error&error_description=Call+0900&state=wrong"]:
        answer = page.goto(f"{product.site}/{path}?{query}")
        expect(title(page)).to_have_text("The sign-in did not work")
        assert "0900" not in page.content(), "the words of a stranger"
        assert answer.status < 500, answer.status
    picture(page, f"{product.template}-failed")
    page.get_by_role("link", name="Back").click()
    expect(title(page)).to_have_text("Welcome")


def picture(page, name):
    """Writes what is seen, where somebody wants to look at it."""
    folder = os.environ.get("SARSEN_PICTURES")
    if not folder:
        return
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for size, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            page.screenshot(path=str(Path(folder) / f"{name}-{scheme}-{size}.png"))
    page.emulate_media(color_scheme="light")
