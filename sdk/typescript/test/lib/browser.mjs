// What tabs of one browser share, in one process: locks whose requests the test can delay or refuse, and a document.

/** Makes this process look like a browser. Clients of one `url` and caller are its tabs. */
export function startBrowser(t) {
  const newDocument = () => Object.assign(new EventTarget(), { visibilityState: 'visible' });
  const browser = { locks: new Locks(), document: newDocument() };
  const globals = { document: browser.document, navigator: { locks: browser.locks } };
  for (const [name, value] of Object.entries(globals)) {
    const before = Object.getOwnPropertyDescriptor(globalThis, name);
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
    t.after(() => (before ? Object.defineProperty(globalThis, name, before) : delete globalThis[name]));
  }
  /** Clients that are made from now on are in another tab. */
  browser.open = () => (globalThis.document = browser.document = newDocument());
  /** As if the user came back to the newest tab. */
  browser.look = () => browser.document.dispatchEvent(new Event('visibilitychange'));
  return browser;
}

/** A `LockManager` with exclusive locks. */
class Locks {
  /** Resolves when the request reaches the manager; rejects if there are no locks for it. */
  arrive = async () => {};
  #held = new Map();
  #queue = [];

  async request(name, ...rest) {
    const run = rest.pop();
    const { signal, steal } = rest[0] ?? {};
    await this.arrive(name);
    signal?.throwIfAborted();
    if (steal) this.#held.get(name)?.reject(new DOMException('stolen', 'AbortError'));
    if (steal) this.#held.delete(name);
    await new Promise((granted, reject) => {
      const waiting = { name, granted };
      const leave = () => {
        this.#queue = this.#queue.filter((other) => other !== waiting);
        reject(signal.reason);
      };
      signal?.addEventListener('abort', leave, { once: true });
      waiting.done = () => signal?.removeEventListener('abort', leave);
      if (steal) this.#queue.unshift(waiting);
      else this.#queue.push(waiting);
      this.#grant();
    });
    const holder = this.#held.get(name);
    const stolen = new Promise((_, reject) => (holder.reject = reject));
    stolen.catch(() => {});
    try {
      return await Promise.race([run(), stolen]);
    } finally {
      if (this.#held.get(name) === holder) this.#held.delete(name);
      this.#grant();
    }
  }

  #grant() {
    for (const waiting of [...this.#queue]) {
      if (this.#held.has(waiting.name)) continue;
      this.#queue = this.#queue.filter((other) => other !== waiting);
      this.#held.set(waiting.name, { reject: () => {} });
      waiting.done();
      waiting.granted();
    }
  }
}
