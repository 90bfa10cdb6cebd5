// Keeps the open page up to date: the site passes on the user's events, and the first one is the whole state.

const find = (id) => document.getElementById(id);
const AGAIN_AFTER_MS = 3000;

function showSubscription({ plan, features }) {
  find('plan').textContent = plan;
  find('features').replaceChildren(...features.map((feature) => {
    const item = document.createElement('li');
    item.textContent = feature;
    return item;
  }));
  find('export').hidden = !features.includes('export');
}

function connect() {
  const events = new EventSource('/events');
  const on = (name, act) => events.addEventListener(name, (event) => act(JSON.parse(event.data)));
  on('state', ({ user, subscription }) => {
    find('name').textContent = user.name;
    showSubscription(subscription);
    find('connection').textContent = 'This page is up to date, and changes with your plan.';
  });
  on('subscription.changed', ({ subscription }) => showSubscription(subscription));
  on('user.changed', ({ user }) => {
    find('name').textContent = user.name;
  });
  // The sign-in has ended, here or at another product: the first page asks to sign in.
  on('session.revoked', () => {
    events.close();
    location.assign('/');
  });
  events.onerror = () => {
    find('connection').textContent = 'The connection is lost. Trying again …';
    // The browser comes back by itself after an interruption, but not after an error answer.
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, AGAIN_AFTER_MS * (1 + Math.random()));
  };
}

connect();
