// A person with a browser: opens pages, signs in, types codes, allows or denies. It knows the names of form
// fields that the protocol page promises, and nothing of how the pages look.

import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

const ARGS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync',
];
const PAGE_LIMIT_MS = 15_000;
const STEPS_MAX = 8;

export async function startBrowser() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ARGS });
}

/** A person who has never been here: no cookies, an empty page. */
export async function newPerson(browser, options = {}) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(PAGE_LIMIT_MS);
  return context.newPage();
}

/**
 * Does what the pages ask for until `done(page, steps)` is true: signs in as `user`, types `userCode`, and answers
 * the question for consent with `decision`. Gives the names of the steps, such as `['password', 'allow']`.
 */
export async function walk(page, { user, userCode, decision = 'allow', done }) {
  const steps = [];
  while (!(await done(page, steps))) {
    assert.ok(steps.length < STEPS_MAX, `still not there after ${steps.join(', ')}: ${await look(page)}`);
    const step = await nextStep(page, { user, userCode, decision, steps });
    assert.ok(step, `after [${steps.join(', ')}] the page asks for nothing that a person could answer: ${await look(page)}`);
    const before = await page.evaluate(() => performance.timeOrigin);
    await step.act();
    steps.push(step.name);
    await arrived(page, before, () => done(page, steps));
  }
  return steps;
}

async function nextStep(page, { user, userCode, decision, steps }) {
  const shown = (selector) => page.locator(`${selector}:visible`).first();
  const has = async (selector) => (await shown(selector).count()) > 0;
  const button = `button[name="decision"][value="${decision}"]`;
  if (await has('input[name="password"]')) {
    assert.ok(user, `a password is asked for, but the person should be known: ${await look(page)}`);
    assert.ok(steps.filter((step) => step === 'password').length < 2, `the password was not taken: ${await look(page)}`);
    return {
      name: 'password',
      act: async () => {
        if (await has('input[name="email"]')) await shown('input[name="email"]').fill(user.email);
        await shown('input[name="password"]').fill(user.password);
        await ((await has(button)) ? shown(button) : submitOf(page, 'password')).click();
      },
    };
  }
  if (await has(button)) return { name: decision, act: () => shown(button).click() };
  if (await has('input[name="user_code"]')) {
    return {
      name: 'user_code',
      act: async () => {
        if (userCode) await shown('input[name="user_code"]').fill(userCode);
        await submitOf(page, 'user_code').click();
      },
    };
  }
  return undefined;
}

/** The button that sends the form which holds a field. */
export function submitOf(page, field) {
  const form = page.locator(`form:has([name="${field}"]:visible)`).first();
  return form.locator('button[type="submit"]:visible, button:not([type]):visible, input[type="submit"]:visible').first();
}

/** Fills in the fields of a form and sends it. */
export async function send(page, fields) {
  const names = Object.keys(fields);
  for (const name of names) await page.locator(`[name="${name}"]:visible`).fill(fields[name]);
  await Promise.all([page.waitForNavigation(), submitOf(page, names.at(-1)).click()]);
}

/** Clicks a link or a button that leads to another page. */
export async function click(page, selector, hasText) {
  await Promise.all([page.waitForNavigation(), page.locator(selector, { hasText }).click()]);
}

/** Waits until a click has led to another document (or to where we wanted to be). */
async function arrived(page, before, done) {
  const limit = Date.now() + PAGE_LIMIT_MS;
  while (Date.now() < limit) {
    try {
      await page.waitForLoadState('domcontentloaded', { timeout: PAGE_LIMIT_MS });
      if (await done()) return;
      if ((await page.evaluate(() => performance.timeOrigin)) !== before) return;
    } catch {
      // The document went away while we looked at it: the next one is coming.
    }
    await page.waitForTimeout(20);
  }
  assert.fail(`a click led nowhere for ${PAGE_LIMIT_MS} ms: ${await look(page)}`);
}

/** What a person sees, for messages: address, title, fields, text. */
export async function look(page) {
  const fields = await page.locator('input:visible, button:visible, a:visible').evaluateAll((elements) =>
    elements.map((e) => `${e.tagName.toLowerCase()} ${e.getAttribute('name') ?? ''} ${(e.value || e.textContent || '').trim()}`.trim()),
  ).catch(() => []);
  const text = await page.locator('body').innerText({ timeout: 1000 }).catch(() => '(no text)');
  const title = await page.title().catch(() => '');
  return `\n  at ${page.url()} "${title}"\n  controls: ${fields.join(' | ')}\n  text: ${text.replaceAll(/\s+/g, ' ').slice(0, 400)}`;
}

/**
 * Opens an authorization request and walks to its redirect URI; the address that the browser was sent to,
 * whether or not anybody answers there.
 */
export async function authorize(page, url, redirectUri, options) {
  let answer;
  const watch = (request) => {
    if (request.isNavigationRequest() && request.url().startsWith(`${redirectUri}?`)) answer ??= new URL(request.url());
  };
  page.on('request', watch);
  try {
    await page.goto(url.href).catch((error) => answer ?? Promise.reject(error));
    const steps = await walk(page, { ...options, done: () => answer !== undefined });
    // Perhaps nobody answers there; either way the browser must have come to rest.
    await page.waitForURL((at) => at.href.startsWith(redirectUri) || at.protocol === 'chrome-error:');
    return { answer, steps };
  } finally {
    page.off('request', watch);
  }
}

/** For `walk`: the person has said yes or no, and the page asks for nothing more. */
export const decided = (decision) => async (page, steps) =>
  steps.includes(decision) && (await page.locator('[name="decision"]:visible, [name="password"]:visible').count()) === 0;
