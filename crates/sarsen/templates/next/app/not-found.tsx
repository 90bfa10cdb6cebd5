export default function NotFound() {
  return (
    <>
      <h1>There is no such page</h1>
      <p>Check the address.</p>
      <p><a className="button" href="/">Back to the first page</a></p>
    </>
  );
}
