'use client';

import { useEffect, useState } from 'react';
import type { Subscription, User } from '@/lib/sarsen';

const AGAIN_AFTER_MS = 3000;

/** The plan, which stays up to date while the page is open: the site passes on the user's events. */
export function Plan(first: { name: string; subscription: Subscription }) {
  const [name, setName] = useState(first.name);
  const [subscription, setSubscription] = useState(first.subscription);
  const [connection, setConnection] = useState('Connecting …');

  useEffect(() => {
    return follow({
      user: (user) => setName(user.name),
      subscription: setSubscription,
      connected: () => setConnection('This page is up to date, and changes with your plan.'),
      lost: () => setConnection('The connection is lost. Trying again …'),
    });
  }, []);

  return (
    <>
      <h1>Hello <span id="name">{name}</span></h1>
      <section className="card">
        <p>Your plan is</p>
        <p id="plan" className="plan">{subscription.plan}</p>
        <ul id="features">{subscription.features.map((feature) => <li key={feature}>{feature}</li>)}</ul>
        {subscription.features.includes('export') && <p><a id="export" className="button" href="/export">Export</a></p>}
        <p id="connection" className="quiet" role="status">{connection}</p>
      </section>
    </>
  );
}

type Listener = {
  user: (user: User) => void;
  subscription: (subscription: Subscription) => void;
  connected: () => void;
  lost: () => void;
};

/** Passes the events of the signed-in user to the listener, until the function that it returns is called. */
function follow(listener: Listener): () => void {
  let events: EventSource;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const connect = () => {
    events = new EventSource('/events');
    const on = (name: string, act: (data: { user: User; subscription: Subscription }) => void) =>
      events.addEventListener(name, (event) => act(JSON.parse(event.data)));
    on('state', ({ user, subscription }) => {
      listener.user(user);
      listener.subscription(subscription);
      listener.connected();
    });
    on('subscription.changed', ({ subscription }) => listener.subscription(subscription));
    on('user.changed', ({ user }) => listener.user(user));
    // The sign-in has ended, here or at another product: the first page asks to sign in.
    on('session.revoked', () => {
      events.close();
      location.assign('/');
    });
    events.onerror = () => {
      listener.lost();
      // The browser comes back by itself after an interruption, but not after an error answer.
      if (events.readyState === EventSource.CLOSED) timer = setTimeout(connect, AGAIN_AFTER_MS * (1 + Math.random()));
    };
  };
  connect();
  return () => {
    clearTimeout(timer);
    events.close();
  };
}
