// A site in Express, set up as the guides of Auth.js say: a provider of type `oidc` with issuer, id and secret.
import { ExpressAuth, getSession } from '@auth/express';
import express from 'express';

const { SITE_ISSUER: issuer, SITE_CLIENT_ID: clientId, SITE_CLIENT_SECRET: clientSecret, SITE_PORT: port } = process.env;
const config = { providers: [{ id: 'sarsen', name: 'Sarsen', type: 'oidc', issuer, clientId, clientSecret }] };

const app = express();
app.set('trust proxy', true);
app.use('/auth/*', ExpressAuth(config));
app.get('/', async (request, response) => {
  const session = await getSession(request, config);
  response.type('text').send(session?.user?.email ?? 'nobody');
});
app.listen(Number(port), '127.0.0.1');
