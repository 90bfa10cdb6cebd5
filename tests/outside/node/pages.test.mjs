// How pages are to use: on a phone and a desk, in light and dark, by keyboard, without JavaScript.
// Screenshots go to target/screenshots/ for people to look at.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as oidc from 'openid-client';
import { authorize, decided, look, newPerson, send, startBrowser, submitOf, walk } from './lib/browser.mjs';
import { discover, newRequest, postForm } from './lib/client.mjs';
import { startDemo } from './lib/demo.mjs';
import { colourOf, lookAt, tabsTo } from './lib/page_checks.mjs';

const TABS_MAX = 30;
const limit = { timeout: 180_000 };

let demo, browser, config;
before(async () => {
  demo = await startDemo();
  browser = await startBrowser();
  config = await discover(demo, demo.clients.spa.client_id, oidc.None());
});
after(async () => {
  await browser?.close();
  await demo?.stop();
});

const orgPage = (name) => `${demo.issuer}/o/${demo.organization.slug}/${name}`;
const newDevice = async () =>
  (await postForm(`${demo.issuer}/auth/device/code`, { client_id: demo.clients.cli.client_id, scope: 'openid email' })).body;
const newAuthorization = async () => (await newRequest(config, demo.clients.spa.redirect_uris[0])).url.href;
const asksToDecide = async (page) => (await page.locator('button[name="decision"]:visible').count()) > 0;

/** ada signs in on whatever page she was sent to, up to the question for consent. */
const upToDecision = (page) => walk(page, { user: demo.user('ada'), decision: 'none', done: asksToDecide });

/** Each page: its name, how a person gets there, a field of its form, if it is made of one, and its status, if not 200. */
const PAGES = [
  { name: 'login', open: (page) => page.goto(orgPage('login')), field: 'password' },
  { name: 'signup', open: (page) => page.goto(orgPage('signup')), field: 'email' },
  { name: 'platform-login', open: (page) => page.goto(`${demo.issuer}/login`), field: 'password' },
  { name: 'activate', open: (page) => page.goto(`${demo.issuer}/activate`), field: 'user_code', user: true },
  {
    name: 'activate-link',
    open: async (page) => page.goto((await newDevice()).verification_uri_complete),
    field: 'user_code',
  },
  {
    name: 'activate-confirm',
    open: async (page) => {
      await page.goto((await newDevice()).verification_uri_complete);
      await upToDecision(page);
    },
    field: 'decision',
  },
  {
    name: 'consent',
    open: async (page) => {
      await page.goto(await newAuthorization());
      await upToDecision(page);
    },
    field: 'decision',
  },
  {
    name: 'account',
    open: async (page) => {
      await page.goto(orgPage('account'));
      if ((await page.locator('input[name="password"]').count()) > 0) {
        const done = async (page) => page.url().startsWith(orgPage('account'));
        await walk(page, { user: demo.user('ada'), done });
      }
    },
  },
  {
    name: 'sign-out',
    open: async (page) => {
      await page.goto(orgPage('account'));
      const done = async (page) => page.url().startsWith(orgPage('account'));
      await walk(page, { user: demo.user('ada'), done });
      await page.goto(orgPage('logout'));
    },
  },
  { name: 'error', open: (page) => page.goto(orgPage('link?token=x')), status: 404 },
  {
    name: 'error-with-details',
    open: async (page) => {
      const request = new URL(await newAuthorization());
      request.searchParams.set('redirect_uri', `${demo.clients.spa.redirect_uris[0]}/that/is/not/registered`);
      await page.goto(request.href);
    },
    status: 400,
  },
  { name: 'home', open: (page) => page.goto(demo.issuer) },
  { name: 'product', open: (page) => page.goto(demo.products[0].url) },
  {
    name: 'product-signed-in',
    open: async (page) => {
      await page.goto(demo.products[0].url);
      await page.getByRole('link', { name: 'Sign in' }).click();
      const done = async (page) => (await page.getByRole('heading', { name: 'Your plan' }).count()) > 0;
      await walk(page, { user: demo.user('ada'), done });
    },
  },
  { name: 'api-docs', open: (page) => page.goto(`${demo.issuer}/api/docs`), isLong: true },
];

for (const { name, open, field, isLong, status } of PAGES) {
  test(`the page "${name}" fits a phone and a desk, in light and dark`, limit, async () => {
    const colours = {};
    const more = async (page, where, colorScheme) => {
      assert.ok((await page.title()).length > 0, `${where}: has a title`);
      assert.ok(await page.locator('html').getAttribute('lang'), `${where}: says its language`);
      if (field) {
        const tabs = await tabsTo(page, field, TABS_MAX);
        assert.ok(tabs > 0, `${where}: the Tab key reaches the button that sends the form within ${TABS_MAX} steps`);
      }
      colours[colorScheme] = await colourOf(page);
    };
    await lookAt(browser, name, open, { status, more, isLong });
    assert.ok(colours.light > 0.6, `${name}: light is light, and its brightness is ${colours.light}`);
    assert.ok(colours.dark < 0.4, `${name}: dark is dark, and its brightness is ${colours.dark}`);
  });
}

test('sign-in, consent and activation work without JavaScript', limit, async () => {
  const page = await newPerson(browser, { javaScriptEnabled: false });
  const { client_id, redirect_uris } = demo.clients.spa;
  const request = await newRequest(config, redirect_uris[0]);
  const { answer, steps } = await authorize(page, request.url, redirect_uris[0], { user: demo.user('ada') });
  assert.deepEqual(steps, ['password', 'allow']);
  assert.ok(answer.searchParams.get('code'), `${client_id} gets a code: ${answer.search}`);

  const device = await newDevice();
  await page.goto(device.verification_uri);
  const done = decided('allow');
  const more = await walk(page, { user: demo.user('ada'), userCode: device.user_code, done });
  assert.ok(more.includes('user_code') && more.at(-1) === 'allow', `type the code, then allow: ${more}`);
});

test('the keyboard alone signs in', limit, async () => {
  const page = await newPerson(browser);
  const ada = demo.user('ada');
  await page.goto(orgPage('login'));
  await page.locator('input[name="email"]').focus();
  await page.keyboard.type(ada.email);
  await page.keyboard.press('Tab');
  const focused = await page.evaluate(() => document.activeElement.getAttribute('name'));
  assert.equal(focused, 'password', 'Tab goes from the e-mail to the password');
  await page.keyboard.type(ada.password);
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
  assert.equal(await page.locator('input[name="password"]').count(), 0, `Enter signs in: ${await look(page)}`);
});

test('the account page ends a sign-in elsewhere, and this one, without JavaScript', limit, async () => {
  const atAccount = async (page) => page.url().startsWith(orgPage('account'));
  const comeIn = async () => {
    const page = await newPerson(browser, { javaScriptEnabled: false });
    await page.goto(orgPage('account'));
    await walk(page, { user: demo.user('ada'), done: atAccount });
    return page;
  };
  const press = async (page, name) => {
    await page.getByRole('button', { name }).focus();
    await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
    return page.getByRole('status').innerText();
  };
  const lost = await comeIn();
  const here = await comeIn();
  assert.equal(await press(here, 'Sign out everywhere else'), 'You are signed out everywhere else.');
  await lost.goto(orgPage('account'));
  assert.ok((await lost.locator('input[name="password"]').count()) > 0, `signed out: ${await look(lost)}`);

  await here.goto(orgPage('login'));
  assert.ok(await atAccount(here), `who is signed in needs no form: ${await look(here)}`);
  await here.getByRole('link', { name: 'Use another account' }).click();
  const grace = demo.user('grace');
  await walk(here, { user: grace, done: atAccount });
  assert.ok((await here.locator('body').innerText()).includes(grace.email), `another account: ${await look(here)}`);

  assert.equal(await press(here, 'Sign out of this browser'), 'You are signed out.');
  assert.ok(!(await atAccount(here)), `signed out: ${await look(here)}`);
});

test('a wrong password says so, keeps the e-mail, and is no trap for a screen reader', limit, async () => {
  const page = await newPerson(browser);
  const ada = demo.user('ada');
  await page.goto(orgPage('login'));
  await page.locator('input[name="email"]').fill(ada.email);
  await page.locator('input[name="password"]').fill('not the password');
  await Promise.all([page.waitForNavigation(), submitOf(page, 'password').click()]);
  assert.equal(await page.locator('input[name="email"]').inputValue(), ada.email, 'the e-mail need not be typed again');
  assert.equal(await page.locator('input[name="password"]').inputValue(), '', 'the password is not sent back');
  const alerts = await page.locator('[role="alert"]:visible').allInnerTexts();
  assert.ok(alerts.join('').length > 0, `the error is announced (role="alert"): ${await look(page)}`);
});

test('a sign-up with an address that has an account leads to the sign-in, with the address filled in', limit, async () => {
  const page = await newPerson(browser, { javaScriptEnabled: false });
  const ada = demo.user('ada');
  await page.goto(orgPage('signup'));
  await send(page, { name: 'Ada', email: ada.email, password: 'three walls of grey stone' });
  await Promise.all([page.waitForNavigation(), page.getByRole('link', { name: 'Sign in instead' }).click()]);
  assert.equal(await page.locator('input[name="email"]').inputValue(), ada.email);
  await send(page, { password: ada.password });
  assert.equal(page.url(), orgPage('account'), await look(page));
});

test('every form carries a CSRF token, and is refused without it', limit, async () => {
  const page = await newPerson(browser);
  await page.goto(orgPage('login'));
  const bare = await page.locator('form[method="post" i]').evaluateAll((forms) =>
    forms.filter((form) => !form.querySelector('input[type="hidden"][name="csrf"]')?.value).map((form) => form.action));
  assert.deepEqual(bare, [], 'forms without a hidden field `csrf`');
  const answer = await page.request.post(orgPage('login'), {
    form: { email: demo.user('ada').email, password: demo.user('ada').password }, maxRedirects: 0,
  });
  assert.equal(answer.status(), 403, 'a sign-in that another site could have sent is refused');
});
