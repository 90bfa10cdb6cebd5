import { NextResponse } from 'next/server';
import { signOutUrl } from '@/lib/openid';
import { currentSession, endSession } from '@/lib/session';

/** By a form, because a link can be followed by accident. The cookie is not sent with forms of other sites. */
export async function POST() {
  const url = await signOutUrl(await currentSession());
  await endSession();
  return NextResponse.redirect(url, 303);
}
