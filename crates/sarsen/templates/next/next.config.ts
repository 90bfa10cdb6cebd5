import type { NextConfig } from 'next';

const config: NextConfig = {
  poweredByHeader: false,
  headers: async () => [{
    source: '/:path*',
    headers: [
      { key: 'Referrer-Policy', value: 'no-referrer' },
      { key: 'X-Content-Type-Options', value: 'nosniff' },
    ],
  }],
};

export default config;
