import { cookies } from 'next/headers';
import { NextResponse, type NextRequest } from 'next/server';
import { nameOf, opened, optionsOf } from '@/lib/cookies';
import { finishSignIn } from '@/lib/openid';
import { beginSession } from '@/lib/session';
import { settings } from '@/lib/settings';

export async function GET(request: NextRequest) {
  const to = (path: string) => NextResponse.redirect(new URL(path, settings.baseUrl), 303);
  const kept = await cookies();
  const signIn = await opened('sign-in', kept.get(nameOf('sign-in'))?.value);
  kept.set(nameOf('sign-in'), '', { ...optionsOf('sign-in'), maxAge: 0 });
  if (!signIn) return to('/sign-in-failed');
  try {
    await beginSession(await finishSignIn(request.nextUrl.search, signIn));
  } catch (error) {
    // What went wrong is for the log. The words of a callback may be anybody's, so they are not shown.
    console.error(error);
    const isDenied = error instanceof Error && 'error' in error && error.error === 'access_denied';
    return to(isDenied ? '/sign-in-failed?why=denied' : '/sign-in-failed');
  }
  return to('/');
}
