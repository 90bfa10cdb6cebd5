// The site: its routes. Who is signed in, and what they may use, is asked of Sarsen in `sarsen.js`.

import express from 'express';
import openid from 'express-openid-connect';
import { pipeline } from 'node:stream/promises';
import { errorPage, homePage, welcomePage } from './pages.js';
import { accessToken, eventsOf, subscriptionOf, userOf } from './sarsen.js';
import { settings } from './settings.js';

const site = express();
site.disable('x-powered-by');

site.use((_request, response, next) => {
  response.set({
    'Content-Security-Policy':
      "default-src 'none'; connect-src 'self'; img-src data:; script-src 'self'; style-src 'self'; " +
      "base-uri 'none'; frame-ancestors 'none'",
    'Referrer-Policy': 'no-referrer',
    'X-Content-Type-Options': 'nosniff',
  });
  next();
});
site.use(express.static('public'));

// Adds /login and /callback, with PKCE, state and nonce. The tokens are in an encrypted cookie: HttpOnly, SameSite=Lax, and
// Secure when the site has an https address.
site.use(openid.auth({
  issuerBaseURL: settings.issuer,
  baseURL: settings.baseUrl,
  clientID: settings.clientId,
  clientSecret: settings.clientSecret,
  secret: settings.sessionSecret,
  authRequired: false, // Pages decide who may see them.
  idpLogout: true, // Sign out at Sarsen too.
  routes: { logout: false }, // By a form below, because a link can be followed by accident.
  authorizationParams: { response_type: 'code', scope: 'openid profile email offline_access' },
}));

// What follows depends on who asks: nobody between may keep it.
site.use((_request, response, next) => {
  response.set('Cache-Control', 'no-store');
  next();
});

site.get('/', async (request, response) => {
  const token = await signedIn(request);
  if (!token) return response.send(welcomePage());
  const [user, subscription] = await Promise.all([userOf(token), subscriptionOf(token)]);
  if (!user || !subscription) return signInEnded(request, response);
  response.send(homePage(user, subscription));
});

// A part of the product that not every plan has. The page hides its button, and this decides.
site.get('/export', async (request, response) => {
  const token = await signedIn(request);
  const subscription = token && await subscriptionOf(token);
  if (!subscription) return signInEnded(request, response);
  if (!subscription.features.includes('export')) {
    return response.status(403).send(errorPage('Your plan has no export', 'Plans with the feature “export” have it.'));
  }
  response.attachment('export.csv').send('name,made\nFirst drawing,2026-01-31\n');
});

// The events of the signed-in user, for the page that is open: Sarsen's own stream, passed on. It ends with its access token,
// and the browser comes back by itself.
site.get('/events', async (request, response) => {
  response.type('text/event-stream').set('X-Accel-Buffering', 'no'); // A proxy must not keep it back.
  const token = await signedIn(request);
  const leaving = new AbortController();
  response.on('close', () => leaving.abort());
  const events = token && await eventsOf(token, leaving.signal);
  if (!events) return response.end('event: session.revoked\ndata: {}\n\n');
  try {
    await pipeline(events, response);
  } catch {
    response.destroy(); // The browser or Sarsen has gone.
  }
});

site.post('/logout', (_request, response) => response.oidc.logout());

/** The user's access token. Undefined when nobody is signed in. */
async function signedIn(request) {
  return request.oidc.isAuthenticated() ? accessToken(request.oidc.accessToken) : undefined;
}

/** The sign-in has ended at Sarsen, so it ends here. */
function signInEnded(request, response) {
  request.appSession = undefined;
  response.redirect('/');
}

site.use((_request, response) => {
  response.status(404).send(errorPage('There is no such page', 'Check the address.'));
});

// What went wrong is for the log. The words of a callback may be anybody's, so they are not shown.
site.use((error, request, response, next) => {
  if (request.path === '/callback') {
    console.error(`a sign-in was refused: ${error.message}`);
    const why = error.error === 'access_denied' ? 'You did not allow it.' : 'It was not finished, or took too long.';
    return response.status(400).send(errorPage('The sign-in did not work', why));
  }
  console.error(error);
  if (response.headersSent) return next(error);
  response.status(500).send(errorPage('Something failed', 'The log of the site says what. Try again in a moment.'));
});

site.listen(settings.port, settings.host, (error) => {
  if (error) throw error;
  console.log(`The site answers at ${settings.baseUrl}`);
});
