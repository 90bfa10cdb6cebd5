// Signing in, with openid-client: PKCE, state and nonce.

import * as openid from 'openid-client';
import type { Session, SignIn } from './cookies';
import { settings } from './settings';

let known: Promise<openid.Configuration> | undefined;

/** What the server says of itself, read once. */
function server(): Promise<openid.Configuration> {
  const issuer = new URL(settings.issuer);
  // Without TLS only on this machine, where `sarsen dev` runs.
  const execute = issuer.hostname === 'localhost' ? [openid.allowInsecureRequests] : [];
  known ??= openid.discovery(issuer, settings.clientId, settings.clientSecret, undefined, { execute });
  known.catch(() => {
    known = undefined;
  });
  return known;
}

/** Where the browser goes to sign in, and what its answer is compared with. */
export async function beginSignIn(): Promise<{ url: URL; signIn: SignIn }> {
  const verifier = openid.randomPKCECodeVerifier();
  const signIn = { state: openid.randomState(), nonce: openid.randomNonce(), verifier };
  const url = openid.buildAuthorizationUrl(await server(), {
    redirect_uri: `${settings.baseUrl}/callback`,
    scope: 'openid profile email offline_access',
    code_challenge: await openid.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state: signIn.state,
    nonce: signIn.nonce,
  });
  return { url, signIn };
}

/** The tokens for the answer that the browser came back with. */
export async function finishSignIn(search: string, signIn: SignIn): Promise<Session> {
  const tokens = await openid.authorizationCodeGrant(await server(), new URL(`/callback${search}`, settings.baseUrl), {
    pkceCodeVerifier: signIn.verifier,
    expectedState: signIn.state,
    expectedNonce: signIn.nonce,
    idTokenExpected: true,
  });
  return sessionOf(tokens);
}

/** Other tokens in place of those that expire. Undefined when the sign-in has ended at Sarsen. */
export async function renewed(session: Session): Promise<Session | undefined> {
  try {
    return sessionOf(await openid.refreshTokenGrant(await server(), session.refreshToken), session);
  } catch (error) {
    if (error instanceof openid.ResponseBodyError && error.error === 'invalid_grant') return undefined;
    throw error;
  }
}

/** Where the browser goes to sign out at Sarsen. */
export async function signOutUrl(session: Session | undefined): Promise<URL> {
  return openid.buildEndSessionUrl(await server(), {
    post_logout_redirect_uri: `${settings.baseUrl}/`,
    ...(session && { id_token_hint: session.idToken }),
  });
}

function sessionOf(tokens: openid.TokenEndpointResponse, before?: Session): Session {
  return {
    accessToken: tokens.access_token,
    refreshToken: tokens.refresh_token ?? before?.refreshToken ?? '',
    idToken: tokens.id_token ?? before?.idToken ?? '',
    expiresAt: Date.now() + (tokens.expires_in ?? 0) * 1000,
  };
}
