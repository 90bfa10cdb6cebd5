import { subscriptionOf, userOf } from '@/lib/sarsen';
import { currentSession } from '@/lib/session';
import { Plan } from './plan';

export default async function Home() {
  const session = await currentSession();
  const [user, subscription] = session ? await Promise.all([userOf(session), subscriptionOf(session)]) : [];
  // Links to routes are plain ones, because Next.js would load its own links before they are clicked.
  if (!user || !subscription) {
    return (
      <>
        <h1>Welcome</h1>
        <p>Sign in to see your plan, and what it includes.</p>
        <p><a className="button" href="/login">Sign in</a></p>
      </>
    );
  }
  return (
    <>
      <Plan name={user.name} subscription={subscription} />
      <form method="post" action="/logout">
        <p className="quiet">{user.email}</p>
        <button className="plain">Sign out</button>
      </form>
    </>
  );
}
