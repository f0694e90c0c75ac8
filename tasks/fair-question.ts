/**
 * A question to a judge about a policy's text, which may be why the judge refuses it or says nothing that can be read.
 * So then the same is asked about the right answer: if the judge answers that, the policy's text is at fault, and the
 * work is graded. Else the judge is, and there is no verdict.
 */

export interface FairQuestion<T> {
  /** In this order, until a reply can be read. */
  readonly questions: readonly string[];
  /** The first question about the right answer. */
  readonly control: string;
  readonly ask: (question: string) => Promise<string>;
  /** `undefined`: the reply cannot be read. */
  readonly read: (reply: string) => T | undefined;
}

/** By its name: the class belongs to those who ask the server. */
const isRefusal = (error: unknown): boolean => error instanceof Error && error.name === 'QuestionRefused';

/** What the judge says; `undefined`: the policy's text is why it says nothing. Errors: `Unjudged`; those of `ask`. */
export async function fairAnswer<T>({ questions, control, ask, read }: FairQuestion<T>): Promise<T | undefined> {
  let why = '';
  for (const question of questions) {
    try {
      const reply = await ask(question);
      const said = read(reply);
      if (said !== undefined) return said;
      why = `it replied ${JSON.stringify(reply.slice(0, 200))}`;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      why = (error as Error).message;
    }
  }
  if (read(await ask(control)) !== undefined) return undefined;
  throw new Unjudged(`the judge says nothing about the right answer either: ${why}`);
}

/** The judge is at fault. */
export class Unjudged extends Error {
  override readonly name = 'Unjudged';
}
