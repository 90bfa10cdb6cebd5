// The pages. `html` escapes every value, so that a name cannot become a part of the page.

const PRODUCT = 'My product';

class Html {
  constructor(text) {
    this.text = text;
  }
  toString() {
    return this.text;
  }
}

function html(parts, ...values) {
  const shown = (value) => {
    if (Array.isArray(value)) return value.map(shown).join('');
    if (value instanceof Html) return value.text;
    return String(value).replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
  };
  return new Html(String.raw({ raw: parts }, ...values.map(shown)));
}

function page(title, content, script = '') {
  return html`<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>${title}</title>
  <link rel="icon" href="data:,">
  <link rel="stylesheet" href="/site.css">
  ${script}
</head>
<body>
  <header><a href="/">${PRODUCT}</a></header>
  <main>${content}</main>
</body>
</html>`.text;
}

/** For a visitor who is not signed in. */
export function welcomePage() {
  return page(PRODUCT, html`
    <h1>Welcome</h1>
    <p>Sign in to see your plan, and what it includes.</p>
    <p><a class="button" href="/login">Sign in</a></p>`);
}

/** For a signed-in user. `public/plan.js` keeps it up to date while it is open. */
export function homePage(user, subscription) {
  const { plan, features } = subscription;
  const hidden = features.includes('export') ? '' : html` hidden`;
  return page(PRODUCT, html`
    <h1>Hello <span id="name">${user.name}</span></h1>
    <section class="card">
      <p>Your plan is</p>
      <p id="plan" class="plan">${plan}</p>
      <ul id="features">${features.map((feature) => html`<li>${feature}</li>`)}</ul>
      <p><a id="export" class="button" href="/export"${hidden}>Export</a></p>
      <p id="connection" class="quiet" role="status">Connecting …</p>
    </section>
    <form method="post" action="/logout">
      <p class="quiet">${user.email}</p>
      <button class="plain">Sign out</button>
    </form>`, html`<script type="module" src="/plan.js"></script>`);
}

/** When something did not work. */
export function errorPage(title, text) {
  return page(title, html`<h1>${title}</h1><p>${text}</p><p><a class="button" href="/">Back to the first page</a></p>`);
}
