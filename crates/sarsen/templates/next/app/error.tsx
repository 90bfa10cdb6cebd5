'use client';

/** When Sarsen cannot be asked, for example. The log of the site says what failed. */
export default function Failed() {
  return (
    <>
      <h1>Something failed</h1>
      <p>The log of the site says what. Try again in a moment.</p>
      <p><a className="button" href="/">Back to the first page</a></p>
    </>
  );
}
