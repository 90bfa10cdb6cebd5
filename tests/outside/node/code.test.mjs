// openid-client and a real browser: the authorization code flow from discovery to revocation.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as oauth from 'oauth4webapi';
import * as oidc from 'openid-client';
import { authorize, newPerson, startBrowser } from './lib/browser.mjs';
import { discover, errorOf, getJson, newRequest } from './lib/client.mjs';
import { startDemo } from './lib/demo.mjs';
import { startPlainPage } from './lib/plain_page.mjs';

let demo, browser, callback;
before(async () => {
  demo = await startDemo();
  browser = await startBrowser();
  callback = await startPlainPage(Number(new URL(demo.clients.web.redirect_uris[0]).port));
});
after(async () => {
  await callback?.stop();
  await browser?.close();
  await demo?.stop();
});

const limit = { timeout: 120_000 };

/** ada signs in at one of the clients; its tokens, checked by openid-client. */
async function signIn(client, authentication) {
  const config = await discover(demo, client.client_id, authentication);
  const page = await newPerson(browser);
  const request = await newRequest(config, client.redirect_uris[0]);
  const { answer, steps } = await authorize(page, request.url, client.redirect_uris[0], { user: demo.user('ada') });
  const tokens = await oidc.authorizationCodeGrant(config, answer, request.checks);
  return { config, page, request, answer, steps, tokens };
}

test('discovery says what openid-client needs, with the issuer byte for byte', limit, async () => {
  const { body } = await getJson(`${demo.issuer}/.well-known/openid-configuration`);
  assert.equal(body.issuer, demo.issuer);
  assert.ok(body.code_challenge_methods_supported?.includes('S256'), 'PKCE S256 is advertised');
  assert.equal(body.authorization_response_iss_parameter_supported, true);
  for (const name of ['authorization', 'token', 'userinfo', 'revocation', 'introspection', 'device_authorization']) {
    assert.ok(body[`${name}_endpoint`]?.startsWith(`${demo.issuer}/`), `${name}_endpoint is at the issuer: ${body[`${name}_endpoint`]}`);
  }
  const keys = await getJson(body.jwks_uri);
  assert.ok(keys.body.keys.length > 0, 'there are signing keys');
  assert.ok(keys.body.keys.every((key) => key.kid && !('d' in key)), 'keys have ids and no private part');
  const oauth = await getJson(`${demo.issuer}/.well-known/oauth-authorization-server`);
  assert.equal(oauth.body.issuer, demo.issuer);
});

test('oauth4webapi finds the server of a resource, as RFC 9728 says', limit, async () => {
  for (const path of ['/api', '/']) {
    const resource = new URL(path, demo.issuer);
    const response = await oauth.resourceDiscoveryRequest(resource, { [oauth.allowInsecureRequests]: true });
    const metadata = await oauth.processResourceDiscoveryResponse(resource, response);
    assert.deepEqual(metadata.authorization_servers, [demo.issuer], path);
  }
});

test('the confidential client `web`: sign in, userinfo, refresh, introspect, revoke', limit, async () => {
  const { client_id, client_secret } = demo.clients.web;
  const { config, answer, steps, tokens } = await signIn(demo.clients.web, oidc.ClientSecretBasic(client_secret));
  assert.ok(steps.includes('password'), `a new person is asked for a password: ${steps}`);
  assert.equal(answer.searchParams.get('iss'), demo.issuer, 'the answer names its issuer (RFC 9207)');

  const claims = tokens.claims();
  assert.equal(claims.iss, demo.issuer);
  assert.equal(claims.aud, client_id);
  assert.equal(tokens.token_type, 'bearer');
  assert.ok(tokens.expires_in > 0 && tokens.expires_in <= 600, `an access token lives ten minutes at most: ${tokens.expires_in} s`);

  const user = await oidc.fetchUserInfo(config, tokens.access_token, claims.sub);
  assert.equal(user.email, demo.user('ada').email);

  assert.ok(tokens.refresh_token, 'offline_access gives a refresh token');
  const renewed = await oidc.refreshTokenGrant(config, tokens.refresh_token);
  assert.notEqual(renewed.refresh_token, tokens.refresh_token, 'a refresh token is replaced when it is used');
  await oidc.fetchUserInfo(config, renewed.access_token, claims.sub);

  const active = await oidc.tokenIntrospection(config, renewed.access_token);
  assert.equal(active.active, true);
  assert.equal(active.client_id, client_id);
  assert.equal(active.sub, claims.sub);

  await oidc.tokenRevocation(config, renewed.refresh_token);
  assert.equal(await errorOf(oidc.refreshTokenGrant(config, renewed.refresh_token)), 'invalid_grant');
  const dead = await oidc.tokenIntrospection(config, renewed.access_token);
  assert.deepEqual(dead, { active: false }, 'a revoked refresh token takes its access tokens with it, and nothing is told of them');
});

test('the public client `spa`: sign in with PKCE and no secret', limit, async () => {
  const { config, tokens, request, answer } = await signIn(demo.clients.spa, oidc.None());
  const user = await oidc.fetchUserInfo(config, tokens.access_token, tokens.claims().sub);
  assert.equal(user.email, demo.user('ada').email);
  const again = oidc.authorizationCodeGrant(config, answer, request.checks);
  assert.equal(await errorOf(again), 'invalid_grant', 'a code works once');
  const renewed = oidc.refreshTokenGrant(config, tokens.refresh_token ?? 'none');
  assert.equal(await errorOf(renewed), 'invalid_grant', 'a replayed code takes back what it gave');
});

test('the secret may also travel in the form, and a wrong one is refused', limit, async () => {
  const { client_id, client_secret } = demo.clients.machine;
  const config = await discover(demo, client_id, oidc.ClientSecretPost(client_secret));
  const tokens = await oidc.clientCredentialsGrant(config);
  assert.ok(tokens.access_token);
  const wrong = await discover(demo, client_id, oidc.ClientSecretPost(`${client_secret}x`));
  assert.equal(await errorOf(oidc.clientCredentialsGrant(wrong)), 'invalid_client');
});

test('who is known is not asked for the password again', limit, async () => {
  const { config, page } = await signIn(demo.clients.spa, oidc.None());
  const redirectUri = demo.clients.spa.redirect_uris[0];
  const request = await newRequest(config, redirectUri, { prompt: 'none', scope: 'openid email' });
  const { answer, steps } = await authorize(page, request.url, redirectUri, {});
  assert.deepEqual(steps, [], 'prompt=none shows no page');
  const tokens = await oidc.authorizationCodeGrant(config, answer, request.checks);
  assert.equal(tokens.claims().iss, demo.issuer);
});

test('prompt=none with a person whom nobody knows: login_required', limit, async () => {
  const { client_id, redirect_uris } = demo.clients.spa;
  const config = await discover(demo, client_id, oidc.None());
  const request = await newRequest(config, redirect_uris[0], { prompt: 'none' });
  const { answer } = await authorize(await newPerson(browser), request.url, redirect_uris[0], {});
  assert.equal(answer.searchParams.get('state'), request.checks.expectedState);
  assert.equal(await errorOf(oidc.authorizationCodeGrant(config, answer, request.checks)), 'login_required');
});

test('who denies sends access_denied to the client', limit, async () => {
  const { client_id, redirect_uris } = demo.clients.spa;
  const config = await discover(demo, client_id, oidc.None());
  const request = await newRequest(config, redirect_uris[0]);
  const options = { user: demo.user('grace'), decision: 'deny' };
  const { answer, steps } = await authorize(await newPerson(browser), request.url, redirect_uris[0], options);
  assert.ok(steps.includes('deny'), `prompt=consent asks: ${steps}`);
  assert.equal(await errorOf(oidc.authorizationCodeGrant(config, answer, request.checks)), 'access_denied');
});

test('a script at another origin may read discovery, keys, tokens and userinfo', limit, async () => {
  const stranger = await startPlainPage(0);
  try {
    const { client_id, redirect_uris } = demo.clients.spa;
    const config = await discover(demo, client_id, oidc.None());
    const request = await newRequest(config, redirect_uris[0]);
    const page = await newPerson(browser);
    const { answer } = await authorize(page, request.url, redirect_uris[0], { user: demo.user('ada') });
    await page.goto(`${stranger.origin}/`);
    const seen = await page.evaluate(async ({ issuer, form }) => {
      const json = async (url, init) => (await fetch(url, init)).json();
      const discovery = await json(`${issuer}/.well-known/openid-configuration`);
      const keys = await json(discovery.jwks_uri);
      const tokens = await json(discovery.token_endpoint, { method: 'POST', body: new URLSearchParams(form) });
      const headers = { authorization: `Bearer ${tokens.access_token}` };
      return { keys: keys.keys.length, tokens, user: await json(discovery.userinfo_endpoint, { headers }) };
    }, {
      issuer: demo.issuer,
      form: {
        grant_type: 'authorization_code', client_id, redirect_uri: redirect_uris[0],
        code: answer.searchParams.get('code'), code_verifier: request.checks.pkceCodeVerifier,
      },
    });
    assert.ok(seen.keys > 0);
    assert.equal(seen.user.email, demo.user('ada').email, JSON.stringify(seen.tokens));
  } finally {
    await stranger.stop();
  }
});
