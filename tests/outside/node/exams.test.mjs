// The student's page of `examples/exam_attempts` in a real browser: what was answered is saved, and is not lost with a
// connection, with another tab, or when the time is over.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startBrowser } from './lib/browser.mjs';
import { startExams } from './lib/examples.mjs';
import { colourOf, lookAt } from './lib/page_checks.mjs';

const SHEET = 'How much is 1 + 1?\n1\n2\n3\n\nWhich are prime?\n2\n3\n4\n\nQuestions of taste: which do you like?\nblue\nred';
const limit = { timeout: 120_000 };

let server;
let browser;
before(async () => {
  [server, browser] = await Promise.all([startExams(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

async function post(path, body) {
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch(server.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
  assert.equal(answer.status, 201, await answer.clone().text());
  return (await answer.json()).id;
}

/** A new attempt at a new exam. */
async function begin(exam = {}) {
  const number = await post('/exams', { title: 'Arithmetic', questions: 3, sheet: SHEET, minutes: 30, ...exam });
  const id = await post(`/exams/${number}/attempts`, { student: 'Ada' });
  const url = `${server.url}/attempts/${id}`;
  const saved = async () => (await fetch(url)).json();
  const patch = async (body) => {
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(url, { method: 'PATCH', headers, body: JSON.stringify(body) });
    return { status: answer.status, ...(await answer.json()) };
  };
  return { id, number, page: `${url}/page`, url, saved, patch };
}

/** A browser with storage of its own. */
async function newContext(t) {
  const context = await browser.newContext();
  context.setDefaultTimeout(15_000);
  t.after(() => context.close());
  return context;
}

async function open(context, attempt, state = 'All answers are saved') {
  const page = await context.newPage();
  page.errors = [];
  page.on('pageerror', (error) => page.errors.push(error.message));
  await page.goto(attempt.page);
  await says(page, state);
  return page;
}

const box = (page, question, choice) => page.locator(`input[name="q${question}"][value="${choice}"]`);
const says = (page, text) => page.getByRole('status').filter({ hasText: text }).waitFor();
const notes = (page, text) => page.getByRole('alert').filter({ hasText: text }).waitFor();
const submit = (page) => page.getByRole('button', { name: 'Submit' }).click();
const shown = (page) =>
  page.locator('#sheet input:checked').evaluateAll((boxes) => boxes.map(({ name, value }) => `${name}.${value}`));

test('a student answers by keyboard, and each save counts on', limit, async (t) => {
  const attempt = await begin();
  const page = await open(await newContext(t), attempt);
  assert.equal(await page.title(), 'Arithmetic');
  const questions = await page.locator('legend').allInnerTexts();
  assert.deepEqual(questions, ['1. How much is 1 + 1?', '2. Which are prime?', '3. Questions of taste: which do you like?']);
  assert.deepEqual(await page.locator('label').allInnerTexts(), ['1', '2', '3', '2', '3', '4', 'blue', 'red']);
  assert.match(await page.getByRole('timer').innerText(), /^(30:00|29:5\d) left$/);

  const sends = [];
  page.on('request', (request) => request.method() === 'PATCH' && sends.push(request.postDataJSON().revision));
  await page.keyboard.press('Tab');
  for (const key of ['Tab', 'Space', 'Tab', 'Tab', 'Space', 'Tab', 'Space']) await page.keyboard.press(key);
  await says(page, /^Saved at /);
  const { answers, revision } = await attempt.saved();
  assert.deepEqual(answers, { 1: [2], 2: [1, 2] });
  assert.deepEqual(sends, Array.from({ length: revision }, (_, at) => at + 1));
  assert.ok(revision <= 2, `keys that follow each other are one save, not ${revision}`);

  await box(page, 1, 2).uncheck();
  await says(page, 'Saving…');
  await says(page, /^Saved at /);
  assert.deepEqual((({ answers, revision }) => [answers, revision])(await attempt.saved()), [{ 1: [], 2: [1, 2] }, revision + 1]);

  await page.reload();
  await says(page, 'All answers are saved');
  assert.deepEqual(await shown(page), ['q2.1', 'q2.2']);
  assert.deepEqual(page.errors, []);
});

test('an attempt with open questions is submitted when the button is pressed twice', limit, async (t) => {
  const attempt = await begin();
  const page = await open(await newContext(t), attempt);
  await box(page, 3, 1).check();
  await submit(page);
  await notes(page, '2 questions have no answer yet');
  assert.equal((await attempt.saved()).submitted_at, null);
  await submit(page);
  await notes(page, 'The attempt is submitted.');
  const { answers, submitted_at: at } = await attempt.saved();
  assert.ok(at !== null, 'the server knows');
  assert.deepEqual(answers, { 3: [1] }, 'with the answer of a moment ago');
  assert.equal(await page.locator('#sheet input:enabled').count(), 0);
  assert.equal(await page.getByRole('button').count(), 0);
  const late = await attempt.patch({ answers: {}, revision: 99 });
  assert.deepEqual([late.status, late.code], [409, 'already_submitted']);
});

test('answers without a connection are kept, and saved when it is back', limit, async (t) => {
  const attempt = await begin();
  const context = await newContext(t);
  let page = await open(context, attempt);
  await box(page, 1, 2).check();
  await says(page, /^Saved at /);

  await context.setOffline(true);
  await box(page, 2, 1).check();
  await says(page, 'No connection. Your answers are kept on this device and are sent again.');
  await box(page, 2, 2).check();
  await says(page, /^(Saving…|No connection)/);
  assert.deepEqual((await attempt.saved()).answers, { 1: [2] });
  await context.setOffline(false);
  await says(page, /^Saved at /);
  assert.deepEqual((await attempt.saved()).answers, { 1: [2], 2: [1, 2] });

  // The page is closed before the connection is back.
  await context.setOffline(true);
  await box(page, 3, 2).check();
  await says(page, 'No connection');
  await page.close();
  await context.setOffline(false);
  page = await open(context, attempt, /^Saved at /);
  assert.deepEqual(await shown(page), ['q1.2', 'q2.1', 'q2.2', 'q3.2']);
  assert.deepEqual((await attempt.saved()).answers, { 1: [2], 2: [1, 2], 3: [2] });

  // The server is killed, and started again.
  await server.kill();
  await box(page, 3, 2).uncheck();
  await says(page, 'No connection');
  await server.start();
  await says(page, /^Saved at /);
  assert.deepEqual((await attempt.saved()).answers, { 1: [2], 2: [1, 2], 3: [] });
  assert.deepEqual(page.errors, []);
});

test('a save whose answer is lost is sent again, and is no conflict', limit, async (t) => {
  const attempt = await begin();
  const context = await newContext(t);
  let page = await open(context, attempt);
  const sends = [];
  const lose = async (route) => {
    if (route.request().method() !== 'PATCH') return route.continue();
    sends.push(route.request().postDataJSON());
    if (sends.length === 1) {
      await route.fetch();
      return route.abort();
    }
    return route.continue();
  };
  await context.route(attempt.url, lose);
  await box(page, 1, 2).check();
  await says(page, 'No connection');
  assert.deepEqual((await attempt.saved()).answers, { 1: [2] }, 'it has arrived');
  await box(page, 2, 3).check();
  await says(page, /^Saved at /);
  const first = { answers: { 1: [2] }, revision: 1 };
  assert.deepEqual(sends, [first, first, { answers: { 1: [2], 2: [3] }, revision: 2 }]);

  // The same with a page that is closed meanwhile.
  sends.length = 0;
  await box(page, 3, 1).check();
  await says(page, 'No connection');
  await box(page, 3, 2).check();
  await page.close();
  page = await open(context, attempt, /^Saved at /);
  assert.equal(await page.getByRole('alert').count(), 0);
  const { answers, revision } = await attempt.saved();
  assert.deepEqual([answers, revision], [{ 1: [2], 2: [3], 3: [1, 2] }, 4]);
});

test('of two tabs the one that missed a save shows it, and overwrites nothing', limit, async (t) => {
  const attempt = await begin();
  const context = await newContext(t);
  const [one, other] = [await open(context, attempt), await open(await newContext(t), attempt)];
  await box(one, 1, 2).check();
  await says(one, /^Saved at /);

  // More changes than the first page has made.
  for (const choice of [1, 2, 3]) await box(other, 2, choice).check();
  await says(other, 'Saved on another page');
  await notes(other, /Newer answers were saved from another tab or device.*other answers to 1, 2: check them/);
  assert.deepEqual(await shown(other), ['q1.2']);
  assert.deepEqual((await attempt.saved()).answers, { 1: [2] });
  await box(other, 2, 1).check();
  await says(other, /^Saved at /);
  assert.equal(await other.getByRole('alert').count(), 0, 'it is not said for ever');
  assert.deepEqual((await attempt.saved()).answers, { 1: [2], 2: [1] });

  // A conflict that is found by Submit is looked at first.
  await box(one, 3, 1).check();
  await submit(one);
  await notes(one, 'other answers to 2, 3');
  assert.equal((await attempt.saved()).submitted_at, null);
  await box(one, 3, 1).check();
  await says(one, /^Saved at /);

  // Whoever comes back to a tab sees what was saved elsewhere.
  await other.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
  await other.locator('input[name="q3"]:checked').waitFor();
  await submit(other);
  await notes(other, 'The attempt is submitted.');
  await box(one, 3, 2).check();
  await notes(one, 'The attempt is submitted. It does not change any more.');
  await says(one, 'The last changes were not saved');
  assert.deepEqual((await attempt.saved()).answers, { 1: [2], 2: [1], 3: [1] });
});

test('a tab that was closed without a connection does not undo what another has saved', limit, async (t) => {
  const attempt = await begin();
  const context = await newContext(t);
  let page = await open(context, attempt);
  await context.setOffline(true);
  for (const choice of [1, 2]) await box(page, 2, choice).check();
  await says(page, 'No connection');
  await page.close();
  assert.equal((await attempt.patch({ answers: { 1: [3] }, revision: 1 })).status, 200);
  await context.setOffline(false);
  page = await open(context, attempt, 'Saved on another page');
  await notes(page, 'other answers to 1, 2: check them');
  assert.deepEqual(await shown(page), ['q1.3']);
  assert.deepEqual((await attempt.saved()).answers, { 1: [3] });
});

test('when the time is over the answers are submitted', limit, async (t) => {
  const attempt = await begin({ minutes: 2 });
  const context = await newContext(t);
  await context.clock.install();
  const page = await open(context, attempt);
  await box(page, 1, 2).check();
  await says(page, /^Saved at /);
  await context.clock.fastForward(70_000);
  await page.locator('#time.late').filter({ hasText: /^0:\d\d left$/ }).waitFor();

  await context.setOffline(true);
  await box(page, 2, 1).check();
  await context.clock.fastForward(60_000);
  await notes(page, 'The time is over. Your answers are being submitted.');
  await says(page, 'No connection');
  assert.equal(await page.locator('#sheet input:enabled').count(), 0);
  assert.equal((await attempt.saved()).submitted_at, null);
  await context.setOffline(false);
  await notes(page, 'The attempt is submitted.');
  await says(page, 'All answers are saved');
  const { answers, submitted_at: at } = await attempt.saved();
  assert.ok(at !== null);
  assert.deepEqual(answers, { 1: [2], 2: [1] });
  assert.deepEqual(page.errors, []);
});

test('an answer that comes after the time is refused, and the page says so', limit, async (t) => {
  const attempt = await begin();
  const page = await open(await newContext(t), attempt);
  await box(page, 1, 2).check();
  await says(page, /^Saved at /);
  await server.terminate();
  server.sql(`UPDATE attempts SET ends_at = saved_at - 20000 WHERE id = ${attempt.id}`);
  await box(page, 1, 3).check();
  await says(page, 'No connection');
  await server.start();
  await notes(page, 'The attempt is submitted.');
  await says(page, 'The last changes were not saved');
  const { answers, submitted_at: at } = await attempt.saved();
  assert.deepEqual(answers, { 1: [2] });
  assert.ok(at !== null);
});

test('the pages fit a phone and a desk, in light and dark', limit, async () => {
  const long = 'Which of these statements about the distribution of prime numbers below one hundred are true, and why?';
  const sheet = `${SHEET}\n\n${long}\nThere are ${'infinitely '.repeat(12)}many\n${'unbreakable'.repeat(12)}`;
  const { page: url, number } = await begin({ questions: 5, sheet });
  const more = async (page, where, colorScheme) => {
    const small = await page.locator('label:visible, button:visible').evaluateAll((all) => all.filter((one) => one.offsetHeight < 44).length);
    assert.equal(small, 0, `${where}: large enough for a finger`);
    const brightness = await colourOf(page);
    assert.ok(colorScheme === 'dark' ? brightness < 0.3 : brightness > 0.7, `${where}: ${brightness}`);
  };
  const look = (name, path, opened, options) =>
    lookAt(browser, name, async (page) => {
      await page.goto(path);
      await opened(page);
    }, options);
  await look('exam-attempt', url, async (page) => {
    await says(page, 'All answers are saved');
    await box(page, 1, 2).check();
    await submit(page);
    await notes(page, 'have no answer yet');
    await box(page, 1, 2).uncheck();
    await says(page, /^Saved at /);
    await submit(page);
    await page.evaluate(() => scrollTo(0, 0));
  }, { more });
  await look('exam-progress', `${server.url}/exams/${number}`, (page) => page.getByText('Ada').waitFor());
  await look('exam-start', server.url, (page) => page.getByRole('button', { name: 'Begin' }).waitFor(), { more });
});
