// Versions: states of the database, as text with a fixed width, `<epoch>.<number>`. Numbers of one epoch are ordered as
// text; an epoch is one history of the database (a restore begins another).

/** True if a client that holds `held` may replace it by `next`: it is not older, or belongs to another epoch. */
export function replaces(next: string | undefined, held: string | undefined): boolean {
  if (!next || !held) return true;
  const [nextEpoch, nextNumber] = split(next);
  const [heldEpoch, heldNumber] = split(held);
  return nextEpoch !== heldEpoch || nextNumber >= heldNumber;
}

function split(version: string): [string, string] {
  const dot = version.indexOf('.');
  return dot < 0 ? [version, ''] : [version.slice(0, dot), version.slice(dot + 1)];
}

/** True if a state of version `held` surely contains what was committed at `version`: one epoch, and not older. */
export function covers(held: string | undefined, version: string | undefined): boolean {
  return !!held && !!version && split(held)[0] === split(version)[0] && replaces(held, version);
}
