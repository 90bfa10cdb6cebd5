// Shows a changed plan on the open page of a sample product. Without this script the page shows it when it is loaded again.

const EVENTS = ['state', 'subscription.changed', 'user.changed', 'service.changed', 'session.revoked'];
const main = document.querySelector('main');
const { live } = document.querySelector('[data-live]').dataset;
let source;
let isLoading = false;
let loadAgain = false;

/** Loads the page again, one request at a time, and shows what is new. */
async function load() {
  loadAgain = true;
  if (isLoading) return;
  isLoading = true;
  while (loadAgain) {
    loadAgain = false;
    try {
      const answer = await fetch(location.href);
      if (answer.ok) show(await answer.text());
    } catch {
      // The server is away. The stream begins with its state when it is back.
    }
  }
  isLoading = false;
}

/** Leaves the page alone, and the focus where it is, if nothing has changed. */
function show(text) {
  const found = new DOMParser().parseFromString(text, 'text/html').querySelector('main');
  if (found.innerHTML !== main.innerHTML) main.replaceChildren(...found.childNodes);
}

/** Browsers open six connections to a server by HTTP/1.1, so only tabs that are seen have a stream. */
function follow() {
  source?.close();
  if (document.hidden) return;
  source = new EventSource(live);
  for (const name of EVENTS) source.addEventListener(name, load);
}

document.addEventListener('visibilitychange', follow);
follow();
