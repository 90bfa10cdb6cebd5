// openid-client, set up as its documentation says, for one of the demo's clients.

import * as oidc from 'openid-client';

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

/** Discovery over plain HTTP (it is loopback), and signatures of ID tokens are really checked. */
export async function discover(demo, clientId, authentication) {
  const execute = [oidc.allowInsecureRequests, oidc.enableNonRepudiationChecks];
  return oidc.discovery(new URL(demo.issuer), clientId, undefined, authentication, { execute });
}

/** An authorization request with PKCE, state and nonce, and what is needed to check its answer. */
export async function newRequest(config, redirectUri, parameters = {}) {
  const pkceCodeVerifier = oidc.randomPKCECodeVerifier();
  const [expectedState, expectedNonce] = [oidc.randomState(), oidc.randomNonce()];
  const url = oidc.buildAuthorizationUrl(config, {
    redirect_uri: redirectUri,
    scope: 'openid profile email offline_access',
    code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: 'S256',
    state: expectedState,
    nonce: expectedNonce,
    prompt: 'consent',
    ...parameters,
  });
  return { url, checks: { pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: true } };
}

/** `fetch` of a JSON answer; what came back is in the message when it is not what was expected. */
export async function getJson(url, token, init = {}) {
  const headers = { ...init.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
  const response = await fetch(url, { ...init, headers, signal: AbortSignal.timeout(15_000) });
  const text = await response.text();
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    throw new Error(`${url} answered ${response.status} with what is no JSON: ${text.slice(0, 300)}`);
  }
  return { status: response.status, headers: response.headers, body };
}

export const postForm = (url, fields, headers = {}) =>
  getJson(url, undefined, { method: 'POST', body: new URLSearchParams(fields), headers });

/** The OAuth error code that a promise is refused with. */
export async function errorOf(promise) {
  try {
    const value = await promise;
    return `no error, but ${JSON.stringify(value)}`;
  } catch (error) {
    return error.error ?? error.cause?.error ?? String(error);
  }
}
