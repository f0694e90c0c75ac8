/**
 * Cuts a long context into sections that a policy reads one after the other. Documents (`Document 3:`) stay whole where
 * they fit; no text is lost and none is repeated.
 */

/** About the characters of a token, where no tokenizer is at hand. */
const CHARACTERS_A_TOKEN = 4;
const DOCUMENT = /^(?=Document \d{1,9}:)/m;

/** Parts of at most `most` characters, cut at a line end, a space, or anywhere. */
function cut(text: string, most: number): string[] {
  const parts: string[] = [];
  for (let from = 0; from < text.length;) {
    if (text.length - from <= most) {
      parts.push(text.slice(from));
      break;
    }
    const ends = ['\n', ' '].map((end) => text.lastIndexOf(end, from + most - 1) + 1);
    const to = ends.find((end) => end > from + most / 2) ?? from + most;
    // A pair of surrogates stays together.
    const whole = /[\ud800-\udbff]/.test(text[to - 1] ?? '') && to - 1 > from ? to - 1 : to;
    parts.push(text.slice(from, whole));
    from = whole;
  }
  return parts;
}

/** The sections, in order, each of about `tokens` tokens at most. At least one. */
export function sectionsOf(context: string, tokens: number): string[] {
  const most = tokens * CHARACTERS_A_TOKEN;
  const sections: string[] = [];
  let open = '';
  for (const document of context.split(DOCUMENT)) {
    if (open.length + document.length <= most) {
      open += document;
      continue;
    }
    if (open !== '') sections.push(open);
    const parts = cut(document, most);
    open = parts.pop() ?? '';
    sections.push(...parts);
  }
  return open === '' && sections.length > 0 ? sections : [...sections, open];
}
