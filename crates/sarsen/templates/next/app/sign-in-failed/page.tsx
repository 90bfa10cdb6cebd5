export default async function SignInFailed({ searchParams }: { searchParams: Promise<{ why?: string }> }) {
  const { why } = await searchParams;
  return (
    <>
      <h1>The sign-in did not work</h1>
      <p>{why === 'denied' ? 'You did not allow it.' : 'It was not finished, or took too long.'}</p>
      <p><a className="button" href="/">Back to the first page</a></p>
    </>
  );
}
