import type { NextRequest } from 'next/server';
import { eventsOf } from '@/lib/sarsen';
import { currentSession, endSession } from '@/lib/session';

/**
 * The events of the signed-in user, for the page that is open: Sarsen's own stream, passed on. It ends with its access token, and
 * the browser comes back by itself.
 */
export async function GET(request: NextRequest) {
  const session = await currentSession();
  const events = session && (await eventsOf(session, request.signal));
  if (!events) await endSession();
  return new Response(events ?? 'event: session.revoked\ndata: {}\n\n', {
    // Neither compressed here nor kept back by a proxy.
    headers: { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store, no-transform', 'X-Accel-Buffering': 'no' },
  });
}
