"""What a user of each template sees: from an empty folder to a plan that changes on the open page."""

import os
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

# What follows `sarsen dev --`, as the README of each template says.
COMMANDS = {
    "next": ["npm", "run", "dev"],
    "express": ["npm", "run", "dev"],
    "fastapi": [".venv/bin/python", "main.py"],
}
SIZES = {"wide": (1200, 800), "phone": (390, 844)}


@pytest.mark.parametrize("product", COMMANDS, indirect=True)
def test_from_an_empty_folder_to_a_plan_that_changes_on_the_open_page(product, visitor):
    began = time.monotonic()
    assert f"cd {product.folder.name}\n" in product.write()
    says = product.start(*COMMANDS[product.template])

    page = visitor.new_page()
    problems = []
    page.on("console", lambda message: message.type == "error" and problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(product.site)
    expect(page.get_by_role("heading")).to_have_text("Welcome")
    picture(page, f"{product.template}-welcome")

    link = next(user["sign_in_link"] for user in says["users"] if user["email"] == "ada@example.test")
    sign_in = visitor.new_page()
    sign_in.goto(link)
    sign_in.close()

    page.get_by_role("link", name="Sign in").click()
    expect(page.get_by_role("heading")).to_have_text("Hello Ada")
    assert "code=" not in page.url, page.url
    expect(page.locator("#plan")).to_have_text("starter")
    expect(page.get_by_role("status")).to_contain_text("up to date")
    export = page.get_by_role("link", name="Export")
    expect(export).to_be_hidden()
    assert visitor.request.get(f"{product.site}/export").status == 403
    product.seconds["to the page that Ada is signed in to, in all"] = time.monotonic() - began

    page.evaluate("window.isStillTheSame = true")
    changed = time.monotonic()
    product.replace("plan: starter # Try", "plan: pro # Try")
    expect(page.locator("#plan")).to_have_text("pro")
    product.seconds["from sarsen.yaml to the open page"] = time.monotonic() - changed
    product.seconds["to the plan that changed, in all"] = time.monotonic() - began
    expect(export).to_be_visible()
    assert page.evaluate("window.isStillTheSame"), "the page was loaded again"
    assert visitor.request.get(f"{product.site}/export").status == 200
    picture(page, f"{product.template}-signed-in")

    for cookie in visitor.cookies(product.site):
        if cookie["name"] in ("session", "appSession", "sign-in"):
            assert cookie["httpOnly"] and cookie["sameSite"] == "Lax", cookie

    # A page that is open elsewhere notices that she has signed out.
    other = visitor.new_page()
    other.goto(product.site)
    expect(other.get_by_role("status")).to_contain_text("up to date")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading")).to_have_text("Welcome")
    expect(other.get_by_role("heading")).to_have_text("Welcome")
    assert visitor.request.get(f"{product.site}/export").text().startswith("name,made") is False
    page.get_by_role("link", name="Sign in").click()
    expect(page.locator("input[name=password]")).to_be_visible()
    assert problems == []


@pytest.mark.parametrize("product", COMMANDS, indirect=True)
def test_a_sign_in_that_did_not_work_is_explained(product, visitor):
    product.write()
    product.start(*COMMANDS[product.template])
    page = visitor.new_page()
    for query in ["code=wrong&state=wrong", "error=server_error&error_description=Call+0900&state=wrong", ""]:
        answer = page.goto(f"{product.site}/callback?{query}")
        expect(page.get_by_role("heading")).to_have_text("The sign-in did not work")
        assert "0900" not in page.content(), "the words of a stranger"
        assert answer.status < 500, answer.status
    picture(page, f"{product.template}-failed")
    page.get_by_role("link", name="Back").click()
    expect(page.get_by_role("heading")).to_have_text("Welcome")


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
