/** True if a client that holds `held` may replace it by `next`: it is not older, or belongs to another epoch. */
export declare function replaces(next: string | undefined, held: string | undefined): boolean;
/** True if a state of version `held` surely contains what was committed at `version`: one epoch, and not older. */
export declare function covers(held: string | undefined, version: string | undefined): boolean;
