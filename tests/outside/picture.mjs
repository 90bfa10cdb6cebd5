// Makes the picture of the README, docs/pictures/demo.png, from a demo that runs: the sign-in of the demo's organization, a
// product that knows the plan, and the same page, still open, after the plan was changed from a terminal.
//
//     cargo build && (cd tests/outside && npm ci && node picture.mjs)

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { newPerson, walk } from './node/lib/browser.mjs';
import { ROOT } from './node/lib/demo.mjs';
import { startStage } from './node/lib/stage.mjs';

const [WIDTH, HEIGHT] = [430, 560];
const OUT = join(ROOT, 'docs/pictures/demo.png');

const stage = await startStage();
try {
  const { demo, browser, terminal } = stage;
  const ada = demo.user('ada');
  const product = demo.products[0];
  const page = await newPerson(browser, { viewport: { width: WIDTH, height: HEIGHT }, deviceScaleFactor: 1.5 });
  const shot = async () => `data:image/png;base64,${(await page.screenshot()).toString('base64')}`;

  await page.goto(product.url);
  await page.getByRole('link', { name: /sign in/i }).or(page.getByRole('button', { name: /sign in/i })).first().click();
  await page.locator('input[name="password"]').waitFor();
  await page.locator('input[name="email"]').fill(ada.email);
  const signIn = { image: await shot(), address: page.url() };
  const isKnown = async () => page.url().startsWith(product.url) && (await page.innerText('body')).includes(ada.email);
  await walk(page, { user: ada, done: isKnown });
  const before = { image: await shot(), address: page.url() };

  const change = ['subscription', 'change', '--org', demo.organization.slug, '--user', ada.email, '--plan', 'starter'];
  await terminal.run(...change);
  await page.waitForFunction(() => /your plan\s+starter\b/i.test(document.body.innerText));
  const after = { image: await shot(), address: page.url() };

  const frames = [
    { ...signIn, title: 'One sign-in for all products' },
    { ...before, title: 'Each product knows what ada may use' },
    { ...after, title: 'A change shows on the open page', below: `sarsen ${change.join(' ')}` },
  ];
  await mkdir(join(ROOT, 'docs/pictures'), { recursive: true });
  const board = await newPerson(browser, { viewport: { width: 1440, height: 760 }, deviceScaleFactor: 1 });
  await board.setContent(html(frames));
  await board.screenshot({ path: OUT });
  console.log(OUT);
} finally {
  await stage.stop();
}

function html(frames) {
  const shown = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  const short = (address) => {
    const { host, pathname } = new URL(address);
    return shown(`${host.replace(/:\d+$/, ':7070')}${pathname}`);
  };
  const frame = ({ image, address, title, below }) => `
    <figure>
      <figcaption>${shown(title)}</figcaption>
      <div class="window"><p class="bar"><i></i><i></i><i></i><span>${short(address)}</span></p><img src="${image}"></div>
      ${below ? `<pre>$ ${shown(below)}</pre>` : ''}
    </figure>`;
  return `<!doctype html><style>
    body { margin: 0; padding: 28px 36px; background: #e9edf2; font: 16px/1.4 system-ui, sans-serif; color: #1c2430;
      display: flex; gap: 32px; align-items: flex-start; justify-content: center; }
    figure { margin: 0; width: 430px; }
    figcaption { font-weight: 600; margin: 0 0 12px; }
    .window { border-radius: 10px; overflow: hidden; box-shadow: 0 6px 24px #1c243033; background: #fff; }
    .bar { margin: 0; padding: 8px 12px; background: #d5dbe3; display: flex; gap: 6px; align-items: center; font-size: 13px; }
    .bar i { width: 11px; height: 11px; border-radius: 50%; background: #a9b3c0; }
    .bar span { margin-left: 10px; background: #fff; border-radius: 6px; padding: 2px 10px; flex: 1; }
    img { display: block; width: 430px; }
    pre { margin: 14px 0 0; padding: 10px 12px; border-radius: 8px; background: #1c2430; color: #e9edf2; font-size: 12.5px;
      white-space: pre-wrap; }
  </style>${frames.map(frame).join('')}`;
}
