import type { Metadata } from 'next';
import type { ReactNode } from 'react';
import './site.css';

export const metadata: Metadata = { title: 'My product', icons: 'data:,' };
export const dynamic = 'force-dynamic'; // Each page depends on who asks.

export default function Layout({ children }: { children: ReactNode }) {
  return (
    <html lang="en">
      <body>
        <header><a href="/">My product</a></header>
        <main>{children}</main>
      </body>
    </html>
  );
}
