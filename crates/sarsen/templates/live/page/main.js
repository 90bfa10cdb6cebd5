// The page: it signs the user in with oidc-client-ts, shows the plan by Sarsen's stream of events, and the notes by a live query of
// the back end. The tokens are in this tab only.

/* global oidc */

const AGAIN_AFTER_MS = 2000;
const SILENT_FOR_MS = 25_000; // Sarsen sends something every 10 seconds.
const find = (id) => document.getElementById(id);
const pause = () => new Promise((wake) => setTimeout(wake, AGAIN_AFTER_MS * (1 + Math.random())));

const { issuer, client_id } = await (await fetch('/settings.json')).json();
const home = `${location.origin}/`;
const users = new oidc.UserManager({
  authority: issuer,
  client_id,
  redirect_uri: home,
  post_logout_redirect_uri: home,
  scope: 'openid profile email offline_access', // With a refresh token: a new access token needs no page of Sarsen.
});

/** A valid access token, another one than the refused one. Undefined when nobody is signed in. */
async function accessToken(refused) {
  let user = await users.getUser();
  if (!user) return undefined;
  if (user.expired || user.access_token === refused) {
    try {
      user = await users.signinSilent();
    } catch (error) {
      if (error.error !== 'invalid_grant') throw error;
      await users.removeUser(); // The sign-in has ended at Sarsen, so it ends here.
      return undefined;
    }
  }
  return user?.access_token;
}

/** Asks the back end or Sarsen as the signed-in user. */
async function ask(address, options = {}, refused = undefined) {
  const token = await accessToken(refused);
  if (!token) return signedOut();
  const answer = await fetch(address, { ...options, headers: { ...options.headers, authorization: `Bearer ${token}` } });
  if (answer.status === 401) return refused ? signedOut() : ask(address, options, token);
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).detail ?? `${address}: ${answer.status}`);
  return answer;
}

/** Begins with the first page again. The promise never ends, because nothing may follow. */
async function signedOut() {
  await users.removeUser();
  location.assign('/');
  return new Promise(() => {});
}

const post = (address, body) =>
  ask(address, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });

function showItems(list, texts) {
  list.replaceChildren(...texts.map((text) => Object.assign(document.createElement('li'), { textContent: text })));
}

function showSubscription({ plan, features }) {
  find('plan').textContent = plan;
  showItems(find('features'), features);
  find('export').hidden = !features.includes('export');
}

function showUser({ name, email }) {
  find('name').textContent = name;
  find('email').textContent = email;
}

function onEvent(name, data) {
  if (data.user) showUser(data.user);
  if (data.subscription) showSubscription(data.subscription);
  if (name === 'state') find('connection').textContent = 'This page is up to date, and changes with your plan.';
}

/** Follows the user's events at Sarsen. The first one is the whole state. The stream ends with its access token. */
async function followPlan() {
  const leaving = new AbortController();
  let timer = setTimeout(() => leaving.abort(), SILENT_FOR_MS);
  try {
    const stream = await ask(`${issuer}/api/live`, { signal: leaving.signal });
    let text = '';
    for await (const part of parts(stream.body)) {
      clearTimeout(timer);
      timer = setTimeout(() => leaving.abort(), SILENT_FOR_MS);
      const blocks = (text + part).split('\n\n');
      text = blocks.pop();
      for (const block of blocks) {
        const field = (name) => block.split('\n').find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
        if (field('event') === 'session.revoked') return signedOut();
        if (field('event')) onEvent(field('event'), JSON.parse(field('data')));
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

async function* parts(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

/** Follows the notes at the back end. Its stream ends with the session; a new one needs a ticket, which a token opens. */
async function followNotes() {
  const { ticket } = await (await post('/live/ticket', {})).json();
  const sub = JSON.stringify({ key: 'notes', query: 'list_notes', args: {} });
  const stream = new EventSource(`/live?${new URLSearchParams({ ticket, sub })}`);
  stream.addEventListener('value', (event) => {
    showItems(find('notes'), JSON.parse(event.data).value.map((note) => note.text));
  });
  await new Promise((ended) => {
    stream.onerror = () => stream.readyState === EventSource.CLOSED && ended();
  });
}

async function forGood(follow) {
  for (;;) {
    try {
      await follow();
    } catch (error) {
      console.warn(error);
      find('connection').textContent = 'The connection is lost. Trying again …';
    }
    await pause();
  }
}

async function save() {
  const answer = await ask('/export', { method: 'POST' });
  const href = URL.createObjectURL(await answer.blob());
  Object.assign(document.createElement('a'), { href, download: 'export.csv' }).click();
  URL.revokeObjectURL(href);
}

function show(id) {
  find(id).hidden = false;
}

async function start() {
  const answer = new URLSearchParams(location.search);
  history.replaceState(null, '', home); // A reload must not send the code again.
  if (answer.has('state') && (answer.has('code') || answer.has('error'))) {
    try {
      await users.signinRedirectCallback(`${home}?${answer}`);
    } catch (error) {
      // The words of the address may be anybody's, so they are not shown.
      find('why').textContent =
        error.error === 'access_denied' ? 'You did not allow it.' : 'It was not finished, or took too long.';
      return show('failed');
    }
  }
  const user = (await accessToken()) && (await users.getUser());
  if (!user) {
    find('sign-in').onclick = () => users.signinRedirect();
    return show('welcome');
  }
  showUser(user.profile);
  find('sign-out').onclick = () => users.signoutRedirect();
  find('export').onclick = () => save().catch((error) => alert(error.message));
  find('write').onsubmit = async (event) => {
    event.preventDefault();
    const { text } = event.target.elements;
    await post('/rpc/write_note', { text: text.value }).then(() => event.target.reset(), (error) => alert(error.message));
  };
  show('home');
  forGood(followPlan);
  forGood(followNotes);
}

await start();
