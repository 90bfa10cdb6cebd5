// `response_mode=form_post`: the browser posts the answer to the client by itself, or when the user presses the button.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as oidc from 'openid-client';
import { newPerson, startBrowser, walk } from './lib/browser.mjs';
import { discover, newRequest } from './lib/client.mjs';
import { startDemo } from './lib/demo.mjs';

const limit = { timeout: 120_000 };
let demo, browser, client, config;
before(async () => {
  demo = await startDemo();
  browser = await startBrowser();
  client = demo.clients.web;
  config = await discover(demo, client.client_id, oidc.ClientSecretBasic(client.client_secret));
});
after(async () => {
  await browser?.close();
  await demo?.stop();
});

/** A user at the client's redirect URI; `posted` is the request that arrives there. */
async function newVisitor(options) {
  const page = await newPerson(browser, options);
  const visitor = { page, posted: undefined };
  await page.route(`${client.redirect_uris[0]}*`, async (route) => {
    visitor.posted = route.request();
    await route.fulfill({ contentType: 'text/plain', body: 'welcome' });
  });
  return visitor;
}

async function redeem({ posted }, checks) {
  assert.equal(posted.method(), 'POST');
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const request = new Request(posted.url(), { method: 'POST', headers, body: posted.postData() });
  const tokens = await oidc.authorizationCodeGrant(config, request, checks);
  assert.equal(tokens.claims().email, demo.user('ada').email);
}

test('a browser with scripts posts the answer at once', limit, async () => {
  const visitor = await newVisitor();
  const { url, checks } = await newRequest(config, client.redirect_uris[0], { response_mode: 'form_post' });
  await visitor.page.goto(url.href);
  await walk(visitor.page, { user: demo.user('ada'), done: () => visitor.posted !== undefined });
  await visitor.page.getByText('welcome').waitFor();
  await redeem(visitor, checks);
});

test('a browser without scripts has a button', limit, async () => {
  const visitor = await newVisitor({ javaScriptEnabled: false });
  const { url, checks } = await newRequest(config, client.redirect_uris[0], { response_mode: 'form_post' });
  const button = visitor.page.getByRole('button', { name: 'Continue' });
  await visitor.page.goto(url.href);
  await walk(visitor.page, { user: demo.user('ada'), done: async () => (await button.count()) > 0 });
  await button.click();
  await visitor.page.getByText('welcome').waitFor();
  await redeem(visitor, checks);
});
