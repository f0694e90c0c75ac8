/** Does one thing after the other, whichever of them fails. Errors: the first one, when all have been tried. */
export async function allOf(things: ReadonlyArray<() => Promise<unknown>>): Promise<void> {
  const failed: unknown[] = [];
  for (const thing of things) await thing().catch((error: unknown) => failed.push(error));
  if (failed.length > 0) throw failed[0];
}
