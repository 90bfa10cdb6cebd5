import { subscriptionOf } from '@/lib/sarsen';
import { currentSession } from '@/lib/session';

/** A part of the product that not every plan has. The page hides its button, and this decides. */
export async function GET() {
  const session = await currentSession();
  const subscription = session && (await subscriptionOf(session));
  if (!subscription) return new Response('Sign in first.\n', { status: 401 });
  if (!subscription.features.includes('export')) {
    return new Response('Your plan has no export. Plans with the feature “export” have it.\n', { status: 403 });
  }
  return new Response('name,made\nFirst drawing,2026-01-31\n', {
    headers: { 'Content-Type': 'text/csv', 'Content-Disposition': 'attachment; filename="export.csv"' },
  });
}
