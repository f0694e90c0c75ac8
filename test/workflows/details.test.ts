/** Hunts Markdown, HTML and links in Temporal's UI that a policy wrote. Not asserted: how the UI draws them. */
import { expect, it } from 'vitest';
import { inCode } from '../../workflows/details.ts';

it.each([
  ['bash ls', '`bash ls`'],
  ['2. a list', '`2. a list`'],
  [
    '![x](https://evil.example/a.png) <img src=x> www.evil.example',
    '`![x](https://evil.example/a.png) <img src=x> www.evil.example`',
  ],
  ['a `b` c', '`` a `b` c ``'],
  ['`` ` ```` x', '````` `` ` ```` x `````'],
  ['one\n\n# two\r\u2028three\u202E', '`one # two three`'],
  ['', ''],
  [' \n ', ''],
])('%j is shown as %j', (text, shown) => {
  expect(inCode(text)).toBe(shown);
});
