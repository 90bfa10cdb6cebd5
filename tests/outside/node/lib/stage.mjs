// What the tests of accounts share: a demo, a browser, and a terminal in which the organization's administrator is
// signed in.

import { newPerson, startBrowser } from './browser.mjs';
import { startDemo } from './demo.mjs';
import { signInTerminal } from './terminal.mjs';

/** Its `demo`, `browser` and `terminal`; `anybody()` is a new person without JavaScript. `stop()` ends all three. */
export async function startStage() {
  const started = [];
  const stop = async () => {
    for (const end of started.reverse()) await end();
  };
  try {
    const demo = await startDemo();
    started.push(() => demo.stop());
    const browser = await startBrowser();
    started.push(() => browser.close());
    const terminal = await signInTerminal(demo, await newPerson(browser), demo.organization.admin);
    started.push(() => terminal.leave());
    return { demo, browser, terminal, anybody: () => newPerson(browser, { javaScriptEnabled: false }), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
