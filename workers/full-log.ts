/** A log that cannot be written, on a full disk above all, ends no process: its lines are lost until there is room again. */

/** Of this process's own output. To be called once, before anything is said. */
export function outliveFullLog(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
}
