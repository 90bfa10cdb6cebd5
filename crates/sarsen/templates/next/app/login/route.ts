import { cookies } from 'next/headers';
import { NextResponse } from 'next/server';
import { nameOf, optionsOf, sealed } from '@/lib/cookies';
import { beginSignIn } from '@/lib/openid';

export async function GET() {
  const { url, signIn } = await beginSignIn();
  (await cookies()).set(nameOf('sign-in'), await sealed('sign-in', signIn), optionsOf('sign-in'));
  return NextResponse.redirect(url, 303);
}
