// @ts-check
// Shows the counters, twenty a page, and moves them.

import { Client, ProblemError } from '/page/sarsen-client.js';

/** @typedef {import('./api.js').Api} Api */
/** @typedef {Api['queries']['list_counters']['value']} Counters */

/** @param {string} id @returns {any} */
const at = (id) => document.getElementById(id);

/** @type {Client<Api>} */
const client = new Client({ token: () => localStorage.token });

/** Ends the subscriptions of the pages that are shown. @type {(() => void)[]} */
let pages = [];
/** The rows of each page. @type {Counters[]} */
let shown = [];
const PAGE = 20;

/** Subscribes to the page of counters after an id. @param {number} after */
function showPage(after) {
  const number = pages.length;
  pages.push(client.live('list_counters', { after }, (counters) => draw(number, counters), fail));
}

/** @param {number} number @param {Counters} counters */
function draw(number, counters) {
  shown[number] = counters;
  const rows = shown.flat();
  const list = at('list');
  rows.forEach((counter, index) => {
    const row = list.children[index] ?? list.appendChild(newRow());
    const value = String(counter.value);
    const [name, output, button] = row.children;
    const isSame = row.dataset.id === String(counter.id);
    row.dataset.id = counter.id;
    name.textContent = counter.name;
    button.setAttribute('aria-label', `Add one to ${counter.name}`);
    if (output.textContent === value) return;
    output.textContent = value;
    output.classList.remove('moved');
    // Read, so that the animation begins anew.
    if (isSame && output.offsetWidth) output.classList.add('moved');
  });
  while (list.children.length > rows.length) list.lastChild.remove();
  at('empty').hidden = rows.length > 0;
  at('more').hidden = shown.at(-1)?.length !== PAGE;
}

function newRow() {
  const row = document.createElement('li');
  const button = document.createElement('button');
  const value = document.createElement('output');
  // A screen reader would read each change of each counter aloud.
  value.setAttribute('aria-live', 'off');
  button.textContent = '+1';
  button.addEventListener('click', () => increment(Number(row.dataset.id)));
  row.append(document.createElement('span'), value, button);
  return row;
}

/** @param {number} id */
async function increment(id) {
  /** @param {Counters} counters */
  const counted = (counters) =>
    counters.some((counter) => counter.id === id)
      ? counters.map((counter) => (counter.id === id ? { ...counter, value: counter.value + 1 } : counter))
      : counters;
  try {
    await client.call('increment', { id }, {
      idempotencyKey: crypto.randomUUID?.(),
      optimistic: (local) => local.updateAll('list_counters', counted),
    });
    at('error').hidden = true;
  } catch (error) {
    fail(error);
  }
}

/** @param {unknown} error */
function fail(error) {
  // There are no passwords here: a user whose token the server refuses registers again.
  if (error instanceof ProblemError && error.status === 401) return signOut();
  at('error').textContent = error instanceof Error ? error.message : String(error);
  at('error').hidden = false;
}

/** Sends a form as a mutation. @param {string} id @param {(name: string) => Promise<void>} send */
function onSubmit(id, send) {
  const form = at(id);
  form.addEventListener('submit', async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    // A second click would send it twice.
    const button = form.querySelector('button');
    button.disabled = true;
    try {
      await send(form.elements.name.value.trim());
      form.reset();
      at('error').hidden = true;
    } catch (error) {
      fail(error);
    } finally {
      button.disabled = false;
    }
  });
}

function start() {
  const isKnown = !!localStorage.token;
  at('register').hidden = isKnown;
  at('counters').hidden = !isKnown;
  at('who').textContent = localStorage.name ?? '';
  at('status').hidden = !isKnown;
  if (isKnown && pages.length === 0) showPage(0);
}

function signOut() {
  pages.forEach((stop) => stop());
  pages = [];
  shown = [];
  at('list').replaceChildren();
  localStorage.clear();
  start();
}

onSubmit('register', async (name) => {
  const { value } = await client.call('register', { name });
  localStorage.token = value.token;
  localStorage.name = value.name;
  start();
});
onSubmit('create', async (name) => {
  await client.call('create_counter', { name }, { idempotencyKey: crypto.randomUUID?.() });
  // It is the last one, and may be on a page that is not shown.
  at('created').textContent = at('more').hidden ? '' : `${name} is created. It is at the end: show more.`;
});
at('more').addEventListener('click', () => {
  // A second click before the answer would show the same page twice.
  if (at('more').hidden) return;
  at('more').hidden = true;
  at('created').textContent = '';
  showPage(shown.at(-1)?.at(-1)?.id ?? 0);
});
at('leave').addEventListener('click', signOut);
// A sign-in or sign-out in another tab.
addEventListener('storage', () => {
  if (localStorage.token) start();
  else signOut();
});

const STATUS = { idle: '', connecting: 'Connecting…', live: 'Live', polling: 'Live, by polls', waiting: 'Reconnecting…' };
client.onStatus((status) => {
  at('status').textContent = STATUS[status];
  at('status').dataset.status = status;
  // What could not be reached is there again.
  if (status === 'live') at('error').hidden = true;
});
start();
