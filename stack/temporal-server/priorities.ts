/** What a cluster's version says of priority keys: by them training's work goes before that of sweeps in its queues. */

/** The first whose matcher looks at priority keys without being told to. */
const LOOKS_FROM = [1, 31] as const;

/** A word on a server that may not; none where the version says nothing. */
export function noteOnPriorities(version: string): string[] {
  const [, major = '', minor = ''] = /^v?(\d+)\.(\d+)/u.exec(version) ?? [];
  if (major === '') return [];
  const late = Number(major) > LOOKS_FROM[0] || (Number(major) === LOOKS_FROM[0] && Number(minor) >= LOOKS_FROM[1]);
  return late
    ? []
    : [
        `server ${version}: its queues give out training's work before that of sweeps with matching.useNewMatcher: true alone`,
      ];
}
