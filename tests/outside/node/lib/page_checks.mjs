// What can be measured of a page: its width, its labels, the way of the Tab key, its brightness. And pictures of it, in
// target/screenshots/.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { newPerson } from './browser.mjs';
import { ROOT } from './demo.mjs';

const SHOTS = join(ROOT, 'target/screenshots');
const WIDTHS = [390, 1280];
const SCHEMES = ['light', 'dark'];

/**
 * Looks at what `open` opens, on a phone and a desk, in light and dark. `status` is what the page itself answers;
 * `more(page, where, colorScheme)` checks what is particular to a page. The picture of a page that `isLong` shows its top.
 */
export async function lookAt(browser, name, open, { status = 200, more, isLong = false } = {}) {
  for (const width of WIDTHS) {
    for (const colorScheme of SCHEMES) {
      const where = `${name} at ${width} px, ${colorScheme}`;
      const page = await newPerson(browser, { viewport: { width, height: 844 }, colorScheme });
      const trouble = listenForTrouble(page);
      await open(page);
      await page.screenshot({ path: join(SHOTS, `${name}-${width}-${colorScheme}.png`), fullPage: !isLong });
      assert.equal(await horizontalScroll(page), 0, `${where}: wider than the screen by so many pixels`);
      assert.deepEqual(await unlabelled(page), [], `${where}: each field has a label`);
      await more?.(page, where, colorScheme);
      const unexpected = trouble.filter((line) => status === 200 || !line.includes(String(status)));
      assert.deepEqual(unexpected, [], `${where}: nothing in the browser's console, no failed request`);
      await page.context().close();
    }
  }
}

/** Collects what a browser complains about; an empty list is what we want. */
function listenForTrouble(page) {
  const trouble = [];
  page.on('console', (message) => {
    if (message.type() === 'error') trouble.push(`console: ${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => trouble.push(`script: ${error.message}`));
  page.on('requestfailed', (request) => {
    const { errorText } = request.failure() ?? {};
    // The browser gives up on a picture when the next page is opened before it has come.
    if (errorText !== 'net::ERR_ABORTED') trouble.push(`no answer: ${request.url()} ${errorText}`);
  });
  page.on('response', (response) => {
    if (response.status() >= 400) trouble.push(`${response.status()}: ${response.url()}`);
  });
  return trouble;
}

/** How many pixels the page is wider than the window. */
const horizontalScroll = (page) =>
  page.evaluate(() => Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth));

/** Fields that a screen reader could not name. */
const unlabelled = (page) =>
  page.evaluate(() => {
    const fields = [...document.querySelectorAll('input:not([type="hidden"]), select, textarea')];
    const shown = fields.filter((field) => field.getClientRects().length > 0);
    const text = (id) => document.getElementById(id)?.textContent.trim() ?? '';
    const named = (field) =>
      [...(field.labels ?? [])].some((label) => label.textContent.trim()) ||
      field.getAttribute('aria-label')?.trim() ||
      (field.getAttribute('aria-labelledby') ?? '').split(' ').some(text);
    return shown.filter((field) => !named(field)).map((field) => field.outerHTML);
  });

/**
 * Presses Tab from the top of the page until the focus is on a button that sends the form with `field`;
 * how many times, or 0 if it was never reached.
 */
export async function tabsTo(page, field, most) {
  await page.evaluate(() => document.activeElement?.blur?.());
  for (let tabs = 1; tabs <= most; tabs += 1) {
    await page.keyboard.press('Tab');
    const there = await page.evaluate((name) => {
      const button = document.activeElement;
      return button?.type === 'submit' && button.form?.querySelector(`[name="${name}"]`) !== null;
    }, field);
    if (there) return tabs;
  }
  return 0;
}

/** The brightness of the page's background, from 0 (black) to 1 (white). */
export const colourOf = (page) =>
  page.evaluate(() => {
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 1;
    const pen = canvas.getContext('2d');
    pen.fillStyle = matchMedia('(prefers-color-scheme: dark)').matches && getComputedStyle(document.documentElement).colorScheme.includes('dark') ? 'black' : 'white';
    pen.fillRect(0, 0, 1, 1);
    for (const element of [document.documentElement, document.body]) {
      pen.fillStyle = getComputedStyle(element).backgroundColor;
      pen.fillRect(0, 0, 1, 1);
    }
    const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
  });
